"""Promises tried on this machine, in temporary homes, with the commands that people type.

    python -m bench.safety.promises [--cycles 10] [--json]

Writers are processes of their own (`python -m bench.safety.promises ROOT WORD`). They note which files were flushed and locked before a
command was acknowledged, because the system keeps what a killed process wrote, flushed or not. The tests remove one protection after
the other from a copy of the program, and a trial must fail each time. `kill_trials` and `fault_trials` kill every other verb, fill disks and damage files.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field, to_builtins

from lorelog.code.git import run_git
from lorelog.core.caller import without_agent_markers
from lorelog.core.errors import plural
from lorelog.light.daemon_connection import find_address, read_lock_holder
from lorelog.light.daemon_control import stop
from lorelog.surfaces.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_MAX_ACKNOWLEDGED = 8
"""A writer is killed after at most this many commands more than three."""
_VERBS = {
    "add": (["add", "The {word} sleeps at noon."], "The {word} sleeps"),
    "task": (["task", "start", "Feed the {word}."], r"Feed the {word}\."),
    "guard": (["guard", "add", "--command", "{word} *", "--message", "Not the {word}."], r"Not the {word}\."),
    "import": (["import", "obsidian", "{root}/notes/{name}", "--yes"], "The {word} eats"),
    "capture": (["call", "session.capture", "{capture}"], "Where does the {word} live"),
}
"""The commands of a writer, and the pattern of what each leaves, once, in a journal, the ledger or the guards."""
_FORBIDDEN = ("forget --match {word} --yes", "pause s1 --resume", "guard enable {guard} --block")
"""Commands that an agent must not run."""
_TRUTH = (
    "{project}/.lorelog/**/*.md",
    "{home}/data/*/memory/**/*.md",
    "{home}/**/ledger*.jsonl",
    "{home}/**/guards.jsonl",
)
_NOT_TRIED = "Not tried: power cuts, full disks, damaged files, programs that run as you."

MODULE = "bench.safety.promises"
_CHECKOUT = Path(__file__).resolve().parents[2]

Written = set[tuple[str, str]]
"""Verbs and words that were acknowledged."""


class TrialReport(Struct):
    """What was tried, and which promises were broken."""

    name: str
    acknowledged: int = 0
    faults: list[str] = field(default_factory=list)


class TrialPlace(Struct, frozen=True):
    """A home and a project in a temporary folder."""

    root: Path
    home: str = "home"
    project: str = "project"

    def start(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        """Start a module of ours with a person's environment and no setting of the user."""
        (self.root / self.project).mkdir(exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LORELOG_")}
        own = {"LORELOG_HOME": str(self.root / self.home), "LORELOG_EMBEDDING_PROVIDER": "none", "HOME": str(self.root)}
        own |= {"PYTHONPATH": os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(_CHECKOUT))))}
        own |= {"LORELOG_DAEMON_WARM": "off", **without_agent_markers(os.environ), **variables}
        pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        command = [sys.executable, "-m", *words]
        return subprocess.Popen(command, cwd=self.root / self.project, env=kept | own, text=True, **pipes)

    def run(self, report: TrialReport, *words: str, given: str = "") -> str:
        """Run a command to its end, and return what it printed. A failure is a fault."""
        process = self.start("lorelog", *words)
        printed, said = process.communicate(given)
        report.faults += [f"{words[0]} failed: {said}"] if process.returncode else []
        return printed

    def truth(self) -> dict[Path, str]:
        """Return the text of journals, ledger and guards."""
        patterns = [pattern.format(home=self.home, project=self.project) for pattern in _TRUTH]
        return {path: path.read_text("utf-8") for pattern in patterns for path in self.root.glob(pattern)}


def try_promises(cycles: int) -> list[TrialReport]:
    """Run the trials in a temporary folder: two killed writers, a killed daemon, repetition, sync, an agent, a guard, forget."""
    place = TrialPlace(Path(tempfile.mkdtemp(prefix="lorelog-trial-")).resolve())
    try:
        return list(_run_trials(place, cycles))  # each is filled after it was yielded
    finally:
        stop(find_address(str(place.root / place.home)))
        shutil.rmtree(place.root, ignore_errors=True)


