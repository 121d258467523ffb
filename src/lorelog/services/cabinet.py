"""A tenant's databases beside the index, each opened when first needed: what is in the code, and what was traced."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from lorelog.core.options import TraceOptions

if TYPE_CHECKING:
    from lorelog.code.tables import CodeTables
    from lorelog.services.traces.book import TraceBook

CODE = Path("index") / "code.db"
TRACES = "traces.db"


class Cabinet:
    """Opens them. Threads may share it; one that is lent is closed by whoever lends it."""

    def __init__(self, folder: Path, tracing: TraceOptions) -> None:
        self._folder = folder
        self._tracing = tracing
        self._lock = Lock()
        self._code: CodeTables | None = None
        self._traces: TraceBook | None = None

    def code(self) -> CodeTables:
        """Return what is known of the code. Nothing is made on disk before something is written."""
        with self._lock:
            if self._code is None:
                from lorelog.code.tables import CodeTables

                self._code = CodeTables(self._folder / CODE)
            return self._code

    def traces(self) -> TraceBook:
        """Return what was traced."""
        with self._lock:
            if self._traces is None:
                from lorelog.services.traces.book import TraceBook

                self._traces = TraceBook(self._folder / TRACES, self._tracing)
            return self._traces

    def close(self) -> None:
        """Let go of what was opened. It opens itself again when asked."""
        with self._lock:
            for one in (self._code, self._traces):
                if one is not None:
                    one.close()
            self._code, self._traces = None, None
