"""Kill trials: a verb that writes is killed at a random moment, or before each of its writes.

Right after the kill every journal entry must be registered as written here, and the next commands must find everything once, or
not at all.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import signal
import string
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.safety.children import ChildResult, load_modules, random_moment, run_child

from lorelog.core.errors import LorelogError, NotFound, SourceChanged, UsageError
from lorelog.light.delivery_files import parse_entries
from lorelog.services.memory_state.authored import AuthoredMemories
from lorelog.services.standing.ownership import entry_anchor
from lorelog.surfaces.python.client import Lorelog

Report = Callable[[Any], None]

SETTINGS = {"embedding.provider": "none"}
"""Words only: a model would be loaded by every child, and changes nothing about what is written."""
_CALIBRATION_RUNS = 3
_CYCLES_PER_HOME = 25
"""Cycles after which a new home is used, so that searching every file of it stays cheap."""


@dataclass(frozen=True, slots=True)
class TrialHome:
    """Folders of a trial."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def project(self) -> Path:
        return self.root / "project"

    @contextmanager
    def open(self) -> Iterator[Lorelog]:
        with Lorelog(project=self.project, home=self.home, settings=SETTINGS) as memory:
            yield memory

    def count(self, word: str, *, below: Sequence[Path] = ()) -> int:
        """Return how often a word stands in the files below the folders, compressed ones included."""
        return sum(_count_in(path, word) for folder in below or (self.home, self.project) for path in _files(folder))


@dataclass
class KillReport:
    """Counts of a trial: what was acknowledged must be there, nothing twice, nothing of what was forgotten, and nobody else's."""

    verb: str
    cycles: int = 0
    killed: int = 0
    acknowledged: int = 0
    lost: int = 0
    twice: int = 0
    foreign: int = 0
    """Entries of journals that were written here and are not registered."""
    residues: int = 0
    failed: int = 0
    """Cycles after which a command did not work."""
    faults: list[str] = field(default_factory=list)
    """The first few, in words."""

    @property
    def ok(self) -> bool:
        return not (self.lost or self.twice or self.foreign or self.residues or self.failed)

    def note(self, count_name: str, text: str) -> None:
        setattr(self, count_name, getattr(self, count_name) + 1)
        if len(self.faults) < 10:
            self.faults.append(f"{count_name}: {text}")


class KillTrial:
    """One verb. `prepare` runs before it, `act` is killed, `check` says what is wrong afterwards."""

    verb = ""

    def prepare(self, place: TrialHome, word: str) -> dict[str, Any]:
        """Set the cycle up and return what `act` and `check` need; runs to its end."""
        return {}

    def act(self, place: TrialHome, word: str, given: dict[str, Any], report: Report) -> None:
        """Run the verb, and report once it has been acknowledged."""
        raise NotImplementedError

    def check(self, place: TrialHome, word: str, given: dict[str, Any], *, acknowledged: bool) -> Iterator[str]:
        """Yield `lost`, `twice` or `residues` for each promise that was broken; run what recovers first."""
        raise NotImplementedError

    def written_home(self, place: TrialHome, word: str) -> TrialHome:
        """Return the home whose journals the verb writes."""
        return place


class AddTrial(KillTrial):
    """`add`: repeated, acknowledged or not, the memory is in the journal once, and found."""

    verb = "add"

    def act(self, place: TrialHome, word: str, given: dict[str, Any], report: Report) -> None:
        with place.open() as memory:
            report(memory.add(f"The {word} sleeps at noon.").id)

    def check(self, place: TrialHome, word: str, given: dict[str, Any], *, acknowledged: bool) -> Iterator[str]:
        if acknowledged:
            yield from _check_journal(place, word, expected=True)
        self.act(place, word, given, _ignore)
        yield from _check_journal(place, word, expected=True)


class SupersedeTrial(KillTrial):
    """`supersede`: repeated, the new text is in the journal once, and the old one is hidden."""

    verb = "supersede"

    def prepare(self, place: TrialHome, word: str) -> dict[str, Any]:
        with place.open() as memory:
            return {"id": memory.add(f"The otter of {word[::-1]} sleeps at noon.").id}

    def act(self, place: TrialHome, word: str, given: dict[str, Any], report: Report) -> None:
        with place.open() as memory:
            report(memory.supersede(given["id"], f"The {word} sleeps at night.").id)

    def check(self, place: TrialHome, word: str, given: dict[str, Any], *, acknowledged: bool) -> Iterator[str]:
        with suppress(UsageError):  # superseded already
            self.act(place, word, given, _ignore)
        yield from _check_journal(place, word, expected=True)
        with place.open() as memory:
            if any(word[::-1] in hit.content for hit in memory.search(word[::-1]).hits):
                yield "twice"