def _run_trials(place: TrialPlace, cycles: int) -> Iterator[TrialReport]:
    written: Written = set()
    yield (report := TrialReport(f"two writers at once, killed {plural(cycles, 'time')}"))
    for cycle in range(cycles):
        _run_killed_writers(place, report, f"walrus{_letters(cycle)}", written)
    check_words(place, report, written)
    yield (report := TrialReport("a daemon killed while it writes"))
    _run_killed_writers(place, report, "otter", written, daemon="auto")
    check_words(place, report, written)
    yield (report := TrialReport("the same written again without the list of captures and the cache"))
    shutil.rmtree(place.root / place.home / "cache")
    for path in (place.root / place.home).glob("data/*/captures.db*"):
        path.unlink()
    place.run(report, "index")
    again = [f"{verb} {word}" for verb, word in written if verb not in {"task", "guard"}]
    place.start(MODULE, str(place.root), *again).communicate()
    check_words(place, report, written)
    if shutil.which("git"):
        yield (report := TrialReport("a sync with another home"))
        other, remote = TrialPlace(place.root, "home2", "project2"), str(place.root / "remote.git")
        run_git(["init", "-q", "--bare", remote], os.environ)
        for each in (place, other, place, other):
            synced = json.loads(each.run(report, "sync", remote, "--as", "trial", "--user", "trial", "--json"))
            for writer in synced["exchanges"][0]["new_writers"]:
                each.run(report, "sync", "--accept-writer", writer["id"])
        check_words(other, report, {(verb, word) for verb, word in written if verb in {"add", "task"}})
    yield (report := TrialReport("an agent that runs commands of a person, and a call that a guard blocks"))
    word = min(word for verb, word in written if verb == "guard")
    guards = json.loads(place.run(report, "guard", "list", "--json"))["guards"]
    guard = next(guard["id"] for guard in guards if word in guard["message"])
    for command in _FORBIDDEN:
        agent = place.start("lorelog", *command.format(word=word, guard=guard).split(), CLAUDECODE="1")
        agent.communicate()
        report.faults += [] if agent.returncode else [f"not refused: {command}"]
    place.run(report, "guard", "enable", guard, "--block")
    call = json.dumps({"session_id": "s1", "tool_name": "Bash", "tool_input": {"command": f"{word} x"}})
    if "deny" not in place.run(report, "hook", "claude", "tool-before", given=call):
        report.faults.append("a guard does not block")
    yield (report := TrialReport("a memory forgotten"))
    hits = json.loads(place.run(report, "search", f"{word} sleeps", "--json"))["hits"]
    place.run(report, "feedback", f"where does the {word} sleep", hits[0]["id"], "relevant")
    place.run(report, "forget", "--match", word, "--yes", "--all-projects")
    for path in (*(place.root / place.home).rglob("*"), *(place.root / place.project).rglob("*")):
        if path.is_file() and word.encode() in path.read_bytes().lower():
            report.faults.append(f"left behind: {path.relative_to(place.root)}")


def _run_killed_writers(
    place: TrialPlace, report: TrialReport, prefix: str, written: Written, *, daemon: str = "off"
) -> None:
    """Kill two writers, or the daemon and then both, a random while after each has acknowledged some commands."""
    names = [prefix + _letters(number) for number in range(2)]
    writers = [place.start(MODULE, str(place.root), name, LORELOG_DAEMON_WARM=daemon) for name in names]
    outputs = [writer.stdout for writer in writers if writer.stdout]
    lines = [output.readline() for output in outputs for _ in range(3 + secrets.randbelow(_MAX_ACKNOWLEDGED))]
    time.sleep(secrets.randbelow(50) / 1000)
    if daemon != "off":
        holder = read_lock_holder(find_address(str(place.root / place.home)))
        if holder and "pid" in holder:
            os.kill(holder["pid"], signal.SIGKILL)
        else:
            report.faults.append("no daemon ran")
        lines += [output.readline() for output in outputs]
    for writer in writers:
        writer.kill()
        lines += writer.communicate()[0].splitlines(keepends=True)
    for verb, word, *faults in (json.loads(line) for line in lines if line.endswith("\n")):
        if not any(fault.startswith("failed") for fault in faults):
            written.add((verb, word))
        report.faults += [f"{fault}: {verb} {word}" for fault in faults if daemon == "off"]


