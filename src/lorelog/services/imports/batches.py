"""Import batches: which entries an import wrote, and taking them back.

A batch is a folder of journals below `imports/` in the journals of a project or of the home, and a list in the tenant's folder with the id and
digest of every entry. The list is written before the entries, so an interrupted import can be taken back, too. It holds no text.
Taking a batch back removes exactly the entries that are still as they were written; one that was edited since is kept and named.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

from msgspec import Struct, ValidationError, convert, field, to_builtins

from lorelog.core.atomic_file import Writing, write_atomic
from lorelog.core.errors import NotFound, UsageError
from lorelog.core.paths import is_below
from lorelog.core.ports import group_by
from lorelog.core.serializable import Serializable
from lorelog.services.memories.journal import split_journal
from lorelog.services.memory_state.append_log import AppendLog, encode_line

BATCHES_FOLDER = "imports"
"""In the tenant's folder: lists of batches. Below the journals: their entries."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,80}")


class BatchEntry(Struct, frozen=True, omit_defaults=True):
    id: str
    file: str = ""
    digest: str = ""
    key: str = ""
    """Digest of its name in the source; empty if it has none."""


class ChangedSetting(Struct, frozen=True, rename={"key": "setting"}):
    key: str
    value: str = ""
    old: str | None = None
    """None if it was not set in that file."""
    of_project: bool = False


class ImportBatch(Struct):
    name: str
    source: str = ""
    path: str = ""
    at: str = ""
    done: bool = False
    """False if it was interrupted."""
    entries: list[BatchEntry] = field(default_factory=list)
    settings: list[ChangedSetting] = field(default_factory=list)


class UndoReport(Serializable, Struct):
    """What taking a batch back removed, and what it kept."""

    batch: str
    removed: int = 0
    kept: list[str] = field(default_factory=list)
    """Entries that were edited since, as `file: id`."""
    missing: int = 0
    """Entries that were not there any more."""
    settings: list[str] = field(default_factory=list)
    """Settings that were put back, or kept because they were changed since."""
    notes: list[str] = field(default_factory=list)


class BatchLists:
    """The lists of one tenant's import batches."""

    def __init__(self, tenant_folder: Path) -> None:
        self._folder = tenant_folder / BATCHES_FOLDER

    def start(self, source: str, path: str) -> ImportBatch:
        """Start a batch. Nothing is written before its first entries."""
        now = datetime.now().astimezone()
        name = f"{source}-{now:%Y%m%d-%H%M%S}-{token_hex(2)}"
        return ImportBatch(name, source, path, now.isoformat(timespec="seconds"))

    def add(
        self, batch: ImportBatch, entries: Sequence[BatchEntry] = (), settings: Sequence[ChangedSetting] = ()
    ) -> None:
        """Append entries and changed settings to a list; they are on disk when this returns."""
        head = [] if batch.entries or batch.settings else [_head(batch)]
        self._log(batch.name).append([*head, *map(to_builtins, (*entries, *settings))])
        batch.entries += entries
        batch.settings += settings

    def finish(self, batch: ImportBatch) -> None:
        if not batch.done and (batch.entries or batch.settings):
            self._log(batch.name).append([{"done": True}])
            batch.done = True

    def read(self, name: str) -> ImportBatch:
        """Return a batch by its name, or the only one whose name begins so. Raise NotFound or UsageError."""
        names = [path.stem for path in self._paths()]
        if name not in names:
            matches = [other for other in names if name and other.startswith(name)]
            if len(matches) > 1:
                raise UsageError(
                    f"{len(matches)} batches begin with {name!r}", hint=f"give more of it: {', '.join(matches[:5])}"
                )
            if not matches:
                raise NotFound(f"there is no import batch {name!r}", hint="'lorelog import' lists the batches")
            name = matches[0]
        batch = ImportBatch(name)
        for line in self._log(name).lines():
            if "batch" in line:
                batch.source, batch.path, batch.at = (str(line.get(name, "")) for name in ("source", "path", "at"))
            elif "done" in line:
                batch.done = line["done"] is True
            with suppress(ValidationError):  # a line that someone changed
                if "setting" in line:
                    batch.settings.append(convert(line, ChangedSetting))
                elif "id" in line:
                    batch.entries.append(convert(line, BatchEntry))
        return batch

    def all(self) -> list[ImportBatch]:
        batches = [self.read(path.stem) for path in self._paths()]
        return sorted(batches, key=lambda batch: batch.at, reverse=True)

    def keys(self, source: str) -> dict[str, str]:
        """Return the newest entry of each name in a source, by the name's digest."""
        known: dict[str, str] = {}
        for batch in reversed(self.all()):
            if batch.source == source:
                known |= {entry.key: entry.id for entry in batch.entries if entry.key}
        return known

    def replace(self, batch: ImportBatch) -> None:
        """Write a list anew with what is left of its batch; delete it if nothing is."""
        path = self._folder / f"{batch.name}.jsonl"
        if not batch.entries and not batch.settings:
            path.unlink(missing_ok=True)
            with suppress(OSError):  # other lists are in it
                self._folder.rmdir()
            return
        lines = [_head(batch), *map(to_builtins, (*batch.entries, *batch.settings)), {"done": batch.done}]
        write_atomic(path, b"".join(map(encode_line, lines)))

    def _paths(self) -> list[Path]:
        try:
            return sorted(path for path in self._folder.glob("*.jsonl") if _NAME.fullmatch(path.stem))
        except OSError:
            return []

    def _log(self, name: str) -> AppendLog[dict[str, Any]]:
        return AppendLog(self._folder / f"{name}.jsonl", dict)


