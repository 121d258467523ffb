"""What is superseded or expired is hidden from then on, the files alone tell it, and it can be taken back."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog import Lorelog
from lorelog.core.errors import NotFound, UsageError
from lorelog.core.ports import Supersession
from lorelog.services.memory_state.lifecycle_index import MemoryDates, MemoryDateTable, SupersessionIndex, parse_day

FAKE = {"embedding.provider": "fake"}
YESTERDAY = (date.today() - timedelta(days=1)).isoformat()


def note(project: Path, text: str, name: str = "notes.md") -> Path:
    path = project / name
    path.write_text(text, "utf-8")
    return path


def found(memory: Lorelog, query: str = "otter", **choices: bool) -> list[str]:
    """The last lines of what a search shows, sorted."""
    return sorted(hit.content.strip().splitlines()[-1] for hit in memory.search(query, k=20, **choices).hits)  # type: ignore[arg-type]


def listed(memory: Lorelog, **choices: bool) -> list[str]:
    """The last lines of what a list shows, sorted."""
    return sorted(item.chunk.content.strip().splitlines()[-1] for item in memory.list(**choices).memories)  # type: ignore[arg-type]


# -- superseded --------------------------------------------------------------------------------------------------------


def test_a_superseded_memory_is_hidden_everywhere_and_told_by_get(memory: Lorelog) -> None:
    """Search, list and recall show the new one only; `get` names it; asked for, both are shown."""
    old = memory.add("seven otters in the river", type="count", tags=["otter"])
    new = memory.supersede(old.memory, "eight otters in the river")

    assert found(memory) == listed(memory) == ["eight otters in the river"]
    shown = memory.recall("how many otters are in the river", k=5, min_relevance=0.0)
    assert [entry.id for entry in shown] == [new.id]
    assert memory.get(old.memory).lifecycle.superseded_by == new.memory
    both = ["eight otters in the river", "seven otters in the river"]
    assert found(memory, include_superseded=True) == listed(memory, include_superseded=True) == both
    hits = memory.search("otters", include_superseded=True).hits
    replaced = {hit.id: (hit.lifecycle.superseded_by, hit.lifecycle.successor) for hit in hits}
    assert replaced == {old.id: (new.memory, "eight otters in the river"), new.id: ("", "")}
    (one,) = memory.search("seven otters", k=1, types="count", include_superseded=True)
    assert (one.id, one.lifecycle.successor) == (old.id, "eight otters in the river")
    last = memory.supersede(new.memory, "nine otters", type="fact")
    left_out = memory.search("seven otters", types="count")
    assert left_out.hits == ()
    assert f"{last.id} replaces an older one, which matches, but the filters leave it out" in left_out.notes
    memory.delete(last.memory)
    assert f"superseded by {new.memory}" in memory.expand(old.id).notes
    (stored,) = [item for item in memory.list().memories if item.id == new.id]
    assert (stored.chunk.type, stored.chunk.tags) == ("count", ("otter",))


def test_it_survives_a_reset_and_is_undone_by_deleting_the_newer(memory: Lorelog, project: Path) -> None:
    """An index made anew knows it from the files; deleting the newer memory brings the old one back, restoring hides it."""
    old = memory.add("seven otters")
    new = memory.supersede(old.memory, "eight otters")
    journal = Path(old.source).read_bytes()

    memory.reset()
    memory.index([project / ".lorelog" / "memory"])
    assert found(memory) == ["eight otters"]
    memory.delete(new.memory)
    assert found(memory) == ["seven otters"]
    assert memory.get(old.memory).lifecycle.superseded_by == ""
    memory.restore(new.memory)
    assert found(memory) == ["eight otters"]
    assert Path(old.source).read_bytes() == journal


def test_a_hand_written_anchor_supersedes(memory: Lorelog, project: Path) -> None:
    """Several ids, separated by commas, are superseded by one memory; removing the line shows them again."""
    old = "# A\n<!-- memory:m1 -->\none otter\n\n# B\n<!-- memory:m2 -->\ntwo otters\n\n"
    path = note(project, old + "# C\n<!-- memory:m3 supersedes:m1,m2 -->\nthree otters\n")
    memory.index([path])
    assert found(memory) == ["three otters"]

    note(project, old + "# C\n<!-- memory:m3 -->\nthree otters\n")
    memory.index()
    assert found(memory) == ["one otter", "three otters", "two otters"]


def test_a_near_repeat_does_not_take_the_newer_one_with_it(memory: Lorelog) -> None:
    """Where old and new say nearly the same, which is folded into one hit otherwise, the new one is shown."""
    words = " ".join(f"word{letter}" for letter in "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz")
    old = memory.add(f"otter {words} {words} otter otter")
    new = memory.supersede(old.memory, f"otter {words} {words} otter mink")

    assert [hit.id for hit in memory.search("otter").hits] == [new.id]


def test_a_warm_process_sees_it_at_once(memory: Lorelog) -> None:
    """An answer that was given before is not given again once a memory of it is superseded or expires."""
    one, two = memory.add("one otter"), memory.add("two otters")
    assert len(found(memory)) == 2
    memory.supersede(one.memory, "three otters")
    assert found(memory) == ["three otters", "two otters"]
    memory.set_expiry(two.memory, expires=YESTERDAY)
    assert found(memory) == ["three otters"]
    memory.set_expiry(two.memory, expires=None)
    assert found(memory) == ["three otters", "two otters"]


def test_another_projects_file_hides_nothing(memory: Lorelog, project: Path, tmp_path: Path) -> None:
    """What a cloned repository says to supersede counts in that project only; a global memory is not hidden by a project's."""
    here = memory.add("otters here")
    everywhere = memory.add("otters everywhere", to_global=True)
    other = tmp_path / "clone"
    other.mkdir()
    path = note(other, f"# X\n<!-- memory:x supersedes:{here.memory},{everywhere.memory} -->\notters elsewhere\n")
    with Lorelog(project=other, settings=FAKE) as theirs:
        theirs.index([path])
        assert found(theirs) == ["otters elsewhere", "otters everywhere"]

    assert found(memory) == ["otters everywhere", "otters here"]
    assert len(memory.search("otters", all_projects=True).hits) == 3


