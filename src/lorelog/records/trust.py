"""What a record is worth: one pure function over records, and nothing that a record says about itself.

A record becomes verified when it speaks for another writer's record. It is the countersigning record that is verified; the one
it speaks for stays what it is and shows by whom it was verified. The conditions are memd's five, with stricter ones where
memd's can be slipped past: names are compared as a reader would see them, what was superseded before cannot be verified any
more, nothing after a break of the ledger counts, text from a tool or an import vouches for nothing unless it is signed, and
whoever has taken their word back speaks for nothing any more.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from lorelog.core.record import DIGEST, DIGEST_TRUST, FOREIGN, Promotion, Record, Tier, Trust

COUNTERSIGNING = frozenset({"review", "revision", "verification", "decision"})
"""Kinds that can speak for another record."""

Signer = Callable[[Record], str]
"""Returns the key that a record is truly signed with, empty where there is none. Two names for one key are one key."""

_UNSEEN = frozenset(
    [0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10)]
)
"""Characters that show nothing and are no format characters by their category."""

_ALIKE = str.maketrans(
    # Cyrillic, Greek, Armenian and others that a reader takes for the Latin letter below them.
    "аеорсухіјѕԁһӏԛԝвкмнтѵԍοαινρτυχκϲϳωσօսհոցյգɑɡıɩʏⅼ",
    "aeopcyxijsdhlqwbkmhtvgoaivptuxkcjwoouhngjqagiiyl",
)
_ALIKE_CAPITALS = str.maketrans("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿ", "abezhikmnoptyxcj")
"""Before case is folded: some Greek letters look Latin as capitals, and like another letter when they are small."""

_FOLDS = 5


@dataclass(frozen=True, slots=True)
class Standing:
    """What the rest of the ledger says of a record."""

    superseded: str = ""
    """What had superseded the record that it replies to when it was written; empty where nothing had."""
    withdrawn: str = ""
    """The record in which its own writer took it back; empty where nobody did."""
    verified_by: tuple[str, ...] = ()
    signed_by: tuple[str, ...] = ()
    tainted: bool = False


ALONE = Standing()


def unsigned(record: Record) -> str:
    """Take no record for signed: where no keys are known, no signature proves anything."""
    return ""


@lru_cache(maxsize=10_000)
def identity(agent: str) -> str:
    """Return a writer's name as it is compared: what a reader cannot tell apart is the same."""
    for _ in range(
        _FOLDS
    ):  # what one step leaves behind may fold once more: a mark joins its letter when nothing is between
        folded = _folded(agent)
        if folded == agent:
            break
        agent = folded
    return agent


@lru_cache(maxsize=10_000)
def likeness(agent: str) -> str:
    """Return a writer's name as a hasty reader sees it, whatever alphabets its letters are of.

    Two that are alike do not count as two. Neither are they one: nobody signs for a name that only looks like theirs.
    """
    capitals = unicodedata.normalize("NFKC", agent).translate(_ALIKE_CAPITALS)
    return identity(capitals).translate(_ALIKE)


def judge(record: Record, parent: Record | None, standing: Standing = ALONE, signer: Signer = unsigned) -> Trust:
    """Return what a record is worth. `parent` is the record of the same tenant that it replies to."""
    if record.kind == DIGEST:
        return replace(DIGEST_TRUST, tainted=standing.tainted)
    promotion, why = _promotion(record, parent, standing, signer)
    key = signer(record)
    trust = Trust(
        Tier.CANONICAL,
        "a record of the ledger; one writer said it",
        requires_verification=False,
        verified_by=standing.verified_by,
        signed_by=standing.signed_by,
        signed=bool(key),
        promotion=promotion,
        promotion_reason=why,
        tainted=standing.tainted,
    )
    if promotion is Promotion.GRANTED and parent is not None:
        reason = "it speaks for the record of another writer"
        return replace(trust, tier=Tier.VERIFIED, reason=reason, signed=bool(key and signer(parent)))
    if not record.verified:
        return replace(trust, reason="the ledger is broken at or before this record", requires_verification=True)
    if standing.verified_by:
        return replace(trust, reason="a record of the ledger; another writer speaks for it")
    if standing.tainted:
        reason = "it rests on what a tool or an import brought, and nobody speaks for it"
        return replace(trust, reason=reason, requires_verification=True)
    return trust


def tiers(records: Iterable[Record], signer: Signer = unsigned) -> dict[str, Trust]:
    """Return what each record of one tenant is worth, by id.

    What is given must be the whole ledger, or what `RecordTables.around` gives for those that matter. Of two lines with one id
    the first counts.
    """
    known: dict[str, Record] = {}
    for record in sorted(records, key=lambda one: one.seq):
        known.setdefault(record.id, record)
    superseding = _superseding(known.values())
    withdrawn = _withdrawn(known, signer)
    tainted = _tainted(known)
    standings = {
        one.id: Standing(_superseded_before(one, superseding), withdrawn.get(one.id, ""), tainted=one.id in tainted)
        for one in known.values()
    }
    judged = {one.id: judge(one, known.get(one.reply_to), standings[one.id], signer) for one in known.values()}
    speakers: dict[str, list[str]] = defaultdict(list)
    for one in known.values():
        if judged[one.id].promotion is Promotion.GRANTED:
            speakers[one.reply_to].append(one.id)
    for spoken_for, by in speakers.items():
        one = known[spoken_for]
        signed = tuple(name for name in by if judged[name].signed)
        standing = replace(standings[spoken_for], verified_by=tuple(by), signed_by=signed)
        judged[spoken_for] = judge(one, known.get(one.reply_to), standing, signer)
    return judged