def _head(batch: ImportBatch) -> dict[str, Any]:
    return {"batch": batch.name, "source": batch.source, "path": batch.path, "at": batch.at}


def entry_digest(text: str) -> str:
    return hashlib.sha256(text.strip().encode("utf-8", "replace")).hexdigest()[:32]


def key_digest(source: str, key: str) -> str:
    """Return the digest of an entry's name in its source: names are titles, and a list of titles would outlive a forget."""
    return hashlib.sha256(f"{source}\0{key}".encode("utf-8", "replace")).hexdigest()[:24] if key else ""


def take_back_files(batch: ImportBatch, within: Iterable[str], report: UndoReport) -> Iterator[tuple[Path, bool]]:
    """Remove a batch's entries from its files; yield each file and whether it is gone.

    Only files below one of `within` are changed: the list is a file, and must not lead elsewhere.
    """
    allowed = tuple(within)
    kept: list[BatchEntry] = []
    for name, entries in group_by(batch.entries, lambda entry: entry.file).items():
        if not any(is_below(os.path.realpath(name), folder) for folder in allowed):
            report.notes.append(f"{name} is not below the journals of this tenant and project; it stays as it is")
            kept += entries
            continue
        path = Path(name)
        kept += _take_back(path, entries, report)
        yield path, not path.exists()
    batch.entries = kept


def _take_back(path: Path, entries: list[BatchEntry], report: UndoReport) -> list[BatchEntry]:
    """Remove entries from one file, and return those that were edited since."""
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        report.missing += len(entries)
        return []
    except OSError as error:
        report.notes.append(f"{path} cannot be read: {error.strerror}; it stays as it is")
        return entries
    wanted = {entry.id: entry for entry in entries}
    remaining: list[str] = []
    edited: list[BatchEntry] = []
    found: set[str] = set()
    for part in split_journal(text):
        entry = wanted.get(part.memory)
        is_own = entry is not None and entry.id not in found
        if entry is not None and is_own:
            found.add(entry.id)
            is_own = entry_digest(part.text) == entry.digest
            edited += [] if is_own else [entry]
        report.removed += is_own
        remaining += [] if is_own else [part.text]
    report.kept += [f"{path}: {entry.id}" for entry in edited]
    report.missing += len(wanted.keys() - found)
    rest = "\n".join(remaining)
    is_empty = not rest.strip().removeprefix("# ").replace("-", "").strip("0123456789")  # nothing, or the day's title
    with Writing(path, hint="nothing of it was changed"):
        if is_empty:
            path.unlink(missing_ok=True)
        else:
            write_atomic(path, rest.encode("utf-8", "surrogateescape"), keep_mode=True)
    for folder in (path.parent, path.parent.parent) if is_empty else ():
        with suppress(OSError):  # other files are in it
            folder.rmdir()
    return edited
