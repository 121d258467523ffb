"""Newer and older values of the same thing in one list, and one hit for each entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from lorelog import Lorelog
from lorelog.core.query import Hit, ValueRole

SETTINGS = {"embedding.provider": "none"}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Lorelog]:
    with Lorelog(project=tmp_path, settings=SETTINGS) as memory:
        yield memory


def write(memory: Lorelog, folder: Path, entries: Mapping[str, str], anchor: str = "") -> None:
    """Write journal entries by `day time` and index them; each has an id made of its time and text."""
    for number, (when, text) in enumerate(entries.items()):
        day, _, time = when.partition(" ")
        path = folder / f"{day}.md"
        heading = f"\n### {time}\n" if time else "\n"
        comment = f"<!-- memory:{day}-{number} {anchor}-->\n" if time else ""
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{heading}{comment}{text}\n")
    memory.index([folder])


def roles(hit: Hit) -> list[tuple[str, str, str]]:
    return [(change.role.value, change.value, change.other_value) for change in hit.now_was]


def test_a_newer_value_ranks_above_the_older_one_and_both_say_so(memory: Lorelog, tmp_path: Path) -> None:
    """Of two notes that give a timeout two values, the later one comes first, and each names the other."""
    write(
        memory,
        tmp_path,
        {
            "2026-10-02 09:00": "The HTTP timeout is 5 s.",
            "2026-10-09 09:00": "The HTTP timeout is now 30 s because one of the upstream servers answers slowly on Mondays.",
            "2026-10-10 09:00": "Otters sleep.",
        },
    )

    newer, older = memory.search("HTTP timeout", k=2).hits

    assert newer.date.startswith("2026-10-09")
    assert roles(newer) == [("now", "30 s", "5 s")]
    assert roles(older) == [("was", "5 s", "30 s")]
    assert (newer.now_was[0].other, older.now_was[0].other) == (older.id, newer.id)
    assert newer.score > older.score
    assert newer.score == pytest.approx(newer.explanation.score)
    (alone,) = memory.search("HTTP timeout", k=1).hits
    assert alone.id == newer.id


def test_without_the_setting_nothing_is_compared(tmp_path: Path) -> None:
    """With `search.now_was = false` the hits are ranked by the question alone and carry no marks."""
    with Lorelog(project=tmp_path, settings={**SETTINGS, "search.now_was": False}) as memory:
        long = "The HTTP timeout is now 30 s because one of the upstream servers answers slowly on Mondays."
        write(memory, tmp_path, {"2026-10-02 09:00": "The HTTP timeout is 5 s.", "2026-10-09 09:00": long})
        hits = memory.search("HTTP timeout", k=2).hits

    assert [hit.date[:10] for hit in hits] == ["2026-10-02", "2026-10-09"]
    assert [hit.now_was for hit in hits] == [(), ()]


def test_each_older_value_is_compared_with_the_newest(memory: Lorelog, tmp_path: Path) -> None:
    """Of three values the newest is current for both others; an old note with the current value is not outdated."""
    write(
        memory,
        tmp_path,
        {
            "2026-09-01 09:00": "The upload limit is 20 MB.",
            "2026-10-01 09:00": "The upload limit is 50 MB.",
            "2026-11-01 09:00": "The upload limit is 20 MB again.",
        },
    )

    marks = {hit.date[:7]: roles(hit) for hit in memory.search("upload limit", k=3).hits}

    assert marks["2026-10"] == [("was", "50 MB", "20 MB")]
    assert marks["2026-11"] == [("now", "20 MB", "50 MB")]
    assert marks["2026-09"] == []


def test_a_contradiction_of_one_time_is_flagged_on_both_and_reorders_nothing(memory: Lorelog, tmp_path: Path) -> None:
    """If the dates do not tell which value is current, both hits are shown as a conflict, in their order."""
    texts = {"2026-10-02": "The API listens on port 8080.", "2026-10-09 09:00": "Otters sleep."}
    write(memory, tmp_path, texts)
    (tmp_path / "api").mkdir()
    write(memory, tmp_path / "api", {"2026-10-02": "The API listens on port 9090 since the move."})

    hits = memory.search("API listens on port", k=2).hits

    assert sorted(roles(hits[0]) + roles(hits[1])) == [("conflict", "8080", "9090"), ("conflict", "9090", "8080")]
    assert all("now" not in [part.name for part in hit.explanation.parts] for hit in hits)


def test_other_scopes_are_not_compared(memory: Lorelog, tmp_path: Path) -> None:
    """A value of staging and a later one of production are two facts."""
    write(
        memory,
        tmp_path,
        {
            "2026-10-02 09:00": "In staging, the timeout is 5 s.",
            "2026-10-09 09:00": "In production, the timeout is 30 s.",
        },
    )

    assert [hit.now_was for hit in memory.search("timeout", k=2).hits] == [(), ()]


def test_text_from_elsewhere_supersedes_nothing_of_ours(memory: Lorelog, tmp_path: Path) -> None:
    """A newer value that a tool or an import brought is a conflict, and does not rank above the user's own."""
    write(memory, tmp_path, {"2026-10-02 09:00": "The HTTP timeout is 5 s."})
    write(memory, tmp_path, {"2026-10-09 09:00": "The HTTP timeout is 30 s, they say."}, anchor="origin:import ")

    hits = memory.search("HTTP timeout", k=2).hits

    assert {change.role for hit in hits for change in hit.now_was} == {ValueRole.CONFLICT}
    assert all("now" not in [part.name for part in hit.explanation.parts] for hit in hits)