def check_words(place: TrialPlace, report: TrialReport, written: Written) -> None:
    """Note what was acknowledged and is lost, what is there twice, and entries of the user that are not known as theirs."""
    report.acknowledged = len(written)
    truth = "\n".join(place.truth().values())
    for verb, (_, pattern) in _VERBS.items():
        counts = Counter(re.findall(pattern.format(word=r"(\w+)"), truth))
        report.faults += [f"lost: {verb} {word}" for kind, word in written if kind == verb and not counts[word]]
        report.faults += [f"twice: {verb} {word}" for word, times in counts.items() if times > 1]
    own = "".join(path.read_text("utf-8") for path in (place.root / place.home).rglob("authored.jsonl"))
    entries = re.findall(r"memory:([\w-]+)[^#]*?The (\w+) sleeps", truth)
    report.faults += [f"not known as the user's: {word}" for memory, word in entries if memory not in own]
    place.run(report, "index")
    found = place.run(report, "search", "sleeps at noon", "-k", "1000", "--json")
    report.faults += [f"not found: {word}" for verb, word in written if verb == "add" and word not in found]
    place.run(report, "ledger", "check")


def _letters(number: int) -> str:
    """Return a number in letters, ending in x: a word that is neither a secret nor split by the analyser nor the start of another."""
    return "".join("abcdefghij"[int(digit)] for digit in str(number)) + "x"


def _main() -> int:
    """Print a line for each trial; return 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cycles", type=int, default=10, help="number of kills")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    reports = try_promises(max(1, args.cycles))
    for report in () if args.json else reports:
        count = f": {plural(report.acknowledged, 'write')} acknowledged" if report.acknowledged else ""
        print("\n      ".join([f"{'fail' if report.faults else 'ok  '}  {report.name}{count}", *report.faults[:5]]))
    ok = not any(report.faults for report in reports)
    if args.json:
        trials = [{**to_builtins(report), "ok": not report.faults} for report in reports]
        print(json.dumps({"ok": ok, "trials": trials}, indent=2))
    else:
        print(f"{'Every promise that was tried held.' if ok else 'A promise was broken.'} {_NOT_TRIED}")
    return 0 if ok else 1


def _command(place: TrialPlace, verb: str, word: str) -> list[str]:
    """Return a command about a word, and write the files that it reads."""
    name = word[::-1]  # names of files and sessions outlive what is forgotten
    note, talk = place.root / "notes" / name / "note.md", place.root / "talks" / f"{name}.jsonl"
    for path in (note, talk):
        path.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(f"The {word} eats fish.\n", "utf-8")
    base = {"sessionId": name, "cwd": str(place.root / place.project), "timestamp": "2026-03-05T14:00:00Z"}
    said = {"user": f"Where does the {word} live?", "assistant": [{"type": "text", "text": "In the river."}]}
    turn = [{"type": who, "uuid": name + who, "message": {"role": who, "content": text}} for who, text in said.items()]
    talk.write_text("".join(json.dumps(base | line) + "\n" for line in turn), "utf-8")
    capture = json.dumps({"host": "claude", "session": name, "transcript": str(talk), "everything": True})
    return [each.format(word=word, name=name, root=place.root, capture=capture) for each in _VERBS[verb][0]]


def _watch(module: Any, name: str) -> dict[int, int]:
    """Return the files that a function of a module is called for from now on, with their sizes at that time."""
    seen: dict[int, int] = {}
    call = getattr(module, name)

    def noted(descriptor: int, *more: Any) -> Any:
        status = os.fstat(descriptor)
        seen[status.st_ino] = status.st_size
        return call(descriptor, *more)

    setattr(module, name, noted)
    return seen


def _write(place: TrialPlace, commands: Iterable[Sequence[str]]) -> None:
    """Run commands, verb and word; print each once it is acknowledged, with what it did without flush or lock."""
    flushed, locked = _watch(os, "fsync"), _watch(fcntl, "flock")
    for verb, word in commands:
        flushed.clear()
        locked.clear()
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()) as said:
            status = main(_command(place, verb, word))
        faults = [f"failed: {said.getvalue()}"] if status else []
        for file, text in place.truth().items():
            match = re.search(_VERBS[verb][1].format(word=word), text)
            if match and flushed.get(file.stat().st_ino, 0) < len(text[: match.end()].encode()):
                faults.append("acknowledged before it was on disk")
            if match and not locked.keys() & {path.stat().st_ino for path in file.parent.iterdir()}:
                faults.append("written without a lock")
        print(json.dumps([verb, word, *faults]), flush=True)


if __name__ == "__main__":
    if not sys.argv[2:] or sys.argv[1].startswith("-"):
        sys.exit(_main())
    root, first, *more = sys.argv[1:]
    endless = ((verb, first + _letters(number)) for number in count() for verb in _VERBS)  # until it is killed
    _write(TrialPlace(Path(root)), [each.split() for each in (first, *more)] if " " in first else endless)
