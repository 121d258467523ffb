"""The engine's dependencies and defaults. Records and databases beside the index are opened on first use."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from msgspec import Struct, field

from lorelog.core.errors import UsageError
from lorelog.core.options import (
    CacheOptions,
    CaptureOptions,
    ChunkOptions,
    RerankOptions,
    ScanOptions,
    SearchOptions,
    SessionOptions,
    SpendOptions,
    TraceOptions,
)
from lorelog.core.paths import cache_folder
from lorelog.core.ports import Embedder, Reranker
from lorelog.retrieval.token_estimate import estimate_tokens
from lorelog.services.places.workspace import CODE_DATABASE

if TYPE_CHECKING:
    from lorelog.code.tables import CodeTables
    from lorelog.language.analyser import WordAnalyser
    from lorelog.retrieval.cache import Caches
    from lorelog.services.llm.metered import MeteredLlm
    from lorelog.services.records.keyring import Keyring
    from lorelog.services.records.store import RecordStore
    from lorelog.services.sessions.summarizer import LlmSummarizer
    from lorelog.services.traces.recorder import TraceStore


TRACES_DATABASE = "traces.db"


class SideDatabases:
    """A tenant's databases of code and traces. Threads may share it; the owner of a shared one closes it."""

    def __init__(self, folder: Path, tracing: TraceOptions) -> None:
        self._folder = folder
        self._tracing = tracing
        self._lock = Lock()
        self._code: CodeTables | None = None
        self._traces: TraceStore | None = None

    def code(self) -> CodeTables:
        """Return the code database. Nothing is created on disk before the first write."""
        with self._lock:
            if self._code is None:
                from lorelog.code.tables import CodeTables

                self._code = CodeTables(Path(cache_folder(self._folder)) / CODE_DATABASE)
            return self._code

    def traces(self) -> TraceStore:
        """Return the trace database."""
        with self._lock:
            if self._traces is None:
                from lorelog.services.traces.recorder import TraceStore

                self._traces = TraceStore(self._folder / TRACES_DATABASE, self._tracing)
            return self._traces

    def close(self) -> None:
        """Close open databases; they are opened again on next use."""
        with self._lock:
            for database in (self._code, self._traces):
                if database is not None:
                    database.close()
            self._code, self._traces = None, None


class EngineDefaults(Struct, frozen=True, kw_only=True):
    """Options that apply unless a call sets others."""

    scan: ScanOptions
    chunking: ChunkOptions
    search: SearchOptions
    all_projects: bool = False
    batch_size: int = 32
    rerank: RerankOptions = field(default_factory=RerankOptions)
    caching: CacheOptions = field(default_factory=CacheOptions)
    session: SessionOptions = field(default_factory=SessionOptions)
    capture: CaptureOptions = field(default_factory=CaptureOptions)
    spending: SpendOptions = field(default_factory=SpendOptions)
    compact_prompt: str = ""
    """A file with the prompt for summaries; empty uses the built-in one."""
    warnings: tuple[str, ...] = ()
    """Warnings about the settings for the user."""


class OpenRecords(Struct, frozen=True):
    """A tenant's records, and the identity that writes them."""

    book: RecordStore
    keyring: Keyring
    agent: str = ""


class LazyRecords:
    """A tenant's records, opened on first use: a search in a home without records must not load their code."""

    def __init__(self, make: Callable[[], OpenRecords], *, lent: bool = False) -> None:
        self._make = make
        self._is_shared = lent
        self._opened: OpenRecords | None = None

    def open(self) -> OpenRecords:
        """Return the records, opened on the first call."""
        if self._opened is None:
            self._opened = self._make()
        return self._opened

    def close(self) -> None:
        """Close the records unless they are shared. May be called twice."""
        if self._opened is not None and not self._is_shared:
            self._opened.book.close()


def _raise_no_records() -> OpenRecords:
    raise UsageError("this engine has no records", hint="open the engine with `wiring`")


class EngineDeps(Struct, frozen=True, kw_only=True):
    """Models and caches. With `caches`, they and the store are shared, and the engine does not close them."""

    analyser: WordAnalyser
    embedder: Embedder | None = None
    reranker: Reranker | None = None
    caches: Caches | None = None
    summarizer: Callable[[], LlmSummarizer | None] = lambda: None
    """Returns the model for session notes; None extracts sentences instead."""
    records: LazyRecords = field(default_factory=lambda: LazyRecords(_raise_no_records))
    count_tokens: Callable[[str], int] = estimate_tokens
    """Returns the tokens of a text; one that loads a tokenizer may raise ModelUnavailable."""
    language: Callable[[str], MeteredLlm | None] = lambda _: None
    """Returns the configured language model, or the one named; None if there is none."""
    side_databases: SideDatabases = field(
        default_factory=lambda: SideDatabases(Path(os.devnull), TraceOptions(enabled=False))
    )
    previous_embedder: Callable[[str], Embedder | None] = lambda _: None
    """Returns the embedder of a previous provider and model; None if it is not available."""
