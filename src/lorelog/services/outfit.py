"""What an engine is given: defaults for where a call says nothing else, and who does the work."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

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
from lorelog.core.ports import Embedder, Reranker
from lorelog.retrieval.cost import estimate_tokens
from lorelog.services.cabinet import Cabinet

if TYPE_CHECKING:
    from lorelog.retrieval.analyse import WordAnalyser
    from lorelog.retrieval.cache import Caches
    from lorelog.services.gate import Gate
    from lorelog.services.records.book import Book
    from lorelog.services.records.keys import Keyring
    from lorelog.services.session.summarize import Summarizer


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds where a call says nothing else."""

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
    """A file that tells a model how to summarize memories; empty takes the built-in text."""
    warnings: tuple[str, ...] = ()
    """What a person should know of how they chose all this."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A tenant's records, and who writes them."""

    book: Book
    keyring: Keyring
    agent: str = ""


class Recording:
    """A tenant's records, opened when first needed: a search of a home without any must not load what reads them."""

    def __init__(self, make: Callable[[], Recorded], *, lent: bool = False) -> None:
        self._make = make
        self._lent = lent
        self._made: Recorded | None = None

    def open(self) -> Recorded:
        """Return them."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def close(self) -> None:
        """Let go of them, unless they are lent. May be called twice."""
        if self._made is not None and not self._lent:
            self._made.book.close()


def _no_records() -> Recorded:
    raise UsageError("there are no records here", hint="an engine for records comes from `wiring`")


@dataclass(frozen=True, slots=True)
class Tools:
    """Who computes, and what is kept between calls. With `caches` given, all of it and the store are lent, not owned."""

    analyser: WordAnalyser
    embedder: Embedder | None = None
    reranker: Reranker | None = None
    caches: Caches | None = None
    summarizer: Callable[[], Summarizer | None] = lambda: None
    """Gives who words notes of sessions; None where sentences are taken out."""
    recording: Recording = field(default_factory=lambda: Recording(_no_records))
    """Opens the tenant's records."""
    count_tokens: Callable[[str], int] = estimate_tokens
    """How many tokens a text is; one that loads a tokenizer may raise ModelUnavailable."""
    language: Callable[[str], Gate | None] = lambda _: None
    """Gives the way to the language model, or to another that is named; None where none was chosen."""
    cabinet: Cabinet = field(default_factory=lambda: Cabinet(Path(os.devnull), TraceOptions(enabled=False)))
    """The tenant's databases beside the index."""
    former: Callable[[str], Embedder | None] = lambda _: None
    """Gives the embedder of a provider and model that were chosen before; None where it is not to be asked."""
