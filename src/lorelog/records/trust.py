"""Compute the trust of records: a pure function of the ledger, independent of anything a record claims about itself.

A record becomes verified when it supports another writer's record. It is the supporting record that is verified; the
supported one keeps its tier and lists the records that verify it. The conditions are memd's five, made stricter where
memd's can be bypassed: names are compared as a reader sees them, a record that was already superseded cannot be verified,
nothing after a break of the ledger counts, text from a tool or an import supports nothing unless it is signed, and a
writer's later withdrawal ends their support.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.record import (
    DIGEST_KIND,
    DIGEST_TRUST,
    REDACTED_TRUST,
    UNTRUSTED_ORIGINS,
    Promotion,
    Record,
    Trust,
    TrustTier,
)

COUNTERSIGNING_KINDS = frozenset({"review", "revision", "verification", "decision"})
"""Kinds that can support another record."""

SigningKeyLookup = Callable[[Record], str]
"""Returns the key of a record's valid signature, or an empty text. The same key under two names is one key."""

_INVISIBLE_CHARS = frozenset(
    [0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10)]
)
"""Invisible characters that are not format characters by category."""

_CONFUSABLES = str.maketrans(
    # Cyrillic, Greek, Armenian and other letters that look like the Latin letter below them.
    "аеорсухіјѕԁһӏԛԝвкмнтѵԍοαινρτυχκϲϳωσօսհոցյգɑɡıɩʏⅼ",
    "aeopcyxijsdhlqwbkmhtvgoaivptuxkcjwoouhngjqagiiyl",
)
_CONFUSABLE_CAPITALS = str.maketrans("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿ", "abezhikmnoptyxcj")
"""Applied before case folding: some Greek capitals look Latin, while their small letters look different."""

_MAX_FOLDS = 5


class TrustEvidence(Struct, frozen=True):
    """Facts about a record from the rest of the ledger."""

    superseded: str = ""
    """Id of the record that had already superseded its parent when it was written; else empty."""
    withdrawn: str = ""
    """Id of the record in which its own writer withdrew it; else empty."""
    verified_by: tuple[str, ...] = ()
    signed_by: tuple[str, ...] = ()
    tainted: bool = False


NO_EVIDENCE = TrustEvidence()


def no_signing_key(record: Record) -> str:
    """Treat every record as unsigned: without known keys a signature proves nothing."""
    return ""


@lru_cache(maxsize=10_000)
def writer_identity(agent: str) -> str:
    """Return a writer's name for comparison: names that look identical are equal."""
    for _ in range(_MAX_FOLDS):  # a fold may enable another: a mark joins its letter once nothing is between them
        visible = (
            letter
            for letter in agent
            if ord(letter) not in _INVISIBLE_CHARS and unicodedata.category(letter) not in {"Cf", "Cs", "Cn"}
        )
        spaced = "".join(" " if unicodedata.category(letter) == "Cc" else letter for letter in visible)
        agent = " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", spaced).casefold()).split())
    return agent


@lru_cache(maxsize=10_000)
def writer_lookalike(agent: str) -> str:
    """Return a writer's name with lookalike letters of other alphabets replaced.

    Two writers who look alike do not count as two. Nor are they one: a key does not sign for a lookalike name.
    """
    capitals = unicodedata.normalize("NFKC", agent).translate(_CONFUSABLE_CAPITALS)
    return writer_identity(capitals).translate(_CONFUSABLES)


def assess_trust(
    record: Record,
    parent: Record | None,
    evidence: TrustEvidence = NO_EVIDENCE,
    signer: SigningKeyLookup = no_signing_key,
) -> Trust:
    """Return the trust of a record. `parent` is the record of the same tenant that it replies to."""
    if record.kind == DIGEST_KIND or record.redacted:
        return replace(REDACTED_TRUST if record.redacted else DIGEST_TRUST, tainted=evidence.tainted)
    promotion, why = Promotion.NONE, ""
    if record.kind in COUNTERSIGNING_KINDS and record.supports_claim is True:
        refusal = _refusal_reason(record, parent, evidence, signer)
        promotion = Promotion.REFUSED if refusal else Promotion.GRANTED
        why = refusal or "it supports another writer's record"
    elif record.kind in COUNTERSIGNING_KINDS and record.reply_to:
        why = "it does not state that it supports the record it replies to"
    key = signer(record)
    trust = Trust(
        TrustTier.CANONICAL,
        "a ledger record by one writer",
        requires_verification=False,
        verified_by=evidence.verified_by,
        signed_by=evidence.signed_by,
        signed=bool(key),
        promotion=promotion,
        promotion_reason=why,
        tainted=evidence.tainted,
    )
    if promotion is Promotion.GRANTED and parent is not None:
        reason = "it supports another writer's record"
        return replace(trust, tier=TrustTier.VERIFIED, reason=reason, signed=bool(key and signer(parent)))
    if not record.verified:
        return replace(trust, reason="the ledger is broken at or before this record", requires_verification=True)
    if evidence.verified_by:
        return replace(trust, reason="a ledger record that another writer supports")
    if evidence.tainted:
        reason = "it derives from tool output or an import, and nobody supports it"
        return replace(trust, reason=reason, requires_verification=True)
    return trust