class EditTrial(KillTrial):
    """`memory.edit`, as the page does: the file has the old text or the new one; repeated, the new one."""

    verb = "edit"

    def prepare(self, place: TrialHome, word: str) -> dict[str, Any]:
        with place.open() as memory:
            added = memory.add(f"The otter of {word[::-1]} sleeps at noon.")
            return {"id": added.memory, "before": memory.expand(added.id).content}

    def act(self, place: TrialHome, word: str, given: dict[str, Any], report: Report) -> None:
        after = given["before"].replace(f"otter of {word[::-1]}", word)
        with place.open() as memory:
            memory.call("memory.edit", {"id": given["id"], "before": given["before"], "text": after})
            report("edited")

    def check(self, place: TrialHome, word: str, given: dict[str, Any], *, acknowledged: bool) -> Iterator[str]:
        with suppress(SourceChanged):  # edited already
            self.act(place, word, given, _ignore)
        yield from _check_journal(place, word, expected=True)
        if sum(_count_in(path, word[::-1]) for path in _journals(place)):
            yield "twice"


class DeleteTrial(KillTrial):
    """`delete`: repeated, the memory is hidden, and its text stays in the journal."""

    verb = "delete"

    def prepare(self, place: TrialHome, word: str) -> dict[str, Any]:
        with place.open() as memory:
            return {"id": memory.add(f"The {word} sleeps at noon.").id}

    def act(self, place: TrialHome, word: str, given: dict[str, Any], report: Report) -> None:
        with place.open() as memory:
            memory.delete(given["id"])
            report("deleted")

    def check(self, place: TrialHome, word: str, given: dict[str, Any], *, acknowledged: bool) -> Iterator[str]:
        with suppress(NotFound):
            self.act(place, word, given, _ignore)
        with place.open() as memory:
            memory.index()
            if any(word in hit.content for hit in memory.search(word).hits):
                yield "twice"
        yield from _check_written_once(place, word)


class CompactTrial(KillTrial):
    """`compact`: repeated, the summary is in the journal once."""

    verb = "compact"

    def prepare(self, place: TrialHome, word: str) -> dict[str, Any]:
        notes = place.project / f"{word}.md"
        notes.write_text(f"# Notes\n\nThe {word} swims in the river because the weir is open.\n", "utf-8")
        with place.open() as memory:
            memory.index([str(notes)])
        return {"source": str(notes), "llm": "none"}

    def act(self, place: TrialHome, word: str, given: dict[str, Any], report: Report) -> None:
        with place.open() as memory:
            memory.call("memory.compact", given)
            report("summarized")

    def check(self, place: TrialHome, word: str, given: dict[str, Any], *, acknowledged: bool) -> Iterator[str]:
        self.act(place, word, given, _ignore)
        yield from _check_written_once(place, word)


class ImportTrial(KillTrial):
    """`import rules`: repeated, the imported rule is in the journals once."""

    verb = "import"

    def prepare(self, place: TrialHome, word: str) -> dict[str, Any]:
        (place.project / "CLAUDE.md").write_text(f"# Rules\n\n- The {word} swims.\n", "utf-8")
        return {}

    def act(self, place: TrialHome, word: str, given: dict[str, Any], report: Report) -> None:
        if status := _run_command(place, "import", "rules", "--yes", LORELOG_DAEMON_WARM="off"):
            raise LorelogError(f"import ended with {status}")
        report("imported")

    def check(self, place: TrialHome, word: str, given: dict[str, Any], *, acknowledged: bool) -> Iterator[str]:
        self.act(place, word, given, _ignore)
        yield from _check_written_once(place, word)


class TaskTrial(KillTrial):
    """`task start`: an acknowledged record is in the ledger once, and the chain holds."""

    verb = "task"

    def act(self, place: TrialHome, word: str, given: dict[str, Any], report: Report) -> None:
        with place.open() as memory:
            report(memory.task.start(goal=f"Feed the {word}").artifact_id)

    def check(self, place: TrialHome, word: str, given: dict[str, Any], *, acknowledged: bool) -> Iterator[str]:
        with place.open() as memory:
            if not memory.call("ledger.verify")["ok"]:
                yield "lost"
        lines = sum(word in line for path in place.home.rglob("ledger*.jsonl") for line in path.open(encoding="utf-8"))
        if acknowledged and not lines:
            yield "lost"
        if lines > 1:
            yield "twice"