def rests_on(record: Record) -> tuple[str, ...]:
    """Return the ids of the records that a record derives from."""
    near = (record.reply_to, record.supersedes, *record.texts("related_artifact_ids"))
    return tuple(dict.fromkeys(one for one in near if one and one != record.id))


def _folded(name: str) -> str:
    shown = (one for one in name if ord(one) not in _UNSEEN and unicodedata.category(one) not in {"Cf", "Cs", "Cn"})
    spaced = "".join(" " if unicodedata.category(one) == "Cc" else one for one in shown)
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", spaced).casefold()).split())


def _promotion(record: Record, parent: Record | None, standing: Standing, signer: Signer) -> tuple[Promotion, str]:
    if record.kind not in COUNTERSIGNING:
        return Promotion.NONE, ""
    if record.supports_claim is not True:
        return Promotion.NONE, "it does not say that it supports what it replies to" if record.reply_to else ""
    refused = _refusal(record, parent, standing, signer)
    return (Promotion.REFUSED, refused) if refused else (Promotion.GRANTED, "another writer's record is supported")


def _refusal(record: Record, parent: Record | None, standing: Standing, signer: Signer) -> str:
    """Return why a record that speaks for another does not count; empty when it does."""
    if not identity(record.agent):
        return "its writer has no name"
    if not record.reply_to:
        return "it replies to no record"
    if parent is None or parent.id != record.reply_to:
        return "the record that it replies to is not in this tenant's ledger"
    key = signer(record)
    reasons = (
        (not (record.verified and parent.verified), "the ledger is broken at or before it"),
        (parent.kind == DIGEST, "it replies to a digest"),
        (parent.seq >= record.seq, "it replies to a record that was written after it"),
        (standing.superseded, f"the record that it replies to had been superseded by {standing.superseded}"),
        (standing.withdrawn, f"its writer has taken it back, in {standing.withdrawn}"),
        (not identity(parent.agent), "the writer of the record that it replies to has no name"),
        (likeness(parent.agent) == likeness(record.agent), "it and the record that it replies to have the same writer"),
        (key and key == signer(parent), "it and the record that it replies to are signed with the same key"),
        (
            record.origin in FOREIGN and not key,
            f"text of origin {record.origin!r} speaks for nothing unless it is signed",
        ),
    )
    return next((why for applies, why in reasons if applies), "")


def _superseding(records: Iterable[Record]) -> Mapping[str, Record]:
    """Return the first record that supersedes each record that is superseded."""
    first: dict[str, Record] = {}
    for record in records:
        if record.supersedes and record.supersedes != record.id:
            first.setdefault(record.supersedes, record)
    return first


def _superseded_before(record: Record, superseding: Mapping[str, Record]) -> str:
    first = superseding.get(record.reply_to) if record.reply_to else None
    return first.id if first is not None and first.seq < record.seq else ""


def _withdrawn(known: Mapping[str, Record], signer: Signer) -> dict[str, str]:
    """Return what their own writers have taken back, and in which record first.

    That is whoever, later, does not support the same record any more, or puts something that does not in the place of what they
    had said. Imported text takes nothing back, nor does an unsigned record what was signed.
    """
    against: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for one in known.values():
        if one.kind in COUNTERSIGNING and one.supports_claim is False:
            for about in {one.reply_to, one.supersedes} - {""}:
                against[about, identity(one.agent)].append(one)
    found: dict[str, str] = {}
    for one in known.values():
        if against and one.kind in COUNTERSIGNING and one.supports_claim is True:
            writer = identity(one.agent)
            later = [*against.get((one.reply_to, writer), ()), *against.get((one.id, writer), ())]
            by = min((other for other in later if _takes_back(other, one, signer)), key=_seq, default=None)
            if by is not None:
                found[one.id] = by.id
    return found


def _takes_back(later: Record, said: Record, signer: Signer) -> bool:
    if later.seq <= said.seq:
        return False
    key = signer(said)
    return signer(later) == key if key else later.origin != "import"


def _seq(record: Record) -> int:
    return record.seq


def _tainted(known: Mapping[str, Record]) -> set[str]:
    """Return the ids of what is, or rests on, text of a foreign origin, by however many steps."""
    resting: dict[str, list[str]] = defaultdict(list)
    for record in known.values():
        for other in rests_on(record):
            resting[other].append(record.id)
    found = {record.id for record in known.values() if record.origin in FOREIGN}
    waiting = list(found)
    while waiting:
        for one in resting[waiting.pop()]:
            if one not in found:
                found.add(one)
                waiting.append(one)
    return found
