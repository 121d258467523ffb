"""The plan of a forget: written before anything changes, removed when the proof is done.

It holds ids, paths and digests, not the text. Every step can be repeated, so an interrupted forget is completed by running
all steps of its plan again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lorelog.core.atomic_file import write_atomic
from lorelog.core.dataclasses import asdict, dataclass, field, replace
from lorelog.core.errors import StoreDamaged, StoreUnwritable
from lorelog.core.processes import acquire_file_lock
from lorelog.core.serializable import Serializable
from lorelog.services.forget.quotes import Quotes
from lorelog.services.forget.residues import Canaries
from lorelog.services.places.workspace import PLAN_SUFFIX, RECEIPT_FOLDER

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenEntry(Serializable):
    """One section of a file that is taken out, or a summary that is reworded without it."""

    key: str
    """As in its tombstone."""
    memory: str
    """The memory's id; empty for a section without one."""
    source: str
    project: str
    root: str
    action: str
    """`cut`, or `reword` for a summary that keeps the lines about other sources."""
    ids: tuple[str, ...] = ()
    contents: tuple[str, ...] = ()
    """Content hashes of its chunks."""
    session: str = ""
    transcript: str = ""
    start_line: int = 0
    end_line: int = 0
    day: str = ""
    preview: str = ""
    """Its first line, for the dry run; never stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetPlan:
    """Everything that the steps of one forget need."""

    id: str
    at: str
    entries: tuple[ForgottenEntry, ...] = ()
    records: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    """Sessions of which all captured turns are forgotten."""
    vector_keys: tuple[str, ...] = ()
    quotes: Quotes
    canaries: Canaries
    selected: Mapping[str, int] = field(default_factory=dict)
    unreached: Mapping[str, str] = field(default_factory=dict)
    """Places that hold the text and stay as they are, with the reason."""
    transcripts: tuple[str, ...] = ()
    """Conversations of hosts that are deleted, because the user asked for it."""

    @property
    def names(self) -> frozenset[str]:
        """Ids under which other files refer to what is forgotten."""
        cut = [entry for entry in self.entries if entry.action == "cut"]
        ids = [name for entry in cut for name in (entry.memory, *entry.ids, *entry.contents)]
        return frozenset(filter(None, (*ids, *self.records)))

    @property
    def memories(self) -> frozenset[str]:
        """Ids of the memories that are cut."""
        return frozenset(entry.memory for entry in self.entries if entry.memory and entry.action == "cut")

    @property
    def contents(self) -> frozenset[str]:
        """Content hashes that summaries may cover."""
        return frozenset(content for entry in self.entries if entry.action == "cut" for content in entry.contents)


def write_plan(folder: Path, plan: ForgetPlan) -> Path:
    """Write a plan durably, readable by its owner only."""
    values = {
        "version": _VERSION,
        "id": plan.id,
        "at": plan.at,
        "entries": [asdict(entry) | {"preview": ""} for entry in plan.entries],
        "records": plan.records,
        "sessions": plan.sessions,
        "vector_keys": plan.vector_keys,
        "quotes": plan.quotes.to_json(),
        "canaries": plan.canaries.to_json(),
        "short": replace(plan.canaries, fragments=plan.canaries.once).to_json(),
        "key": plan.canaries.key.hex(),
        "selected": dict(plan.selected),
        "unreached": dict(plan.unreached),
        "transcripts": plan.transcripts,
    }
    path = folder / RECEIPT_FOLDER / f"{plan.id}{PLAN_SUFFIX}"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(path, json.dumps(values).encode())
    except OSError as error:
        raise StoreUnwritable(
            f"{path} cannot be written: {error.strerror or error}", hint="nothing was changed; make the folder writable"
        ) from error
    return path


def read_plan(path: Path) -> ForgetPlan:
    """Read a plan. Raise StoreDamaged if it is not one."""
    try:
        return _parse_plan(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreDamaged(
            f"{path} cannot be read: {error}",
            hint="a forget was interrupted and cannot be completed: repeat it, then delete this file",
        ) from error


def _parse_plan(values: dict[str, Any]) -> ForgetPlan:
    if values["version"] != _VERSION:
        raise ValueError("it is of another version")
    key = bytes.fromhex(values["key"])
    short = Canaries.from_json(values["short"], key)
    return ForgetPlan(
        id=values["id"],
        at=values["at"],
        entries=tuple(map(_parse_entry, values["entries"])),
        records=tuple(values["records"]),
        sessions=tuple(values["sessions"]),
        vector_keys=tuple(values["vector_keys"]),
        quotes=Quotes.from_json(values["quotes"]),
        canaries=replace(Canaries.from_json(values["canaries"], key), once=short.fragments),
        selected=values["selected"],
        unreached=values["unreached"],
        transcripts=tuple(values["transcripts"]),
    )


def _parse_entry(values: dict[str, Any]) -> ForgottenEntry:
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }
    return ForgottenEntry(**fields)


def pending_plans(folder: Path) -> list[Path]:
    """Return the plans of interrupted forgets, oldest first."""
    return sorted((folder / RECEIPT_FOLDER).glob(f"*{PLAN_SUFFIX}"))


@contextmanager
def plan_lock(folder: Path, wait_s: float) -> Iterator[bool]:
    """Yield True while holding the lock of a tenant's plans; False if another thread or process holds it for too long."""
    path = folder / RECEIPT_FOLDER / "lock"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreUnwritable(
            f"{path} cannot be created: {error.strerror or error}", hint="nothing was changed; make the folder writable"
        ) from error
    try:
        yield acquire_file_lock(descriptor, wait_s)
    finally:
        os.close(descriptor)