class IndexTrial(KillTrial):
    """`index`: the next run completes it; every file is found and the lanes agree with the catalog."""

    verb = "index"
    files = 3

    def prepare(self, place: TrialHome, word: str) -> dict[str, Any]:
        notes = place.project / "notes"
        notes.mkdir(exist_ok=True)
        for number in range(self.files):
            (notes / f"{number}.md").write_text(f"# Note {number}\n\nThe {word} swims in river {number}.\n", "utf-8")
        return {"notes": str(notes)}

    def act(self, place: TrialHome, word: str, given: dict[str, Any], report: Report) -> None:
        with place.open() as memory:
            memory.index([given["notes"]])
            report("indexed")

    def check(self, place: TrialHome, word: str, given: dict[str, Any], *, acknowledged: bool) -> Iterator[str]:
        with place.open() as memory:
            memory.index([given["notes"]])
            sources = [hit.source for hit in memory.search(word, k=10).hits]
            if not memory.check_store().is_consistent:
                yield "lost"
        if len(set(sources)) != self.files:
            yield "lost"
        if len(sources) != len(set(sources)):
            yield "twice"


class CaptureTrial(KillTrial):
    """`capture`: each turn of a conversation is in the journal once, after the capture is repeated as the daemon does."""

    verb = "capture"
    turns = 3

    def prepare(self, place: TrialHome, word: str) -> dict[str, Any]:
        folder = place.root / "transcripts"
        folder.mkdir(exist_ok=True)
        path = folder / f"{word}.jsonl"
        lines: list[dict[str, Any]] = []
        for turn in range(self.turns):
            base = {"sessionId": word, "cwd": str(place.project), "isSidechain": False, "userType": "external"}
            asked = {"role": "user", "content": f"Where does the {word}{_letters(turn)} live?"}
            said = [
                {"type": "text", "text": f"The {word}{_letters(turn)} lives in the northern river, below the weir."}
            ]
            minute = f"2026-03-05T14:0{turn}"
            lines += [
                {**base, "type": "user", "uuid": f"u{turn}", "timestamp": f"{minute}:00.000Z", "message": asked},
                {
                    **base,
                    "type": "assistant",
                    "uuid": f"a{turn}",
                    "parentUuid": f"u{turn}",
                    "timestamp": f"{minute}:30.000Z",
                    "message": {"role": "assistant", "content": said, "stop_reason": "end_turn"},
                },
            ]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
        return {"transcript": str(path)}

    def act(self, place: TrialHome, word: str, given: dict[str, Any], report: Report) -> None:
        self._capture(place, word, given)
        report("captured")

    def check(self, place: TrialHome, word: str, given: dict[str, Any], *, acknowledged: bool) -> Iterator[str]:
        self._capture(place, word, given)
        for turn in range(self.turns):
            entries = _entries_with(place, f"turn:u{turn} ", word)
            if not entries:
                yield "lost"
            if entries > 1:
                yield "twice"

    @staticmethod
    def _capture(place: TrialHome, word: str, given: dict[str, Any]) -> None:
        with place.open() as memory:
            memory.capture(
                "claude",
                word,
                transcript=given["transcript"],
                moment="session-end",
                directory=str(place.project),
                everything=True,
            )


class RestoreTrial(KillTrial):
    """`restore ID`: repeated after a kill, it brings the memory back once."""

    verb = "restore"

    def prepare(self, place: TrialHome, word: str) -> dict[str, Any]:
        with place.open() as memory:
            added = memory.add(f"The {word} sleeps at noon.")
            memory.delete(added.id)
        return {"id": added.id}

    def act(self, place: TrialHome, word: str, given: dict[str, Any], report: Report) -> None:
        with place.open() as memory:
            memory.restore(given["id"])
            report("restored")

    def check(self, place: TrialHome, word: str, given: dict[str, Any], *, acknowledged: bool) -> Iterator[str]:
        with place.open() as memory, suppress(NotFound):
            if not acknowledged:
                memory.restore(given["id"])
        yield from _check_journal(place, word, expected=True)


