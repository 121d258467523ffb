"""Stored results of benches: what the page shows of them, and when they are marked stale."""

import subprocess
from dataclasses import replace
from pathlib import Path

from bench.all import BENCHES
from bench.page import MARKER, PAGE, SUMMARY, VALUE, render_page, repeat_parts
from bench.result import REPOSITORY, Figure, Result, read_results
from bench.stale import Change, find_change

from bench import trend

DAY = "2026-03-05"
PAGE_TEXT = "# B\n\n## Search speed\n\n<!-- bench: speed -->\n<!-- end bench: speed -->\n\nBy hand.\n"


def commit(repository: Path, name: str, day: str = DAY, text: str = "") -> str:
    """Write a file and commit it on a day; return the commit."""
    path = repository / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text or f"{len(list(repository.rglob('*')))} {day}", "utf-8")
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    when = {"GIT_COMMITTER_DATE": f"{day}T12:00:00Z", "GIT_AUTHOR_DATE": f"{day}T12:00:00Z", "PATH": "/usr/bin:/bin"}
    for words in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-qm", name], ["rev-parse", "HEAD"]):
        said = subprocess.check_output(["git", "-C", str(repository), *words], env=when, text=True)
    return said.strip()


def result(commit: str, *figures: Figure) -> Result:
    measures = ("src/search", "src/index.py")
    return Result("speed", DAY, commit, "a machine", measures, figures=figures, section=("## Table", "| a |"))


def test_a_result_is_stale_when_the_code_it_measures_has_changed(tmp_path: Path) -> None:
    """Other files do not count; of several later commits the first one is named, so that the mark stays the same."""
    measured = commit(tmp_path, "src/search/rank.py")
    commit(tmp_path, "docs/page.md")
    assert find_change(result(measured), tmp_path) is None

    first = commit(tmp_path, "src/index.py", "2026-03-07")
    commit(tmp_path, "src/search/rank.py", "2026-03-08")
    assert find_change(result(measured), tmp_path) == Change(first[:7], "2026-03-07")
    assert find_change(result(commit(tmp_path, "docs/page.md")), tmp_path) is None


def test_the_page_shows_results_and_keeps_handwritten_text(tmp_path: Path) -> None:
    """Date, commit, machine and mark stand above the section; writing it again changes nothing; a new bench gets a place."""
    stored = {"speed": result(commit(tmp_path, "src/index.py"), Figure("wall", "3x", ">= 2x", met=True, headline=True))}
    text = "<!-- bench: targets -->\n<!-- end bench: targets -->\n<!-- bench: state -->\n<!-- end bench: state -->\n"
    fresh = render_page(PAGE_TEXT + text, stored, tmp_path)

    assert f"Measured on {DAY}, commit `{stored['speed'].commit}`, a machine" in fresh
    assert "### Table\n| a |\n<!-- end bench: speed -->\n\nBy hand.\n" in fresh
    assert f"| wall | 3x | >= 2x | ok | [speed](#search-speed), {DAY} |" in fresh
    assert "1 of 1" in fresh
    assert "stale" not in fresh.lower()
    assert render_page(fresh, stored, tmp_path) == fresh

    commit(tmp_path, "src/index.py", "2026-03-09")
    assert render_page(fresh, stored, tmp_path).lower().count("**stale**") == 3

    new = render_page("# B\n\n<!-- bench: hooks -->\n<!-- end bench: hooks -->\n", {"speed": result("")}, tmp_path)
    assert new.index("## Speed") < new.index("| a |")
    assert "Not measured yet: `python -m bench.all --only hooks`" in new


def test_the_summary_repeats_the_results(tmp_path: Path) -> None:
    """A row of the summary is the row of the result's table, with its day and state; rows that a result lacks are left out."""
    table = (
        "|  | memsearch | lorelog | ratio |",
        "|---|--:|--:|--:|",
        "| unchanged re-index, wall | 5 s | 0.2 s | 25x |",
    )
    stored = replace(result(commit(tmp_path, "src/search/rank.py")), section=table)
    commit(tmp_path, "src/index.py", "2026-03-07")
    text = PAGE_TEXT + "\n<!-- bench: summary -->\nold\n<!-- end bench: summary -->\n"
    rows = render_page(text, {"speed": stored}, tmp_path).partition("<!-- bench: summary -->\n")[2].splitlines()[2:-1]
    assert rows == [f"| unchanged re-index, wall | 0.2 s | memsearch 5 s | [speed](#search-speed), {DAY}, **stale** |"]
    other = repeat_parts(render_page(text, {"speed": stored}, tmp_path), text)
    assert rows[0].replace("(#", "(benchmarks.md#").replace(", **stale**", "") in other


def test_the_summary_of_the_page_is_complete() -> None:
    """Every row that the summary names is in a stored result, and on the page."""
    text = (REPOSITORY / PAGE).read_text("utf-8").partition("<!-- bench: summary -->")[2].partition("<!-- end")[0]
    assert [line.split(" | ")[0].removeprefix("| ") for line in text.splitlines()[3:]] == [
        title or row for _, row, title in SUMMARY
    ]


def test_every_bench_measures_code_that_exists_and_has_a_place_on_the_page_and_all_take_an_hour() -> None:
    """A path that was renamed would never make a result stale; the minutes of the default form add up to at most 60."""
    assert sum(bench.minutes for bench in BENCHES if not bench.named_only) <= 60
    assert [path for bench in BENCHES for path in bench.measures if not (REPOSITORY / path).exists()] == []
    pages = "".join((REPOSITORY / page).read_text("utf-8") for page in (PAGE, VALUE))
    places = {found["name"] for found in MARKER.finditer(pages)}
    assert {bench.name for bench in BENCHES} | {"state", "targets", *read_results()} <= places


def test_counts_are_compared_with_the_best_of_the_same_build() -> None:
    """Counts of another interpreter do not count, nor do those before an accepted line."""
    made = (("a", 9, 100), ("a", 50, 100), ("a", 40, 100), ("a", 20, 200), ("b", 20, 100))
    counts = [(build, {"python -c pass": bare, "search": number}) for build, number, bare in made]
    lines = [{"build": build, "instructions": of, "accepted": of["search"] == 50} for build, of in counts]
    assert trend.least_counts(trend.comparable(lines, "a", {"python -c pass": 100})) == {"search": 40}


def test_a_slower_command_is_reported() -> None:
    """More than 5 % of CPU time beyond a millisecond of noise is slower, and so is a command that no longer runs."""
    before = {"python -c pass": 10.0, "search": 100.0, "add": 4.0, "index": 50.0}
    assert trend.slower(before, {"python -c pass": 20.0, "search": 104.9, "add": 4.9, "index": 52.4}) == []
    assert trend.slower(before, {"python -c pass": 10.0, "search": 105.1, "add": 5.1}) == ["search", "add", "index"]
