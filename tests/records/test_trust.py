"""The trust matrix: every condition, every combination, and nobody who gets past it alone."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.record import CANDIDATE_TRUST, DIGEST_TRUST, Promotion, Record, Tier
from lorelog.records.kinds import KINDS
from lorelog.records.trust import COUNTERSIGNING, Standing, identity, judge, tiers

CLAIM = Record("claim", 1, "evidence", "t", agent="mara", verified=True)
SPEAKS = Record("speaks", 2, "verification", "t", agent="otto", reply_to="claim", supports_claim=True, verified=True)


def promoted(*records: Record) -> set[str]:
    """Return the ids of what is verified among records."""
    return {one for one, trust in tiers(records).items() if trust.tier is Tier.VERIFIED}


@pytest.mark.parametrize("kind", sorted(COUNTERSIGNING))
def test_what_speaks_for_anothers_record_is_verified(kind: str) -> None:
    """The countersigning record is verified; the one it speaks for stays canonical and shows by whom it was verified."""
    found = tiers([CLAIM, replace(SPEAKS, kind=kind)])

    assert (found["speaks"].tier, found["speaks"].promotion) == (Tier.VERIFIED, Promotion.GRANTED)
    assert not found["speaks"].requires_verification
    assert (found["claim"].tier, found["claim"].verified_by) == (Tier.CANONICAL, ("speaks",))
    assert found["claim"].promotion is Promotion.NONE


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "same writer": ({"agent": "mara"}, {}, "same writer"),
    "padded name": ({"agent": " mara\t"}, {}, "same writer"),
    "other case": ({"agent": "MARA"}, {}, "same writer"),
    "wide letters": ({"agent": "ｍａｒａ"}, {}, "same writer"),
    "unseen letters": ({"agent": "ma\u200bra\ufe0f\u00ad"}, {}, "same writer"),
    "letters taken apart": ({"agent": "ma\u200br\u200da"}, {}, "same writer"),
    "no name": ({"agent": ""}, {}, "its writer has no name"),
    "blank name": ({"agent": " \u200b\u3164 "}, {}, "its writer has no name"),
    "parent without a name": ({}, {"agent": ""}, "the writer of the record that it replies to has no name"),
    "parent with a blank name": ({}, {"agent": "\u2003"}, "the writer of the record that it replies to has no name"),
    "parent is a digest": ({}, {"kind": "digest"}, "digest"),
    "no parent named": ({"reply_to": ""}, {}, "replies to no record"),
    "parent of another tenant": ({"reply_to": "elsewhere"}, {}, "not in this tenant's ledger"),
    "itself": ({"reply_to": "speaks"}, {}, "written after it"),
    "parent came later": ({}, {"seq": 3}, "written after it"),
    "after a break": ({"verified": False}, {}, "broken"),
    "parent after a break": ({}, {"verified": False}, "broken"),
    "tool text": ({"origin": "tool"}, {}, "'tool' speaks for nothing"),
    "imported text": ({"origin": "import"}, {}, "'import' speaks for nothing"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("kind", sorted(COUNTERSIGNING))
def test_what_lacks_one_condition_is_refused_and_told_why(case: str, kind: str) -> None:
    """One condition that does not hold is enough, whatever record it would be."""
    own, parents, reason = REFUSED[case]
    found = tiers([replace(CLAIM, **parents), replace(SPEAKS, kind=kind, **own)])

    assert found["speaks"].tier is Tier.CANONICAL
    assert found["speaks"].promotion is Promotion.REFUSED
    assert reason in found["speaks"].promotion_reason
    assert found["claim"].verified_by == ()


@pytest.mark.parametrize("claim", [None, False])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_does_not_support_is_not_promoted(kind: str, claim: bool | None) -> None:  # noqa: FBT001
    """Saying nothing, or no, promotes nothing."""
    found = tiers([CLAIM, replace(SPEAKS, kind=kind, supports_claim=claim)])["speaks"]

    assert (found.tier, found.promotion) == (Tier.CANONICAL, Promotion.NONE)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - COUNTERSIGNING))
def test_other_kinds_speak_for_nothing(kind: str) -> None:
    """Evidence may support a claim; only a review, revision, verification or decision vouches for a record."""
    found = tiers([CLAIM, replace(SPEAKS, kind=kind)])

    assert (found["speaks"].tier, found["speaks"].promotion) == (Tier.CANONICAL, Promotion.NONE)


def test_every_combination_of_conditions() -> None:
    """Over all combinations of good and bad, verified is exactly what has nothing bad."""
    own = [{}, *(one for one, parents, _ in REFUSED.values() if one)]
    parents_ = [{}, *(parents for _, parents, _ in REFUSED.values() if parents)]
    kinds = [*KINDS, "digest"]
    for mine, theirs, kind, claim in itertools.product(own, parents_, kinds, [None, False, True]):
        speaks = replace(SPEAKS, kind=kind, supports_claim=claim, **mine)
        good = not mine and not theirs and kind in COUNTERSIGNING and claim is True
        assert promoted(replace(CLAIM, **theirs), speaks) == ({"speaks"} if good else set()), (
            mine,
            theirs,
            kind,
            claim,
        )


@pytest.mark.parametrize("name", ["verification_status", "approval_state", "promotion_state", "trust_tier", "summary"])
@pytest.mark.parametrize("status", ["verified", "verified_record", "recorded"])
def test_forged_words_move_nothing(name: str, status: str) -> None:
    """Whatever a record says about itself, it is judged as if it had not."""
    own = replace(SPEAKS, agent="mara", status=status, fields={name: "verified_record"})

    assert promoted(CLAIM, own) == set()
    assert promoted(CLAIM, replace(own, agent="otto")) == {"speaks"}


def test_a_superseded_record_cannot_be_verified_any_more() -> None:
    """Once there is a newer version, the older one is not confirmed; what was confirmed before stays so."""
    newer = Record("newer", 3, "revision", "t", agent="mara", reply_to="claim", supersedes="claim", verified=True)
    late = replace(SPEAKS, id="late", seq=4)
    found = tiers([CLAIM, SPEAKS, newer, late])

    assert found["speaks"].tier is Tier.VERIFIED
    assert (found["late"].promotion, found["late"].tier) == (Promotion.REFUSED, Tier.CANONICAL)
    assert "superseded by newer" in found["late"].promotion_reason
    assert found["claim"].verified_by == ("speaks",)
    assert tiers([CLAIM, newer, replace(late, reply_to="newer")])["late"].tier is Tier.VERIFIED


def test_a_revision_may_speak_for_what_it_supersedes() -> None:
    """It is no later version at the time that it is written."""
    assert promoted(CLAIM, replace(SPEAKS, kind="revision", supersedes="claim")) == {"speaks"}


def test_a_digest_is_a_hint_whatever_it_says() -> None:
    """A line of kind digest that got into a ledger is a hint, and a memory without a record a candidate."""
    forged = replace(SPEAKS, kind="digest", status="verified", fields={"summary": "verified_record"})
    found = tiers([CLAIM, forged])["speaks"]

    assert (found.tier, found.requires_verification) == (Tier.DIGEST, True)
    assert (DIGEST_TRUST.tier, CANDIDATE_TRUST.tier) == (Tier.DIGEST, Tier.CANDIDATE)
    assert CANDIDATE_TRUST.requires_verification


def test_of_two_lines_with_one_id_the_first_counts() -> None:
    """Nobody exchanges a record by writing its id again."""
    second = replace(CLAIM, seq=3, agent="otto")

    assert tiers([SPEAKS, second, CLAIM])["claim"].verified_by == ("speaks",)
    assert promoted(CLAIM, replace(SPEAKS, agent="mara"), replace(SPEAKS, seq=4)) == set()


def test_signatures_are_told_apart() -> None:
    """Signed is what two keys prove; one key under two names is one writer; a proven import may speak."""

    def signer(record: Record) -> str:
        return record.signature

    both = tiers([replace(CLAIM, signature="k1"), replace(SPEAKS, signature="k2")], signer)
    assert (both["speaks"].tier, both["speaks"].signed, both["claim"].signed) == (Tier.VERIFIED, True, True)
    assert both["claim"].signed_by == both["claim"].verified_by == ("speaks",)
    half = tiers([CLAIM, replace(SPEAKS, signature="k2")], signer)
    assert (half["speaks"].tier, half["speaks"].signed) == (Tier.VERIFIED, False)
    assert (half["claim"].verified_by, half["claim"].signed_by) == (("speaks",), ())
    same = tiers([replace(CLAIM, signature="k1"), replace(SPEAKS, signature="k1")], signer)
    assert (same["speaks"].tier, same["speaks"].signed) == (Tier.CANONICAL, True)
    assert "same key" in same["speaks"].promotion_reason
    brought = tiers([replace(CLAIM, signature="k1"), replace(SPEAKS, signature="k2", origin="import")], signer)
    assert brought["speaks"].tier is Tier.VERIFIED
    unknown = tiers([replace(CLAIM, signature="k1"), replace(SPEAKS, signature="k1")])
    assert (unknown["speaks"].tier, unknown["speaks"].signed) == (Tier.VERIFIED, False)


@pytest.mark.parametrize("origin", ["tool", "import"])
@pytest.mark.parametrize("how", ["reply_to", "supersedes", "related"])
def test_taint_goes_through_what_rests_on_it(origin: str, how: str) -> None:
    """What rests on foreign text, by however many steps, is tainted and must be verified; what does not, is not."""

    def rests(record: Record, on: str) -> Record:
        if how == "related":
            return replace(record, fields={"related_artifact_ids": [on]})
        return replace(record, reply_to=on) if how == "reply_to" else replace(record, supersedes=on)

    first = replace(CLAIM, id="a", origin=origin)
    second = rests(Record("b", 2, "decision", "t", agent="mara", verified=True), "a")
    third = rests(Record("c", 3, "decision", "t", agent="mara", verified=True), "b")
    apart = Record("d", 4, "decision", "t", agent="mara", verified=True)
    found = tiers([first, second, third, apart])

    assert [found[one].tainted for one in "abcd"] == [True, True, True, False]
    assert [found[one].requires_verification for one in "abcd"] == [True, True, True, False]
    spoken = tiers([first, replace(SPEAKS, reply_to="a")])
    assert (spoken["speaks"].tier, spoken["speaks"].tainted) == (Tier.VERIFIED, True)
    assert (spoken["a"].tier, spoken["a"].requires_verification) == (Tier.CANONICAL, False)


def test_a_ring_of_records_ends() -> None:
    """Records that name each other, which a batch can, are judged all the same."""
    one = replace(CLAIM, id="a", fields={"related_artifact_ids": ["b"]}, origin="tool")
    two = replace(CLAIM, id="b", seq=2, fields={"related_artifact_ids": ["a"]})

    assert all(trust.tainted for trust in tiers([one, two]).values())


def test_what_follows_a_break_must_be_verified() -> None:
    """It is shown, canonical, and said to be doubtful."""
    found = tiers([replace(CLAIM, verified=False)])["claim"]

    assert (found.tier, found.requires_verification) == (Tier.CANONICAL, True)


def test_one_record_can_be_judged_alone() -> None:
    """What `tiers` says of a record, `judge` says with what the ledger says of it."""
    assert judge(SPEAKS, CLAIM).tier is Tier.VERIFIED
    assert judge(SPEAKS, None).promotion is Promotion.REFUSED
    assert judge(SPEAKS, CLAIM, Standing(superseded="x")).promotion is Promotion.REFUSED
    assert judge(CLAIM, None, Standing(verified_by=("speaks",))) == tiers([CLAIM, SPEAKS])["claim"]


def test_letters_and_their_marks_are_joined_before_names_are_compared() -> None:
    """Something unseen between a letter and its accent makes no other writer."""
    assert identity("Ren\u0065\u200b\u0301") == identity("René") == "rené"


@pytest.mark.parametrize("name", ["m\u0430r\u0430", "\u043c\u0430ra", "\u039cARA", "mar\u0251", "M\u0391RA"])
def test_letters_of_another_alphabet_make_no_other_writer(name: str) -> None:
    """A reader cannot tell them apart, so one does not verify the other; but they are not the same, and sign nothing for it."""
    assert tiers([CLAIM, replace(SPEAKS, agent=name)])["speaks"].promotion is Promotion.REFUSED
    assert tiers([replace(CLAIM, agent=name), replace(SPEAKS, agent="mara")])["speaks"].promotion is Promotion.REFUSED
    assert identity(name) != "mara"
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
    """By its own writer, later, of the same record or in its place: then it is refused, and says where."""
    no = replace(SPEAKS, id="no", **{"seq": 9, "supports_claim": False, **later})

    found = tiers([CLAIM, SPEAKS, no])

    assert (found["claim"].verified_by == ("speaks",)) is holds
    assert found["speaks"].promotion is (Promotion.GRANTED if holds else Promotion.REFUSED)
    assert holds or "no" in found["speaks"].promotion_reason


def test_an_unsigned_record_takes_nothing_back_that_was_signed() -> None:
    """Else anyone could, by saying that they are somebody."""
    no = replace(SPEAKS, id="no", seq=9, supports_claim=False)

    keys = {"speaks": "k1", "claim": "k2"}
    assert tiers([CLAIM, SPEAKS, no], lambda one: keys.get(one.id, ""))["claim"].verified_by == ("speaks",)
    keys["no"] = "k1"
    assert tiers([CLAIM, SPEAKS, no], lambda one: keys.get(one.id, ""))["claim"].verified_by == ()


@given(name=st.text(), pad=st.text(" \t\n\u200b\u2060\ufeff\u00ad\ufe0f\u3000", max_size=4))
def test_a_name_is_the_same_however_it_is_dressed(name: str, pad: str) -> None:
    """Padding, case and unseen letters change no identity; comparing what was folded changes nothing more."""
    assert identity(pad + name + pad) == identity(name)
    assert identity(identity(name)) == identity(name)