class ForgetTrial(KillTrial):
    """`forget`: the next command completes it, and then no file holds the text; or nothing had begun."""

    verb = "forget"

    def prepare(self, place: TrialHome, word: str) -> dict[str, Any]:
        with place.open() as memory:
            added = memory.add(f"The {word} sleeps at noon beside the {word} weir.")
            memory.search(word)
            memory.feedback(f"where does the {word} sleep", added.id, relevant=True)
        return {"id": added.id}

    def act(self, place: TrialHome, word: str, given: dict[str, Any], report: Report) -> None:
        self._forget(place, given)
        report("forgotten")

    def check(self, place: TrialHome, word: str, given: dict[str, Any], *, acknowledged: bool) -> Iterator[str]:
        with place.open() as memory:
            memory.add("Another memory.")  # any command that writes completes what was begun
        if place.count(word):
            if acknowledged:
                yield "residues"
            with suppress(NotFound):
                self._forget(place, given)
        if place.count(word):
            yield "residues"
        with place.open() as memory:
            if any(word in hit.content for hit in memory.search(word).hits):
                yield "residues"

    @staticmethod
    def _forget(place: TrialHome, given: dict[str, Any]) -> None:
        with place.open() as memory:
            memory.call("memory.forget", {"ids": [given["id"]], "confirm": True})


class BackupTrial(KillTrial):
    """`backup`: the file is whole or not there, and the home is unchanged."""

    verb = "backup"

    def prepare(self, place: TrialHome, word: str) -> dict[str, Any]:
        with place.open() as memory:
            memory.add(f"The {word} sleeps at noon.")
        return {"file": str(place.root / f"{word}.tar.gz")}

    def act(self, place: TrialHome, word: str, given: dict[str, Any], report: Report) -> None:
        with place.open() as memory:
            memory.call("backup.create", {"file": given["file"]})
            report("backed up")

    def check(self, place: TrialHome, word: str, given: dict[str, Any], *, acknowledged: bool) -> Iterator[str]:
        file = Path(given["file"])
        if file.exists() or acknowledged:
            yield from self._check_file(place, file, word)
        else:
            with place.open() as memory:
                memory.call("backup.create", {"file": given["file"]})
            yield from self._check_file(place, file, word)
        file.unlink(missing_ok=True)
        yield from _check_journal(place, word, expected=True)

    @staticmethod
    def _check_file(place: TrialHome, file: Path, word: str) -> Iterator[str]:
        with place.open() as memory:
            memory.call("backup.verify", {"file": str(file)})  # raises StoreDamaged
        if not _count_in(file, word):
            yield "lost"


class RestoreBackupTrial(KillTrial):
    """`restore FILE`: repeated after a kill, a new home has every memory once and a ledger that verifies."""

    verb = "restore backup"

    def written_home(self, place: TrialHome, word: str) -> TrialHome:
        return TrialHome(place.root / word)

    def prepare(self, place: TrialHome, word: str) -> dict[str, Any]:
        file, target = place.root / f"{word}.tar.gz", TrialHome(place.root / word)
        with place.open() as memory:
            memory.add(f"The {word} sleeps at noon.")
            memory.task.start(goal=f"Feed the {word}")
            memory.call("backup.create", {"file": str(file)})
        target.project.mkdir(parents=True)
        return {"file": str(file), "project_map": {str(place.project): str(target.project)}}

    def act(self, place: TrialHome, word: str, given: dict[str, Any], report: Report) -> None:
        with TrialHome(place.root / word).open() as memory:
            memory.call("backup.restore", given)
            report("restored")

    def check(self, place: TrialHome, word: str, given: dict[str, Any], *, acknowledged: bool) -> Iterator[str]:
        target = TrialHome(place.root / word)
        with target.open() as memory:
            memory.call("backup.restore", given)
            if not memory.call("ledger.verify")["ok"]:
                yield "lost"
        lines = sum(word in line for path in target.home.rglob("ledger*.jsonl") for line in path.open(encoding="utf-8"))
        if lines != 1:
            yield "twice" if lines else "lost"
        yield from _check_journal(target, word, expected=True)
        shutil.rmtree(target.root)
        Path(given["file"]).unlink()


TRIALS: tuple[KillTrial, ...] = (
    AddTrial(),
    SupersedeTrial(),
    EditTrial(),
    DeleteTrial(),
    CompactTrial(),
    ImportTrial(),
    TaskTrial(),
    IndexTrial(),
    CaptureTrial(),
    RestoreTrial(),
    ForgetTrial(),
    BackupTrial(),
    RestoreBackupTrial(),
)


