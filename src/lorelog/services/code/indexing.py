"""Bringing code.db up to date with a working tree.

Nothing is read that its stamp says we know, nothing is parsed whose bytes we know. What is new goes through several processes that
parse into one that writes, here; what is written is visible every few seconds, so a run that is stopped, or killed, goes on from
there the next time. A file that is bad never stops a run. What was damaged is made anew, since it is all in the files.
"""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from lorelog.code.crew import Crew
from lorelog.code.git import Git
from lorelog.code.parsed import RECIPE, Asked, Parsed
from lorelog.code.tables_writing import CodeWriter, Known, writing
from lorelog.core.document import Stamp
from lorelog.core.errors import StoreBusy, StoreDamaged, StoreUnwritable
from lorelog.core.memory import Problem
from lorelog.core.options import ScanOptions
from lorelog.core.paths import is_below
from lorelog.core.ports import Progress
from lorelog.ingest.scan_read import printable
from lorelog.services.code.listing import Listing, list_code

_WAIT_FOR_RUN_S = 3600.0
_LOOK_S = 0.5
_FILES_A_PUT = 64
_ROWS_A_PUT = 20_000
_UNREAD = "cannot be read"
_UNPARSED = "could not be parsed"
_NOWHERE = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class CodeJob:
    """Which working tree to index, and how."""

    root: str
    project: str
    parts: tuple[str, ...] = ()
    """Folders of it; all where empty."""
    scan: ScanOptions = field(default_factory=ScanOptions)
    force: bool = False
    """Parse every file again."""
    only: tuple[str, ...] = ()
    """Look at these files and folders alone: those that changed."""
    patient: bool = True
    """Wait for another run; otherwise raise StoreBusy."""
    processes: int = 0
    """How many parse; as many as there are processors where 0."""
    nice: int = 5


@dataclass(frozen=True, slots=True)
class CodeReport:
    """What a run did."""

    root: str
    files: int
    """That are code and are there, those included of which nothing is known."""
    changed: int
    unchanged: int
    touched: int
    """Files with a new stamp and the old bytes: not parsed again."""
    removed: int
    symbols: int
    """Of the changed files."""
    bytes: int
    """Of the changed files."""
    broken: int
    """Of the changed files, how many could be parsed in part only."""
    languages: dict[str, int]
    """Of the changed files, how many there are of each."""
    left_out: dict[str, int]
    """Of the changed files, how many are not known by what is in them, by the reason: minified, binary, too large."""
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    seconds: float


def index_code(database: Path, job: CodeJob, progress: Progress | None = None) -> CodeReport:
    """Bring the tables up to date with a working tree. `progress` may raise to stop it; what was done is kept."""
    try:
        return _Run(job, progress or _quiet).over(database)
    except StoreDamaged as damage:
        # Who had it open has deleted it.
        report = _Run(job, progress or _quiet)
        report.notes.append(f"{damage.message}; it was made anew")
        return report.over(database)


def _quiet(stage: str, done: int, total: int) -> None:
    """Progress for whoever does not watch."""