def test_a_global_memory_is_superseded_globally(memory: Lorelog, tmp_path: Path) -> None:
    """From whatever project, the new memory goes where the old one is; a memory of another project is superseded there."""
    old = memory.add("otters everywhere", to_global=True)
    mine = memory.add("otters here")
    other = tmp_path / "other"
    other.mkdir()
    with Lorelog(project=other, settings=FAKE) as theirs:
        theirs.supersede(old.memory, "otters nowhere")
        assert found(theirs) == ["otters nowhere"]
        with pytest.raises(UsageError, match="belongs to") as raised:
            theirs.supersede(mine.memory, "no otters")
        assert "--project" in raised.value.hint

    assert found(memory) == ["otters here", "otters nowhere"]


def test_no_memory_hides_a_record(memory: Lorelog, project: Path) -> None:
    """Neither an anchor written by hand nor the verbs can take a record out of a search."""
    told = memory.call("task.start", {"goal": "count the otters", "writer": "mara"})
    record = told["artifact_id"]
    memory.index([note(project, f"# A\n<!-- memory:na supersedes:{record} -->\nno otters at all\n")])

    hits = {hit.anchor.memory: hit.lifecycle.superseded_by for hit in memory.search("otters", k=9).hits if hit.anchor}
    assert hits == {record: "", "na": ""}
    with pytest.raises(UsageError, match="is a record"):
        memory.supersede(record, "no otters")
    with pytest.raises(UsageError, match="is a record"):
        memory.set_expiry(record, expires=YESTERDAY)


def test_what_cannot_be_superseded_is_said(memory: Lorelog, project: Path) -> None:
    """A section without an id, a memory that is superseded already, one that is not there: each with what to do."""
    memory.index([note(project, "# A\n\nan otter\n")])
    (section,) = memory.search("otter").hits
    with pytest.raises(UsageError, match="no id of its own") as raised:
        memory.supersede(section.id, "two otters")
    assert "memory:NAME" in raised.value.hint
    old = memory.add("seven beavers")
    new = memory.supersede(old.memory, "eight beavers")
    with pytest.raises(UsageError, match="superseded already") as raised:
        memory.supersede(old.memory, "nine beavers")
    assert new.memory in raised.value.hint
    with pytest.raises(NotFound):
        memory.supersede("nobody", "x")
    with pytest.raises(UsageError, match="empty"):
        memory.supersede(new.memory, "  ")


def test_circles_do_no_harm(memory: Lorelog, project: Path) -> None:
    """What supersedes itself is shown; of a circle the one that said so last is shown, and the others are hidden by it."""
    memory.index(
        [
            note(
                project,
                "# 2026-03-01\n<!-- memory:na supersedes:nc -->\notter a\n\n# 2026-03-02\n<!-- memory:nb supersedes:na -->\n"
                "otter b\n\n# 2026-03-03\n<!-- memory:nc supersedes:nb -->\notter c\n\n"
                "# 2026-03-04\n<!-- memory:nd supersedes:nd -->\notter d\n",
            )
        ]
    )

    assert found(memory) == ["otter c", "otter d"]
    assert memory.get("na").lifecycle.superseded_by == "nb"


EDGES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=14)


def test_another_machine_hides_nothing_that_is_here() -> None:
    """What is superseded elsewhere is so for what is found of elsewhere; what is superseded here is so for both."""
    successors = SupersessionIndex(
        [Supersession("old", "theirs", "/p", remote=True), Supersession("other", "ours", "/p")]
    )

    assert successors.successor_of("old", "/p") == ""
    assert successors.successor_of("old", "/p", elsewhere=True) == "theirs"
    assert successors.successor_of("other", "/p") == successors.successor_of("other", "/p", elsewhere=True) == "ours"
    assert successors.successor_of("old", "/q", elsewhere=True) == ""