def run_kill_trial(trial: KillTrial, cycles: int, *, seed: int = 1) -> KillReport:
    """Kill a verb a number of times, and check what is left after each."""
    chance, report, duration_s = random.Random(f"{trial.verb} {seed}"), KillReport(trial.verb), 0.0
    place: TrialHome | None = None
    try:
        for number in range(cycles):
            if number % _CYCLES_PER_HOME == 0:
                place = _renew(place)
                duration_s = duration_s or _calibrate(trial, place)
            assert place is not None
            moment = random_moment(chance, duration_s)
            _run_cycle(trial, place, f"walrus{_letters(number + 1000)}", report, kill_after_s=moment)
    finally:
        if place is not None:
            shutil.rmtree(place.root, ignore_errors=True)
    return report


def run_kill_steps(trial: KillTrial, files: str = "") -> KillReport:
    """Kill a verb before its first write, before its second, and so on, until it ends by itself; `files` is a part of their paths."""
    report, place = KillReport(trial.verb), _renew(None)
    try:
        _calibrate(trial, place, runs=1)
        while report.killed == report.cycles:
            number = report.cycles + 1
            word = f"walrus{_letters(number + 1000)}"
            _run_cycle(trial, place, word, report, kill_at=number, files=files or str(place.root))
    finally:
        shutil.rmtree(place.root, ignore_errors=True)
    return report


def run_writers(kills: int, *, seed: int = 1, writers: int = 24) -> KillReport:
    """Let processes add memories over one daemon that is killed again and again; each repeats a command until it succeeds."""
    chance, report, place = random.Random(seed), KillReport(f"{writers} writers"), _renew(None)
    running = [_fork_writer(place, number) for number in range(writers)]
    try:
        while report.killed < kills:
            time.sleep(chance.uniform(0.1, 1.0))
            report.killed += _kill_daemon(place)
    finally:
        (place.root / "stop").touch()
        for writer in running:
            os.waitpid(writer, 0)
        _kill_daemon(place)
    told = [word for path in place.root.glob("*.told") for word in path.read_text("utf-8").split()]
    journal = Counter(word for path in _journals(place) for word in path.read_text("utf-8").split() if "walrus" in word)
    report.cycles = report.acknowledged = len(told)
    for word in told:
        if journal[word] != 1:
            report.note("twice" if journal[word] else "lost", word)
    for memory in find_foreign(place.home, place.project):
        report.note("foreign", memory)
    report.twice += sum(count > 1 for word, count in journal.items() if word not in told)
    shutil.rmtree(place.root, ignore_errors=True)
    return report


def _fork_writer(place: TrialHome, number: int) -> int:
    """Start a process that adds memories until it is told to stop, and notes what was acknowledged; return its id."""
    writer = os.fork()
    if writer:
        return writer
    try:
        count = 0
        with (place.root / f"{number}.told").open("w", encoding="utf-8") as told:
            while not (place.root / "stop").exists():
                word, count = f"walrus{_letters(number + 1000)}{_letters(count + 1000)}", count + 1
                while _run_command(place, "add", f"The {word} sleeps at noon."):
                    (place.home / "run" / "start.failed").unlink(
                        missing_ok=True
                    )  # otherwise it waits before the next start
                print(word, file=told, flush=True)
    finally:
        os._exit(0)


def _kill_daemon(place: TrialHome) -> bool:
    """Kill the daemon of a home; return False if there is none."""
    with suppress(OSError, ValueError):
        pid = int((place.home / "run" / "daemon.pid").read_text("ascii"))
        if str(place.home).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def _run_command(place: TrialHome, *words: str, **environment: str) -> int:
    """Run a command of the shell in this process, without output, and return its status."""
    from lorelog.surfaces.cli.main import main

    os.environ |= {"LORELOG_HOME": str(place.home), "LORELOG_EMBEDDING_PROVIDER": "none", **environment}
    os.chdir(place.project)
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        return main(list(words))


