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

from lorelog.core.errors import UsageError, plural
from lorelog.surfaces.cli.client import print_reply
from lorelog.surfaces.python.client import Lorelog
from lorelog.surfaces.text import one_line, stylize

if TYPE_CHECKING:
    import argparse

    from lorelog.operations.operation import Json

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
    """Kill writers, then delete the cache; print a line for each trial, and return 1 if a promise was broken."""
    cycles = _CYCLES if args.cycles is None else args.cycles
    if cycles < 1:
        raise UsageError(f"--cycles {cycles} is not a number of kills", hint="lorelog doctor --chaos --cycles 100")
    killed, lost = TrialReport("killed writers", cycles=cycles), TrialReport("lost cache", cycles=1)
    words: list[str] = []
    root = Path(tempfile.mkdtemp(prefix="lorelog-trial-")).resolve()
    (root / "project").mkdir()
    try:
        for cycle in range(cycles):
            words += _run_killed_writer(root, f"walrus{_letters(cycle)}", 1 + secrets.randbelow(_MAX_ACKNOWLEDGED))
            check_words(root, killed, words)
            if not killed.ok:
                break
        shutil.rmtree(root / "home" / "cache")
        check_words(root, lost, words)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    trials = [{**to_builtins(report), "ok": report.ok} for report in (killed, lost)]
    return print_reply(args, {"ok": killed.ok and lost.ok, "trials": trials}, _show)


def _run_killed_writer(root: Path, prefix: str, count: int) -> list[str]:
    """Return the words that a writer acknowledged before it was killed, a random while after the `count`th."""
    command = [sys.executable, "-m", __name__, str(root), prefix]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as writer:
        assert writer.stdout is not None
        words = [writer.stdout.readline().strip() for _ in range(count)]
        try:
            writer.wait(secrets.randbelow(50) / 1000)
        except subprocess.TimeoutExpired:
            writer.kill()
        words += writer.stdout.read().split()
    return [word for word in words if word]


def check_words(root: Path, report: TrialReport, words: list[str]) -> None:
    """Open the home, and note each acknowledged word that is not found, each that was written twice, and a broken ledger."""
    report.acknowledged = len(words)
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


def _show(reply: Json, args: argparse.Namespace) -> None:
    for trial in reply["trials"]:
        mark = stylize("ok  ", "green") if trial["ok"] else stylize("fail", "red")
        counts = f"{plural(trial['acknowledged'], 'write')} acknowledged, {trial['lost']} lost, {trial['twice']} twice"
        print(f"{mark}  {trial['name']}: {plural(trial['cycles'], 'time')}, {counts}")
        for fault in trial["faults"][:5]:
            print(f"      {one_line(fault)}")
    if reply["ok"]:
        print("Every promise held.")


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