@given(EDGES)
def test_something_is_always_left(edges: list[tuple[int, int]]) -> None:
    """However memories supersede each other, whoever is hidden is followed to one that is shown."""
    told = [Supersession(f"m{old}", f"m{new}", "/p") for old, new in edges]
    successors = SupersessionIndex(told)

    for memory in {f"m{item}" for edge in edges for item in edge}:
        seen = set()
        here = memory
        while (successor := successors.successor_of(here, "/p")) and successor not in seen:
            assert Supersession(here, successor, "/p") in told
            seen.add(successor)
            here = successor
        assert successors.successor_of(here, "/p") == ""


# -- days --------------------------------------------------------------------------------------------------------------


def test_a_memory_is_hidden_after_its_last_day(memory: Lorelog, project: Path) -> None:
    """On that day it is still shown; what is no day hides nothing; asked for, what has expired is shown."""
    memory.add("otter for today", expires="today")
    memory.index([note(project, f"# A\n<!-- memory:na expires:{YESTERDAY} -->\notter of yesterday\n")])
    memory.index([note(project, "# B\n<!-- memory:nb expires:1.5.2020 -->\notter of someday\n", "b.md")])

    assert found(memory) == listed(memory) == ["otter for today", "otter of someday"]
    every = ["otter for today", "otter of someday", "otter of yesterday"]
    assert found(memory, include_expired=True) == listed(memory, include_expired=True) == every
    assert memory.get("na").lifecycle.expired
    recalled = memory.recall("otter of yesterday", k=9, min_relevance=0.0)
    assert {item.text.partition("otter")[2] for item in recalled} == {" for today", " of someday"}


def test_days_are_given_and_taken_back_without_touching_the_file(memory: Lorelog, home: Path) -> None:
    """What is not given stays, None takes back what was given and what the anchor says, and nothing at all is an error."""
    added = memory.add("an otter", expires="14d")
    journal = Path(added.source).read_bytes()

    reply = memory.set_expiry(added.memory, expires=YESTERDAY, review_after="2026-01-01")
    assert (reply.expires, reply.review_after, reply.changed) == (YESTERDAY, "2026-01-01", True)
    assert found(memory) == []
    reply = memory.set_expiry(added.memory, expires=None)
    assert (reply.expires, reply.review_after) == ("", "2026-01-01")
    assert found(memory) == ["an otter"]
    assert not memory.set_expiry(added.memory, expires=None).changed
    with pytest.raises(UsageError, match="neither"):
        memory.set_expiry(added.memory)
    with pytest.raises(UsageError, match="not a day"):
        memory.set_expiry(added.memory, expires="soon")
    assert Path(added.source).read_bytes() == journal
    lifecycle = home / "data" / "default" / "lifecycle.jsonl"
    assert lifecycle.stat().st_mode & 0o777 == 0o600
    assert "otter" not in lifecycle.read_text("utf-8")


def test_what_is_due_is_listed_and_told_by_health(memory: Lorelog) -> None:
    """The longest due first; what is not due yet, is hidden or was put off is not among them."""
    first, second, later, hidden = (memory.add(f"otter {number}") for number in range(4))
    memory.set_expiry(second.memory, review_after="2026-01-02")
    memory.set_expiry(first.memory, review_after="2026-01-01")
    memory.set_expiry(later.memory, review_after="1y")
    memory.set_expiry(hidden.memory, review_after="2026-01-01", expires=YESTERDAY)

    due = memory.list(due=True)
    assert [entry.id for entry in due.memories] == [first.id, second.id]
    assert due.lifecycles[first.id].due
    (check,) = [item for item in memory.health().checks if item.name == "review"]
    assert (check.ok, check.message) == (True, "3 memories are due for review")
    memory.set_expiry(first.memory, review_after=None)
    assert [element.id for element in memory.list(due=True).memories] == [second.id]


DAYS = st.none() | st.just("") | st.dates().map(date.isoformat)


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), DAYS, DAYS), max_size=8))
def test_the_last_word_on_each_day_holds(said: list[tuple[str, str | None, str | None]]) -> None:
    """Whatever is said in whatever order, each field is as it was last said, and never as it was said of another memory."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as place:
        calendar = MemoryDateTable(Path(place) / "lifecycle.jsonl")
        for memory, expires, review in said:
            calendar.record(MemoryDates(memory, expires, review))
        again = MemoryDateTable(Path(place) / "lifecycle.jsonl").dates()
        for memory in ("a", "b"):
            for field, place_of in (("expires", 1), ("review_after", 2)):
                words = [item[place_of] for item in said if item[0] == memory and item[place_of] is not None]
                assert getattr(again.get(memory, MemoryDates(memory)), field) == (words[-1] if words else None)
        assert calendar.dates() == again


@given(st.text(max_size=20) | st.dates().map(date.isoformat).map(lambda day: day + "T10:00"))
def test_only_days_are_days(text: str) -> None:
    """Of any text, a day comes out as it stands at the beginning, or nothing does."""
    day = parse_day(text)

    assert day == "" or text.startswith(day)
    assert day == "" or date.fromisoformat(day)