def _run_cycle(trial: KillTrial, place: TrialHome, word: str, report: KillReport, **kill: Any) -> None:
    report.cycles += 1
    prepared = run_child(lambda tell: tell(trial.prepare(place, word)))
    if not prepared.ok:
        report.note("failed", f"prepare: {prepared.reported}")
        return
    given = prepared.reported[-1]
    done = run_child(lambda tell: trial.act(place, word, given, tell), **kill)
    report.killed += done.killed
    if not done.killed and not done.ok:
        report.note("failed", f"{trial.verb}: {done.reported}")
        return
    acknowledged = bool(done.reported)
    report.acknowledged += acknowledged
    home = trial.written_home(place, word)
    foreign = find_foreign(home.home, home.project)
    checked = run_child(lambda tell: tell(list(trial.check(place, word, given, acknowledged=acknowledged))))
    if not checked.ok:
        report.note("failed", f"after {trial.verb} was killed: {checked.reported}")
        return
    for kind in (*checked.reported[-1], *("foreign" for _ in foreign | find_foreign(home.home, home.project))):
        report.note(kind, f"{word}, {kill}, acknowledged: {acknowledged}")


def find_foreign(home: Path, project: Path) -> set[str]:
    """Return the ids of a project's journal entries that are not registered with their text, imported ones aside."""
    authored = AuthoredMemories(home / "data" / "default")
    return {
        entry.memory
        for path in (project / ".lorelog").rglob("*.md")
        for entry in parse_entries(path.read_text("utf-8"), path.name[:10])
        if entry.memory and entry.anchor.get("origin") != "import"
        if not authored.wrote_all(entry_anchor(entry), "\n".join(entry.raw))
    }


def _calibrate(trial: KillTrial, place: TrialHome, runs: int = _CALIBRATION_RUNS) -> float:
    """Return how long an act takes that is not killed."""
    seconds = []
    for number in range(runs):
        word = f"otter{_letters(number + 1000)}"
        done = _run_whole(trial, place, word)
        if not done.ok:
            raise LorelogError(f"{trial.verb} fails although nothing is killed: {done.reported}")
        seconds.append(done.seconds)
        load_modules(done.reported[-1])
    return sorted(seconds)[len(seconds) // 2]


def _run_whole(trial: KillTrial, place: TrialHome, word: str) -> ChildResult:
    """Run a cycle without a kill; the last report is the names of the modules that it loaded."""
    prepared = run_child(lambda tell: tell(trial.prepare(place, word)))
    if not prepared.ok:
        return prepared

    def act(tell: Report) -> None:
        trial.act(place, word, prepared.reported[-1], tell)
        tell(list(sys.modules))

    return run_child(act)


def _renew(place: TrialHome | None) -> TrialHome:
    if place is not None:
        shutil.rmtree(place.root, ignore_errors=True)
    made = TrialHome(Path(tempfile.mkdtemp(prefix="lorelog-trial-")).resolve())
    made.project.mkdir()
    return made


def _check_journal(place: TrialHome, word: str, *, expected: bool) -> Iterator[str]:
    """Yield what is wrong with the memory of a word: in the journal at most once, and found exactly if it is there."""
    written = sum(_count_in(path, word) for path in _journals(place))
    if expected and not written:
        yield "lost"
    if written > 1:
        yield "twice"
    if not written:
        return
    with place.open() as memory:
        memory.index()
        found = sum(word in hit.content for hit in memory.search(word, k=5).hits)
    if found != min(written, 1):
        yield "lost" if found < written else "twice"


def _check_written_once(place: TrialHome, word: str) -> Iterator[str]:
    written = sum(_count_in(path, word) for path in _journals(place))
    if written != 1:
        yield "twice" if written else "lost"


def _ignore(value: object) -> None:
    """Take a report that nobody waits for."""


def _journals(place: TrialHome) -> Iterator[Path]:
    return (place.project / ".lorelog").rglob("*.md")


def _entries_with(place: TrialHome, *texts: str) -> int:
    """Return the number of journal lines that contain all the texts."""
    return sum(
        all(text in line for text in texts)
        for path in _journals(place)
        for line in path.read_text("utf-8").splitlines()
        if line.startswith("<!--")
    )


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _count_in(path: Path, word: str) -> int:
    try:
        data = path.read_bytes()
    except OSError:
        return 0
    count = data.lower().count(word.encode())
    if data.startswith(b"\x1f\x8b"):
        with suppress(OSError, EOFError, tarfile.TarError):
            count += gzip.decompress(data).lower().count(word.encode())
    return count


def _letters(number: int) -> str:
    """Return a number in letters: a word that is neither a secret nor split by the analyser."""
    letters = ""
    while number or not letters:
        number, digit = divmod(number, 26)
        letters = string.ascii_lowercase[digit] + letters
    return letters
