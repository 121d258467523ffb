"""Dependencies of session capture, the journal folder and its index, and the status of captures."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.document import FileStamp, SourceFile
from lorelog.core.errors import StoreError, StoreUnwritable
from lorelog.core.memory import NewMemory
from lorelog.core.options import CaptureOptions
from lorelog.core.ports import Embedder, Store
from lorelog.core.session import HostCaptures, SessionStatus, TurnSummarizer
from lorelog.light import spool
from lorelog.services.indexing.run import IndexJob, IndexRun
from lorelog.services.llm.receipts import Receipts
from lorelog.services.places.roots import Root, Roots
from lorelog.services.places.workspace import Workspace
from lorelog.services.sessions.capture_db import open_captures

if TYPE_CHECKING:
    from lorelog.services.traces.recorder import TraceStore


_FAILURE_SHOWN_S = 7 * 86_400.0

YieldWriteLock = Callable[[], AbstractContextManager[object]]


class CaptureContext(Struct, frozen=True, kw_only=True):
    """Dependencies of session capture."""

    workspace: Workspace
    store: Store
    embedder: Embedder | None
    job: Callable[[tuple[Root, ...]], IndexJob]
    roots: Roots
    options: CaptureOptions
    summarizer: Callable[[], TurnSummarizer | None] = lambda: None
    """Returns the model that words notes; None for extractive notes."""
    yield_write_lock: YieldWriteLock = nullcontext
    """Lets other writers proceed during a slow step."""
    traces: Callable[[], TraceStore | None] = lambda: None
    """Returns the store for tool calls and errors of turns."""
    refresh: Callable[[], None] = lambda: None
    """Called after journals were written and indexed."""
    register: Callable[[Sequence[NewMemory]], None] = lambda memories: None
    """Registers memories, which have ids, as written on this machine."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


def index_journals(journals: Sequence[Path], root: Root, context: CaptureContext) -> list[str]:
    """Index journals. Errors become notes, because the entries are on disk."""
    notes: list[str] = []
    job = replace(context.job((root,)), roots=(root,))
    try:
        files = [
            SourceFile(str(path), root.path, FileStamp.from_stat(path.lstat())) for path in journals if path.exists()
        ]
        report = IndexRun(context.store, context.embedder, job).over_files(files)
        notes += [*report.notes, *(problem.message for problem in report.problems)]
    except StoreError as error:
        notes.append(f"saved, but not searchable yet: {error.message}")
    with suppress(StoreUnwritable):  # journals are indexed even if they are not a remembered root
        context.roots.remember([root])
    context.refresh()
    return notes


def session_status(workspace: Workspace) -> SessionStatus:
    """Return the status of a tenant's captures and of the spool. Creates no file."""
    hosts: tuple[HostCaptures, ...] = ()
    if (workspace.tenant_folder / "captures.db").exists():
        with open_captures(workspace.tenant_folder) as captures:
            hosts = captures.status(
                datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
            )
    waiting, oldest_s = spool.count_waiting(str(workspace.home))
    failed = _count_failed(workspace.home / "spool" / "failed")
    return SessionStatus(
        hosts, waiting, round(oldest_s, 1), failed, Receipts.of_tenant(workspace.tenant_folder).spent_today()
    )


def _count_failed(folder: Path) -> int:
    """Return how many events failed for good lately: an old fault must not be reported for ever."""
    earliest, count = time.time() - _FAILURE_SHOWN_S, 0
    for reason in folder.glob("*.why"):  # its time is that of the failure, the event's own is older
        with suppress(OSError):
            count += reason.stat().st_mtime >= earliest
    return count
