"""`lorelog doctor --chaos`: kill a writer on the user's own machine, open its home again and look for what it acknowledged.

The writer is a process of its own (`python -m lorelog.surfaces.cli.self_test`) in a temporary home: it adds a memory and a task for each
word and prints the word once both are acknowledged. Kills of every other verb, full disks and damaged files are tried by `bench/safety`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field, to_builtins

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.render import one_line, plural, print_json, stylize
from lorelog.surfaces.python.client import Lorelog

if TYPE_CHECKING:
    import argparse

_CYCLES = 10
_MAX_ACKNOWLEDGED = 4
"""A writer is killed during the word after at most this many."""
_SETTINGS = {"embedding.provider": "none"}
"""Words only: loading a model takes long and changes nothing about the files that are written."""


class TrialReport(Struct):
    """Counts of a trial. Every acknowledged word must be found, and none twice."""

    name: str
    cycles: int = 0
    acknowledged: int = 0
    lost: int = 0
    twice: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.faults


def run_self_test(args: argparse.Namespace) -> int:
    """Run the trials, print a line for each, and return 1 if a promise was broken."""
    cycles = _CYCLES if args.cycles is None else args.cycles
    if cycles < 1:
        raise UsageError(f"--cycles {cycles} is not a number of kills", hint="lorelog doctor --chaos --cycles 100")
    root = Path(tempfile.mkdtemp(prefix="lorelog-trial-")).resolve()
    try:
        killed, words = _kill_writers(root, cycles)
        reports = [killed, _lose_cache(root, words)]
    finally:
        shutil.rmtree(root, ignore_errors=True)
    ok = all(report.ok for report in reports)
    if args.json:
        print_json({"ok": ok, "trials": [{**to_builtins(report), "ok": report.ok} for report in reports]})
        return 0 if ok else 1
    for report in reports:
        _show(report)
    if ok:
        print("Every promise held.")
    return 0 if ok else 1


def _kill_writers(root: Path, cycles: int) -> tuple[TrialReport, list[str]]:
    """Kill a writer again and again; return the counts and the words that were acknowledged."""
    report, words = TrialReport("killed writers", cycles=cycles), list[str]()
    for cycle in range(cycles):
        (root / "project").mkdir(exist_ok=True)
        prefix = f"walrus{_letters(cycle)}"
        words += _run_killed_writer(root, prefix, 1 + secrets.randbelow(_MAX_ACKNOWLEDGED))
        report.acknowledged = len(words)
        check_words(root, report, words)
        if not report.ok:
            break
    return report, words


def _run_killed_writer(root: Path, prefix: str, count: int) -> list[str]:
    """Return the words that a writer acknowledged before it was killed, a random while after the `count`th."""
    command = [sys.executable, "-m", __name__, str(root), prefix]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as writer:
        assert writer.stdout is not None
        words = [writer.stdout.readline().strip() for _ in range(count)]
        try:
            writer.wait(secrets.randbelow(50) / 1000)
        except subprocess.TimeoutExpired:
            writer.kill()
        words += writer.stdout.read().split()
    return [word for word in words if word]


def _lose_cache(root: Path, words: list[str]) -> TrialReport:
    """Delete the cache: after `index` every word is found."""
    report = TrialReport("lost cache", cycles=1, acknowledged=len(words))
    shutil.rmtree(root / "home" / "cache")
    check_words(root, report, words)
    return report


def check_words(root: Path, report: TrialReport, words: list[str]) -> None:
    """Open the home, and note each acknowledged word that is not found, each that was written twice, and a broken ledger."""
    journals = "".join(path.read_text("utf-8") for path in (root / "project" / ".lorelog").rglob("*.md"))
    ledger = "".join(path.read_text("utf-8") for path in (root / "home").rglob("ledger*.jsonl"))
    if not words:
        report.faults.append("the writer acknowledged nothing")
    with _open(root) as memory:
        memory.index()
        if not memory.call("ledger.verify")["ok"]:
            report.faults.append("the ledger does not verify")
        for word in words:
            counts = journals.count(f"The {word} sleeps"), ledger.count(f"Feed the {word}.")
            if not all(counts) or not any(word in hit.content for hit in memory.search(word).hits):
                report.lost += 1
                report.faults.append(f"lost: {word}")
            if max(counts) > 1:
                report.twice += 1
                report.faults.append(f"twice: {word}")


def _open(root: Path) -> Lorelog:
    return Lorelog(project=root / "project", home=root / "home", settings=_SETTINGS)


def _letters(number: int) -> str:
    """Return a number in letters, ending in x: a word that is neither a secret nor split by the analyser nor the start of another."""
    return "".join("abcdefghij"[int(digit)] for digit in str(number)) + "x"


def _show(report: TrialReport) -> None:
    mark = stylize("ok  ", "green") if report.ok else stylize("fail", "red")
    counts = f"{plural(report.acknowledged, 'write')} acknowledged, {report.lost} lost, {report.twice} twice"
    print(f"{mark}  {report.name}: {plural(report.cycles, 'time')}, {counts}")
    for fault in report.faults[:5]:
        print(f"      {one_line(fault)}")


def _write(root: Path, prefix: str) -> None:
    """Write until the process is killed; print each word once its memory and its task are acknowledged."""
    number = 0
    with _open(root) as memory:
        while True:
            word = prefix + _letters(number)
            memory.add(f"The {word} sleeps at noon.")
            memory.task.start(goal=f"Feed the {word}.")
            print(word, flush=True)
            number += 1


if __name__ == "__main__":
    _write(Path(sys.argv[1]), sys.argv[2])
