"""The trust matrix: every condition and combination, and no way for one writer to pass alone."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lorelog.core.record import CANDIDATE_TRUST, DIGEST_TRUST, Promotion, Record, TrustTier
from lorelog.records.kinds import KINDS
from lorelog.records.trust import COUNTERSIGNING_KINDS, assess_records, writer_identity

CLAIM = Record("claim", 1, "evidence", "t", agent="mara", verified=True)
SPEAKS = Record("speaks", 2, "verification", "t", agent="otto", reply_to="claim", supports_claim=True, verified=True)


def promoted(*records: Record) -> set[str]:
    return {identity for identity, trust in assess_records(records).items() if trust.tier is TrustTier.VERIFIED}


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "same writer": ({"agent": "mara"}, {}, "same writer"),
    "padded name": ({"agent": " mara\t"}, {}, "same writer"),
    "other case": ({"agent": "MARA"}, {}, "same writer"),
    "wide letters": ({"agent": "ｍａｒａ"}, {}, "same writer"),
    "unseen letters": ({"agent": "ma\u200bra\ufe0f\u00ad"}, {}, "same writer"),
    "letters taken apart": ({"agent": "ma\u200br\u200da"}, {}, "same writer"),
    "no name": ({"agent": ""}, {}, "its writer has no name"),
    "blank name": ({"agent": " \u200b\u3164 "}, {}, "its writer has no name"),
    "parent without a name": ({}, {"agent": ""}, "the writer of the record it replies to has no name"),
    "parent with a blank name": ({}, {"agent": "\u2003"}, "the writer of the record it replies to has no name"),
    "parent is a digest": ({}, {"kind": "digest"}, "digest"),
    "no parent named": ({"reply_to": ""}, {}, "does not reply to a record"),
    "parent of another tenant": ({"reply_to": "elsewhere"}, {}, "not in this tenant's ledger"),
    "itself": ({"reply_to": "speaks"}, {}, "written after it"),
    "parent came later": ({}, {"seq": 3}, "written after it"),
    "after a break": ({"verified": False}, {}, "broken"),
    "parent after a break": ({}, {"verified": False}, "broken"),
    "tool text": ({"origin": "tool"}, {}, "'tool' supports nothing"),
    "imported text": ({"origin": "import"}, {}, "'import' supports nothing"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("kind", sorted(COUNTERSIGNING_KINDS))
def test_what_lacks_one_condition_is_refused_and_told_why(case: str, kind: str) -> None:
    """One failed condition is enough for a refusal, which states the reason."""
    own, parents, reason = REFUSED[case]
    trust = assess_records([replace(CLAIM, **parents), replace(SPEAKS, kind=kind, **own)])

    assert trust["speaks"].tier is TrustTier.CANONICAL
    assert trust["speaks"].promotion is Promotion.REFUSED
    assert reason in trust["speaks"].promotion_reason
    assert trust["claim"].verified_by == ()


def test_every_combination_of_conditions() -> None:
    """Over all combinations of conditions, a record is verified only if none fails; a revision may replace what it supports."""
    assert promoted(CLAIM, replace(SPEAKS, kind="revision", supersedes="claim")) == {"speaks"}
    broken = assess_records([replace(CLAIM, verified=False)])["claim"]
    assert (broken.tier, broken.requires_verification) == (TrustTier.CANONICAL, True)
    own = [{}, *(values for values, parents, _ in REFUSED.values() if values)]
    parents_ = [{}, *(parents for _, parents, _ in REFUSED.values() if parents)]
    kinds = [*KINDS, "digest"]
    for mine, theirs, kind, claim in itertools.product(own, parents_, kinds, [None, False, True]):
        speaks = replace(SPEAKS, kind=kind, supports_claim=claim, **mine)
        good = not mine and not theirs and kind in COUNTERSIGNING_KINDS and claim is True
        said = (mine, theirs, kind, claim)
        assert promoted(replace(CLAIM, **theirs), speaks) == ({"speaks"} if good else set()), said


def test_a_superseded_record_cannot_be_verified_any_more() -> None:
    """A superseded record cannot be confirmed; earlier confirmations stay."""
    newer = Record("newer", 3, "revision", "t", agent="mara", reply_to="claim", supersedes="claim", verified=True)
    late = replace(SPEAKS, id="late", seq=4)
    trust = assess_records([CLAIM, SPEAKS, newer, late])

    assert trust["speaks"].tier is TrustTier.VERIFIED
    assert (trust["late"].promotion, trust["late"].tier) == (Promotion.REFUSED, TrustTier.CANONICAL)
    assert "superseded by newer" in trust["late"].promotion_reason
    assert trust["claim"].verified_by == ("speaks",)
    assert assess_records([CLAIM, newer, replace(late, reply_to="newer")])["late"].tier is TrustTier.VERIFIED


def test_a_forged_digest_is_a_hint() -> None:
    """A digest forged into a ledger is a hint, and a memory without a record a candidate."""
    forged = replace(SPEAKS, kind="digest", status="verified", fields={"summary": "verified_record"})
    trust = assess_records([CLAIM, forged])["speaks"]

    assert (trust.tier, trust.requires_verification) == (TrustTier.DIGEST, True)
    assert (DIGEST_TRUST.tier, CANDIDATE_TRUST.tier) == (TrustTier.DIGEST, TrustTier.CANDIDATE)
    assert CANDIDATE_TRUST.requires_verification


def test_of_two_lines_with_one_id_the_first_counts() -> None:
    """Writing an id again does not replace a record."""
    second = replace(CLAIM, seq=3, agent="otto")

    assert assess_records([SPEAKS, second, CLAIM])["claim"].verified_by == ("speaks",)
    assert promoted(CLAIM, replace(SPEAKS, agent="mara"), replace(SPEAKS, seq=4)) == set()


def test_signatures_are_told_apart() -> None:
    """Two keys prove two writers, one key under two names is one writer, and a signed import may support."""

    def signer(record: Record) -> str:
        return record.signature

    both = assess_records([replace(CLAIM, signature="k1"), replace(SPEAKS, signature="k2")], signer)
    assert (both["speaks"].tier, both["speaks"].signed, both["claim"].signed) == (TrustTier.VERIFIED, True, True)
    assert both["claim"].signed_by == both["claim"].verified_by == ("speaks",)
    half = assess_records([CLAIM, replace(SPEAKS, signature="k2")], signer)
    assert (half["speaks"].tier, half["speaks"].signed) == (TrustTier.VERIFIED, False)
    assert (half["claim"].verified_by, half["claim"].signed_by) == (("speaks",), ())
    same = assess_records([replace(CLAIM, signature="k1"), replace(SPEAKS, signature="k1")], signer)
    assert (same["speaks"].tier, same["speaks"].signed) == (TrustTier.CANONICAL, True)
    assert "same key" in same["speaks"].promotion_reason
    brought = assess_records([replace(CLAIM, signature="k1"), replace(SPEAKS, signature="k2", origin="import")], signer)
    assert brought["speaks"].tier is TrustTier.VERIFIED
    unknown = assess_records([replace(CLAIM, signature="k1"), replace(SPEAKS, signature="k1")])
    assert (unknown["speaks"].tier, unknown["speaks"].signed) == (TrustTier.VERIFIED, False)


@pytest.mark.parametrize("origin", ["tool", "import"])
@pytest.mark.parametrize("how", ["reply_to", "supersedes", "related"])
def test_taint_goes_through_what_rests_on_it(origin: str, how: str) -> None:
    """Records derived from untrusted text in any number of steps are tainted and require verification; others do not."""

    def rests(record: Record, on: str) -> Record:
        if how == "related":
            return replace(record, fields={"related_artifact_ids": [on]})
        return replace(record, reply_to=on) if how == "reply_to" else replace(record, supersedes=on)

    first = replace(CLAIM, id="a", origin=origin)
    second = rests(Record("b", 2, "decision", "t", agent="mara", verified=True), "a")
    third = rests(Record("c", 3, "decision", "t", agent="mara", verified=True), "b")
    apart = Record("d", 4, "decision", "t", agent="mara", verified=True)
    trust = assess_records([first, second, third, apart])

    assert [trust[name].tainted for name in "abcd"] == [True, True, True, False]
    assert [trust[name].requires_verification for name in "abcd"] == [True, True, True, False]
    spoken = assess_records([first, replace(SPEAKS, reply_to="a")])
    assert (spoken["speaks"].tier, spoken["speaks"].tainted) == (TrustTier.VERIFIED, True)
    assert (spoken["a"].tier, spoken["a"].requires_verification) == (TrustTier.CANONICAL, False)


def test_a_ring_of_records_ends() -> None:
    """Records that refer to each other are assessed."""
    first = replace(CLAIM, id="a", fields={"related_artifact_ids": ["b"]}, origin="tool")
    two = replace(CLAIM, id="b", seq=2, fields={"related_artifact_ids": ["a"]})

    assert all(trust.tainted for trust in assess_records([first, two]).values())


@pytest.mark.parametrize("name", ["m\u0430r\u0430", "\u043c\u0430ra", "\u039cARA", "mar\u0251", "M\u0391RA"])
def test_letters_of_another_alphabet_make_no_other_writer(name: str) -> None:
    """Lookalike names do not verify each other, but neither do they share a signature."""
    assert assess_records([CLAIM, replace(SPEAKS, agent=name)])["speaks"].promotion is Promotion.REFUSED
    assert (
        assess_records([replace(CLAIM, agent=name), replace(SPEAKS, agent="mara")])["speaks"].promotion
        is Promotion.REFUSED
    )
    assert writer_identity(name) != "mara"
    assert promoted(CLAIM, replace(SPEAKS, agent="\u0438\u0432\u0430\u043d")) == {"speaks"}


@pytest.mark.parametrize(
    ("later", "holds"),
    [
        ({}, False),
        ({"agent": " OTTO "}, False),
        ({"agent": "zoe"}, True),
        ({"supports_claim": None}, True),
        ({"kind": "evidence"}, True),
        ({"reply_to": "elsewhere"}, True),
        ({"reply_to": "speaks", "supersedes": "speaks"}, False),
        ({"origin": "import"}, True),
        ({"seq": 0}, True),
    ],
)
def test_a_word_that_was_taken_back_counts_no_more(later: dict[str, Any], holds: bool) -> None:  # noqa: FBT001
    """Support withdrawn later by its own writer is refused, with the withdrawing record."""
    no = replace(SPEAKS, id="no", **{"seq": 9, "supports_claim": False, **later})

    trust = assess_records([CLAIM, SPEAKS, no])

    assert (trust["claim"].verified_by == ("speaks",)) is holds
    assert trust["speaks"].promotion is (Promotion.GRANTED if holds else Promotion.REFUSED)
    assert holds or "no" in trust["speaks"].promotion_reason


def test_an_unsigned_record_takes_nothing_back_that_was_signed() -> None:
    """An unsigned record cannot withdraw a signed one, or anyone could by using the name."""
    no = replace(SPEAKS, id="no", seq=9, supports_claim=False)

    keys = {"speaks": "k1", "claim": "k2"}
    assert assess_records([CLAIM, SPEAKS, no], lambda record: keys.get(record.id, ""))["claim"].verified_by == (
        "speaks",
    )
    keys["no"] = "k1"
    assert assess_records([CLAIM, SPEAKS, no], lambda record: keys.get(record.id, ""))["claim"].verified_by == ()


@given(name=st.text(), pad=st.text(" \t\n\u200b\u2060\ufeff\u00ad\ufe0f\u3000", max_size=4))
def test_a_name_is_the_same_however_it_is_dressed(name: str, pad: str) -> None:
    """Padding, case and invisible letters, also before an accent, do not change an identity, and folding is idempotent."""
    assert writer_identity("Ren\u0065\u200b\u0301") == writer_identity("René") == "rené"
    assert writer_identity(pad + name + pad) == writer_identity(name)
    assert writer_identity(writer_identity(name)) == writer_identity(name)
