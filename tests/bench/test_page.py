"""Stored results of benches: what the page shows of them, and when they are marked stale."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from bench.all import BENCHES
from bench.page import MARKER, PAGE, SUMMARY, render_page, repeat_parts
from bench.result import REPOSITORY, Figure, Result, loaded_modules, read_results, reset_loaded_modules
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


def test_a_module_that_the_run_did_not_load_does_not_make_it_stale(tmp_path: Path) -> None:
    """If the modules of a run are known, only they and data of the measured code count."""
    measured = replace(result(commit(tmp_path, "src/index.py")), modules=("src/index.py",))
    commit(tmp_path, "src/search/rank.py", "2026-03-06")
    assert find_change(measured, tmp_path) is None
    data = commit(tmp_path, "src/search/words.txt", "2026-03-07")
    assert find_change(measured, tmp_path) == Change(data[:7], "2026-03-07")


def test_prose_and_what_was_taken_back_make_nothing_stale(tmp_path: Path) -> None:
    """Comments, docstrings and layout may change, and code that is again as it was."""
    before = 'def index() -> int:\n    """Count."""\n    return 1\n'
    measured = result(commit(tmp_path, "src/index.py", text=before))
    commit(tmp_path, "src/index.py", "2026-03-06", '"""A module."""\n\ndef index() -> int:\n    return 1  # one\n')
    assert find_change(measured, tmp_path) is None
    changed = commit(tmp_path, "src/index.py", "2026-03-07", before.replace("1", "2"))
    assert find_change(measured, tmp_path) == Change(changed[:7], "2026-03-07")
    commit(tmp_path, "src/index.py", "2026-03-08", before)
    assert find_change(measured, tmp_path) is None


def test_the_modules_of_a_run_are_those_that_its_processes_load(tmp_path: Path) -> None:
    """A module is recorded if a process imports it, also one that exits without clean-up."""
    package = tmp_path / "src" / "lorelog"
    package.mkdir(parents=True)
    for name in ("__init__", "used", "unused"):
        (package / f"{name}.py").write_text("", "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src"), "PYTHONDONTWRITEBYTECODE": ""}

    def load(*modules: str) -> None:
        script = f"import os, {', '.join(modules)}; os._exit(0)"
        subprocess.run([sys.executable, "-c", script], env=environment, cwd=tmp_path, check=True)

    load("lorelog.used", "lorelog.unused")
    reset_loaded_modules(tmp_path)
    assert loaded_modules(tmp_path) == ()
    load("lorelog.used")
    if not loaded_modules(tmp_path):
        pytest.skip("this file system keeps no access times")
    assert loaded_modules(tmp_path) == ("src/lorelog/__init__.py", "src/lorelog/used.py")


@pytest.mark.parametrize("unknown", ["", "0123456789"])
def test_a_result_without_a_known_commit_is_compared_by_its_day(tmp_path: Path, unknown: str) -> None:
    """A commit of the same day does not make it stale, one of a later day does."""
    commit(tmp_path, "src/index.py")
    assert find_change(result(unknown), tmp_path) is None
    commit(tmp_path, "src/index.py", "2026-03-06")
    assert find_change(result(unknown), tmp_path) is not None


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
    assert sum(bench.minutes for bench in BENCHES) <= 60
    assert [path for bench in BENCHES for path in bench.measures if not (REPOSITORY / path).exists()] == []
    places = {found["name"] for found in MARKER.finditer((REPOSITORY / PAGE).read_text("utf-8"))}
    assert {bench.name for bench in BENCHES} | {"state", "targets"} <= places
    assert set(read_results()) <= places


def test_a_slower_command_is_reported() -> None:
    """More than 5 % of CPU time beyond a millisecond of noise is slower, and so is a command that no longer runs."""
    before = {"python -c pass": 10.0, "search": 100.0, "add": 4.0, "index": 50.0}
    assert trend.slower(before, {"python -c pass": 20.0, "search": 104.9, "add": 4.9, "index": 52.4}) == []
    assert trend.slower(before, {"python -c pass": 10.0, "search": 105.1, "add": 5.1}) == ["search", "add", "index"]