def test_an_entry_in_several_chunks_is_one_hit(memory: Lorelog, tmp_path: Path) -> None:
    """A memory that was cut into chunks appears once, with its best chunk; two notes of one minute appear both."""
    body = "\n".join(f"Line {number} tells of otters, rivers and stones, number {number}." for number in range(90))
    write(memory, tmp_path, {"2026-10-02 09:00": f"{body}\nThe otter of Lisbon sleeps in the harbour."})
    (tmp_path / "2026-10-03.md").write_text("### 10:00\nAn otter swims.\n\n### 10:00\nAnother otter dives.\n", "utf-8")
    memory.index([tmp_path])

    hits = memory.search("otter Lisbon harbour", k=9).hits

    assert [hit.date[:10] for hit in hits] == ["2026-10-02", "2026-10-03", "2026-10-03"]
    assert "Lisbon" in hits[0].content


def test_copies_of_an_entry_in_several_chunks_are_one_hit(memory: Lorelog, tmp_path: Path) -> None:
    """A long note that is indexed through two folders appears once, whichever copy each of its chunks was taken from."""
    body = "\n".join(f"Line {number} tells of otters, rivers and stones, number {number}." for number in range(90))
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        write(memory, tmp_path / name, {"2026-10-02 09:00": body})

    (hit,) = memory.search("otters rivers stones", k=9).hits

    assert len(hit.duplicates) == 1


def test_the_outcome_counts_for_more_than_the_commands(memory: Lorelog, tmp_path: Path) -> None:
    """An entry whose outcome answers the question ranks above one that only ran commands with the same words."""
    commands = "\n".join(f"  - `alembic upgrade migration_{number}`" for number in range(6))
    write(
        memory,
        tmp_path,
        {
            "2026-10-02 09:00": f"- User asked: tidy the tests\n- Outcome: All tests pass.\n- Commands:\n{commands}\n  - `alembic history`",
            "2026-10-03 09:00": "- User asked: make it start again\n- Outcome: The service failed because the alembic migration was not "
            "applied by the deploy script of the second server; the script applies it now, and the service starts.\n- Files: deploy.sh",
        },
    )

    best, other = memory.search("alembic migration", k=2).hits

    assert best.date.startswith("2026-10-03")
    assert "commands" in [part.name for part in other.explanation.parts]
