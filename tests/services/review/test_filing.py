"""What becomes of judged statements: memories, proposals, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from lorelog.core.memory import AddReply, NewMemory
from lorelog.services.review.filing import PERSON, Filing, PastCalls, ReviewEntry, ReviewLog
from lorelog.services.review.judge import Verdict
from lorelog.services.review.statements import Statement
from lorelog.services.standing.rules import StandingRule

RULES = (StandingRule(id="own", text="Use British spelling."), StandingRule(id="judged", text="Never stash."))
WHERE = {"before": "rejected Bash git stash", "date": "2026-02-06T10:00", "project": "p", "session": "a"}
SAID = Statement(id="s1", channel="rejection", text="do not stash anything", **WHERE)

NO_CALLS = PastCalls(0, 0)


class WrittenMemories:
    """Takes memories; one that was written is not written again."""

    def __init__(self) -> None:
        self.written: dict[str, NewMemory] = {}
        self.everywhere: set[str] = set()
        self.listed: list[str] = []

    def __call__(
        self, memories: Sequence[NewMemory], *, to_global: bool, keep_secrets: bool = False
    ) -> Sequence[AddReply]:
        for memory in memories:
            self.written[memory.id] = memory
            self.everywhere |= {memory.id} if to_global else set()
        return [AddReply(memory.id, memory.id, "journal", 1, 2, searchable=True) for memory in memories]


def make_filing(
    folder: Path, journal: WrittenMemories, judge: str = "claude/haiku", past: PastCalls = NO_CALLS
) -> Filing:
    return Filing(
        judge=judge,
        log=ReviewLog(folder),
        add=journal,
        replay=lambda entry: past,
        is_persons=lambda memory: memory == "own",
        list_at_start=journal.listed.append,
    )


def verdict(label: str = "rule", **more: Any) -> dict[str, Verdict]:
    return {"s1": Verdict(n=1, label=label, wording="Never stash anything.", **more)}  # type: ignore[arg-type]


def test_a_rule_is_written_with_its_source_and_its_judge(tmp_path: Path) -> None:
    """The memory has the wording, the scope, and the words it was made from; the log says who filed it."""
    journal = WrittenMemories()

    (entry,) = make_filing(tmp_path, journal).file([SAID], verdict(cues=("command=git stash",)), RULES)

    memory = journal.written[entry.memory]
    assert memory.text == (
        "- Never stash anything.\n"
        "- About: said on 2026-02-06 at a rejection, filed by claude/haiku: “do not stash anything”"
    )
    assert (memory.type, memory.origin, memory.cues) == ("preference", "user", ("command=git stash",))
    assert ReviewLog(tmp_path).by_memory()[entry.memory].statement == "s1"


def test_a_crash_between_journal_and_log_does_not_write_a_rule_twice(tmp_path: Path) -> None:
    """The memory's id is made from the statement's, so that a second attempt writes the same one."""
    journal = WrittenMemories()
    for folder in ("first", "second"):  # the log of the first attempt is lost
        make_filing(tmp_path / folder, journal).file([SAID], verdict(), RULES)

    assert len(journal.written) == 1


@pytest.mark.parametrize(
    ("more", "past", "reason"),
    [
        ({"replaces": (1,)}, PastCalls(0, 0), "it would replace 1 rule of your own"),
        (
            {"cues": ("command=git stash",), "forbids": True},
            PastCalls(20, 2),
            "20 past calls match it, and you opposed 2",
        ),
    ],
)
def test_a_doubtful_rule_waits_for_a_person_with_the_reason(
    tmp_path: Path, more: dict[str, Any], past: PastCalls, reason: str
) -> None:
    """A judge replaces no rule of a person, and forbids nothing that was mostly not opposed."""
    journal = WrittenMemories()
    filing = make_filing(tmp_path, journal, past=past)

    (entry,) = filing.file([SAID], verdict("rule", **more), RULES)

    assert (entry.outcome, entry.reason, journal.written) == ("waiting", reason, {})
    assert [waiting.statement for waiting in filing.log.waiting()] == ["s1"]


def test_a_rule_replaces_what_a_judge_filed_before(tmp_path: Path) -> None:
    """A newer rule retires an older one that no person added or approved."""
    journal = WrittenMemories()

    (entry,) = make_filing(tmp_path, journal).file([SAID], verdict(replaces=(2,)), RULES)

    assert journal.written[entry.memory].supersedes == ("judged",)


def test_what_has_no_verdict_is_noted_once(tmp_path: Path) -> None:
    """A statement that the judge left out is marked as its undecided one, however often it is left out."""
    filing = make_filing(tmp_path, WrittenMemories())
    for _ in range(2):
        (entry,) = filing.file([SAID], {}, RULES)

    assert entry.outcome == "undecided"
    assert len((tmp_path / "review.jsonl").read_text("utf-8").splitlines()) == 1


def test_a_person_may_replace_their_own_rule_everywhere(tmp_path: Path) -> None:
    """What a person files is not doubted, and may hold in all projects."""
    journal = WrittenMemories()

    (entry,) = make_filing(tmp_path, journal, PERSON).file([SAID], verdict(replaces=(1,), everywhere=True), RULES)

    assert entry.outcome == "filed"
    assert journal.everywhere == {entry.memory}


def test_a_repetition_and_a_remark_write_nothing(tmp_path: Path) -> None:
    """What a standing rule says already counts for it; a remark is only not open any more."""
    journal = WrittenMemories()
    filing = make_filing(tmp_path, journal)

    (same,) = filing.file([SAID], verdict(same=(1,)), RULES)
    assert filing.log.words_by_memory() == {"own": [SAID.text]}
    (closed,) = filing.file([SAID], verdict("remark"), RULES)

    assert (same.outcome, same.memory, closed.outcome) == ("same", "own", "closed")
    assert journal.written == {}
    assert set(filing.log.entries()) == {"s1"}


def test_the_same_words_are_one_rule(tmp_path: Path) -> None:
    """A wording that stands, or was filed from the same batch, is not written again, also if the judge did not notice."""
    journal = WrittenMemories()
    twice = {
        "s1": Verdict(n=1, label="rule", wording="Use tabs."),
        "s2": Verdict(n=2, label="rule", wording="use tabs"),
    }
    british = {"s3": Verdict(n=3, label="rule", wording="use British  spelling")}

    entries = make_filing(tmp_path, journal).file(
        [replace(SAID, id=identity) for identity in ("s1", "s2", "s3")], twice | british, RULES
    )

    assert [entry.outcome for entry in entries] == ["filed", "same", "same"]
    assert [entry.memory for entry in entries[1:]] == [entries[0].memory, "own"]
    assert len(journal.written) == 1


def said_again(*days: str) -> list[Statement]:
    return [
        replace(SAID, id=f"d{day}", session=f"session {day}", date=f"2026-02-{day}", text=f"no stash, {day}")
        for day in days
    ]


AGAIN = Verdict(n=1, label="rule", wording="Never stash anything.")


def test_what_was_said_again_is_proposed_once_with_its_sources_and_their_number(tmp_path: Path) -> None:
    """A further repetition raises the number of the waiting proposal; one that was refused is not proposed again."""
    journal = WrittenMemories()
    filing = make_filing(tmp_path, journal)

    (first,) = filing.file_again(AGAIN, said_again("06", "07"), RULES)
    (second,) = filing.file_again(AGAIN, said_again("07", "09"), RULES)

    assert (first.outcome, first.said) == ("waiting", "on 2026-02-07 at a rejection and earlier, in 2 sessions")
    assert [entry.said for entry in filing.log.waiting()] == [second.said]
    assert second.said.endswith("in 3 sessions")
    assert "on 2026-02-06 at a rejection: no stash, 06 · on 2026-02-07" in second.words
    filing.log.add([replace(second, outcome="refused", judge=PERSON)])
    filing.file_again(AGAIN, said_again("09", "11"), RULES)
    assert (filing.log.waiting(), journal.written) == ([], {})


def test_a_repetition_stands_if_the_judge_is_sure_and_past_calls_agree(tmp_path: Path) -> None:
    """It is written with the words of all sessions; what repeats it, or any other standing rule, counts for that one."""
    journal, sure = WrittenMemories(), replace(AGAIN, sure=True, forbids=True, cues=("command=git stash",))
    opposed = make_filing(tmp_path / "opposed", journal, past=PastCalls(20, 2))
    assert opposed.file_again(sure, said_again("06", "07"), RULES)[0].outcome == "waiting"

    filing = make_filing(tmp_path, journal)
    (entry,) = filing.file_again(sure, said_again("06", "07"), RULES)
    (same,) = filing.file_again(AGAIN, said_again("06", "09")[1:] + said_again("07"), RULES)[:1]
    others = filing.file_again(replace(AGAIN, same=(1,)), said_again("11", "12"), RULES)

    assert "and earlier, in 2 sessions, filed by claude/haiku: “on 2026-02-06" in journal.written[entry.memory].text
    assert (same.statement, same.outcome, same.memory) == ("d09", "same", entry.memory)
    assert [(other.outcome, other.memory) for other in others] == [("same", "own")] * 2
    assert list(dict.fromkeys(journal.listed)) == [entry.memory, "own"]


def test_what_was_asked_for_in_few_of_the_sessions_it_is_about_waits(tmp_path: Path) -> None:
    """Asked for with 2 of 7 commits it waits for a person, with 4 of 7 it stands; words at a rejection are not counted so."""
    sure = replace(AGAIN, wording="Update the changelog with a commit.", sure=True, cues=("event=commit",))
    days = [f"{day:02}" for day in range(6, 13)]
    past = PastCalls(7, 0, frozenset(f"session {day}" for day in days))

    def file_again(name: str, *said: str, channel: str = "prompt") -> ReviewEntry:
        members = [replace(member, channel=channel) for member in said_again(*said)]
        return make_filing(tmp_path / name, WrittenMemories(), past=past).file_again(sure, members, RULES)[0]

    few = file_again("few", *days[:2])
    assert (few.outcome, few.reason) == ("waiting", "7 sessions have calls that it is about, and you said it in 2")
    assert file_again("most", *days[:4]).outcome == "filed"
    assert file_again("rejected", *days[:2], channel="rejection").outcome == "filed"