class _Run:
    def __init__(self, job: CodeJob, progress: Progress) -> None:
        self._job = job
        self._progress = progress
        self._started = time.monotonic()
        self._counts: Counter[str] = Counter()
        self._languages: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        self._problems: list[Problem] = []
        self._inside = {"": True}
        self.notes: list[str] = []

    def over(self, database: Path) -> CodeReport:
        job = self._job
        with self._alone(database) as writer:
            self.notes += [writer.note] if writer.note else []
            root = writer.root(job.root, job.project, job.parts)
            # Made visible at once: what a run that is stopped leaves behind must belong to something.
            writer.show()
            found = list_code(job.root, job.parts, job.scan, only=job.only)
            self._problems += found.problems
            self.notes += found.notes
            changed, gone = self._compare(found, self._known(writer, root))
            writer.remove(gone)
            self._counts["removed"] = len(gone)
            self._parse(writer, root, changed)
            if not job.only:
                writer.finish(root, datetime.now(UTC).isoformat(timespec="seconds"), Git(job.root).head())
        return self._report()

    # -- what is to be done ------------------------------------------------------------------------------------------

    def _known(self, writer: CodeWriter, root: int) -> Iterator[Known]:
        if not self._job.only:
            return writer.known(root)
        known = {one.path: one for path in self._job.only for one in writer.known_at(root, path)}
        return iter([known[path] for path in sorted(known)])

    def _compare(self, found: Listing, known: Iterator[Known]) -> tuple[list[Asked], list[int]]:
        """Go through what is there and what is known side by side; return what is to be parsed and what is gone."""
        changed: list[Asked] = []
        gone: list[int] = []
        old = next(known, None)
        for path in found.files:
            while old is not None and old.path < path:
                gone += self._gone(old, found)
                old = next(known, None)
            same = old if old is not None and old.path == path else None
            if same is not None:
                old = next(known, None)
            status = self._status(path)
            if status is None:
                if same is not None:
                    gone += self._gone(same, found)
                continue
            asked = self._asked(path, Stamp.of(status), same)
            if asked is not None:
                changed.append(asked)
            elif same is not None and (same.language or same.problem):
                self._counts["unchanged"] += 1
        while old is not None:
            gone += self._gone(old, found)
            old = next(known, None)
        return changed, gone

    def _status(self, path: str) -> os.stat_result | None:
        """Return what the system says of a file; None for what is gone, a link, behind a link, or no file."""
        if not self._is_inside(path.rpartition("/")[0]):
            return None
        try:
            status = os.lstat(f"{self._job.root.rstrip('/')}/{path}")
        except FileNotFoundError:
            return None  # tracked, and deleted
        except OSError as error:
            self._fail(path, f"{_UNREAD}: {error.strerror or error}", "check the permissions of its folder")
            return None
        return status if stat.S_ISREG(status.st_mode) else None

    def _is_inside(self, folder: str) -> bool:
        """Say whether no link leads to a folder: Git may still list what lay there before there was one."""
        if folder not in self._inside:
            above = self._is_inside(folder.rpartition("/")[0])
            self._inside[folder] = above and not Path(self._job.root, folder).is_symlink()
        return self._inside[folder]

    def _asked(self, path: str, stamp: Stamp, old: Known | None) -> Asked | None:
        if old is None or self._job.force or old.recipe != RECIPE:
            return Asked(path, "", stamp.size)
        if (stamp.size, stamp.mtime_ns, stamp.inode) != (old.size, old.mtime_ns, old.inode):
            return Asked(path, old.digest, stamp.size)
        return Asked(path, "", stamp.size) if old.problem.startswith(_UNREAD) else None

    def _gone(self, old: Known, found: Listing) -> list[int]:
        """Return a file's number if it is gone, or is not to be known any more; none if that cannot be told."""
        if any(is_below(old.path, folder) for folder in found.closed):
            return []
        try:
            os.lstat(f"{self._job.root.rstrip('/')}/{old.path}")
        except PermissionError:
            return []
        except OSError:
            pass
        return [old.id]

    # -- doing it ----------------------------------------------------------------------------------------------------

    def _parse(self, writer: CodeWriter, root: int, changed: Sequence[Asked]) -> None:
        if not changed:
            return
        self._progress("code", 0, len(changed))
        with Crew(self._job.root, processes=self._job.processes, nice=self._job.nice) as crew:
            try:
                answers = self._watched(crew.parse(changed), len(changed))
                for group in _grouped(answers):
                    self._put(writer, root, group)
            except OSError as error:
                raise StoreUnwritable(
                    f"no process can be started to parse: {error.strerror or error}",
                    hint="free some memory, and try again",
                ) from error

    def _watched(self, answers: Iterable[Parsed], total: int) -> Iterator[Parsed]:
        for done, answer in enumerate(answers, 1):
            yield answer
            self._progress("code", done, total)

    def _put(self, writer: CodeWriter, root: int, group: Sequence[Parsed]) -> None:
        writer.touch(root, same := [one for one in group if one.same])
        self._counts["touched"] += len(same)
        vanished = [known.id for one in group if one.gone for known in writer.known_at(root, one.path)]
        writer.remove(vanished)
        new = [self._stamped(one) for one in group if not one.same and not one.gone]
        writer.put(root, new, RECIPE)
        for file in new:
            self._count(file)

    def _stamped(self, file: Parsed) -> Parsed:
        """Return a file that no parser survived, with its stamp: it is tried again once it has changed, not each time."""
        if file.stamp != _NOWHERE or not file.problem.startswith(_UNPARSED):
            return file
        status = self._status(file.path)
        if status is None:
            return file
        stamp = Stamp.of(status)
        return file._replace(stamp=(stamp.size, stamp.mtime_ns, stamp.inode))

    def _count(self, file: Parsed) -> None:
        if file.problem.startswith((_UNREAD, _UNPARSED)):
            hint = "check its permissions" if file.problem.startswith(_UNREAD) else "the run went on without it"
            self._fail(file.path, file.problem, hint)
        if not file.language and not file.problem:
            return  # a name without an ending, and no code
        self._counts["changed"] += 1
        self._counts["symbols"] += len(file.symbols)
        self._counts["bytes"] += file.stamp[0]
        self._counts["broken"] += bool(file.broken)
        if file.problem and not file.problem.startswith((_UNREAD, _UNPARSED)):
            self._left_out[file.problem] += 1
        elif file.language:
            self._languages[file.language] += 1

    def _fail(self, path: str, message: str, hint: str) -> None:
        shown = printable(f"{self._job.root.rstrip('/')}/{path}")
        self._problems.append(Problem(shown, f"{shown} {message}", hint))

    # -- around it ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _alone(self, database: Path) -> Iterator[CodeWriter]:
        """Hold the lock of those who write; wait for it, unless told not to, as long as `progress` lets us."""
        deadline = time.monotonic() + _WAIT_FOR_RUN_S
        waited = False
        with ExitStack() as held:
            while True:
                try:
                    writer = held.enter_context(writing(database, wait_s=_LOOK_S if waited else 0))
                    break
                except StoreBusy as busy:
                    if not self._job.patient or time.monotonic() > deadline:
                        raise
                    self.notes += [] if waited else [f"waited: {busy.message}"]
                    waited = True
                    self._progress("waiting", 0, 0)
            yield writer

    def _report(self) -> CodeReport:
        counts = self._counts
        return CodeReport(
            root=self._job.root,
            files=counts["changed"] + counts["unchanged"] + counts["touched"],
            changed=counts["changed"],
            unchanged=counts["unchanged"],
            touched=counts["touched"],
            removed=counts["removed"],
            symbols=counts["symbols"],
            bytes=counts["bytes"],
            broken=counts["broken"],
            languages=dict(self._languages.most_common()),
            left_out=dict(self._left_out.most_common()),
            problems=tuple(self._problems),
            notes=tuple(self.notes),
            seconds=round(time.monotonic() - self._started, 3),
        )


def _grouped(answers: Iterable[Parsed]) -> Iterator[list[Parsed]]:
    group: list[Parsed] = []
    rows = 0
    for answer in answers:
        group.append(answer)
        rows += len(answer.symbols) + len(answer.uses) + len(answer.imports)
        if len(group) >= _FILES_A_PUT or rows >= _ROWS_A_PUT:
            yield group
            group, rows = [], 0
    if group:
        yield group