def assess_records(records: Iterable[Record], signer: SigningKeyLookup = no_signing_key) -> dict[str, Trust]:
    """Return the trust of each record of one tenant, by id.

    `records` must be the whole ledger, or the result of `RecordTables.trust_context` for the relevant ones. Of two lines with
    the same id the first counts.
    """
    by_id: dict[str, Record] = {}
    for record in sorted(records, key=attrgetter("seq")):
        by_id.setdefault(record.id, record)
    superseding: dict[str, Record] = {}
    for record in by_id.values():
        if record.supersedes and record.supersedes != record.id:
            superseding.setdefault(record.supersedes, record)
    withdrawn = _find_withdrawals(by_id, signer)
    derived: dict[str, list[str]] = defaultdict(list)
    for record in by_id.values():
        for source in source_ids(record):
            derived[source].append(record.id)
    # Tainted are records from an untrusted origin, and those derived from one in any number of steps.
    pending = [record.id for record in by_id.values() if record.origin in UNTRUSTED_ORIGINS]
    tainted = set(pending)
    while pending:
        new = [identity for identity in derived[pending.pop()] if identity not in tainted]
        tainted.update(new)
        pending += new
    evidence: dict[str, TrustEvidence] = {}
    for record in by_id.values():
        newer = superseding.get(record.reply_to) if record.reply_to else None
        superseded = newer.id if newer is not None and newer.seq < record.seq else ""
        evidence[record.id] = TrustEvidence(superseded, withdrawn.get(record.id, ""), tainted=record.id in tainted)
    trust = {
        record.id: assess_trust(record, by_id.get(record.reply_to), evidence[record.id], signer)
        for record in by_id.values()
    }
    supporters: dict[str, list[str]] = defaultdict(list)
    for record in by_id.values():
        if trust[record.id].promotion is Promotion.GRANTED:
            supporters[record.reply_to].append(record.id)
    for supported, ids in supporters.items():
        record = by_id[supported]
        signed = tuple(identity for identity in ids if trust[identity].signed)
        support = replace(evidence[supported], verified_by=tuple(ids), signed_by=signed)
        trust[supported] = assess_trust(record, by_id.get(record.reply_to), support, signer)
    return trust


def source_ids(record: Record) -> tuple[str, ...]:
    ids = (record.reply_to, record.supersedes, *record.texts("related_artifact_ids"))
    return tuple(dict.fromkeys(identity for identity in ids if identity and identity != record.id))


def _refusal_reason(record: Record, parent: Record | None, evidence: TrustEvidence, signer: SigningKeyLookup) -> str:
    """Return why a record's support for another does not count; empty if it does."""
    if not writer_identity(record.agent):
        return "its writer has no name"
    if not record.reply_to:
        return "it does not reply to a record"
    if parent is None or parent.id != record.reply_to:
        return "the record it replies to is not in this tenant's ledger"
    key = signer(record)
    reasons = (
        (not (record.verified and parent.verified), "the ledger is broken at or before it"),
        (parent.kind == DIGEST_KIND, "it replies to a digest"),
        # The parent's key is unknown now, and may have been the same.
        (parent.redacted, "the text of the record it replies to was redacted"),
        (parent.seq >= record.seq, "it replies to a record that was written after it"),
        (evidence.superseded, f"the record it replies to had already been superseded by {evidence.superseded}"),
        (evidence.withdrawn, f"its writer has withdrawn it in {evidence.withdrawn}"),
        (not writer_identity(parent.agent), "the writer of the record it replies to has no name"),
        (
            writer_lookalike(parent.agent) == writer_lookalike(record.agent),
            "it and the record it replies to have the same writer",
        ),
        (key and key == signer(parent), "it and the record it replies to are signed with the same key"),
        (
            record.origin in UNTRUSTED_ORIGINS and not key,
            f"text of origin {record.origin!r} supports nothing unless it is signed",
        ),
    )
    return next((reason for applies, reason in reasons if applies), "")


def _find_withdrawals(by_id: Mapping[str, Record], signer: SigningKeyLookup) -> dict[str, str]:
    """Return the records that their own writers withdrew, each with the id of the first withdrawal.

    A writer withdraws support by a later record against the same record, or by superseding the supporting record with one
    that does not support it. Imported text withdraws nothing, and an unsigned record does not withdraw a signed one.
    """
    against: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in by_id.values():
        if record.kind in COUNTERSIGNING_KINDS and record.supports_claim is False:
            for target in {record.reply_to, record.supersedes} - {""}:
                against[target, writer_identity(record.agent)].append(record)
    withdrawals: dict[str, str] = {}
    for record in by_id.values():
        if against and record.kind in COUNTERSIGNING_KINDS and record.supports_claim is True:
            writer = writer_identity(record.agent)
            later = [*against.get((record.reply_to, writer), ()), *against.get((record.id, writer), ())]
            key = signer(record)
            for other in sorted(later, key=attrgetter("seq")):
                # The signature of a redacted one is gone, and its withdrawal must not be undone by that.
                counts = signer(other) == key if key and not other.redacted else other.origin != "import"
                if other.seq > record.seq and counts:
                    withdrawals[record.id] = other.id
                    break
    return withdrawals
