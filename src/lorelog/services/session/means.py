"""What capturing works with, as the engine hands it out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lorelog.core.options import CaptureOptions
from lorelog.core.ports import Embedder, Store
from lorelog.core.session import Summarizer
from lorelog.services.index import IndexJob
from lorelog.services.place import Place
from lorelog.services.roots import Root, Roots

if TYPE_CHECKING:
    from lorelog.services.traces.book import TraceBook

Aside = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class Means:
    """What capturing works with."""

    place: Place
    store: Store
    embedder: Embedder | None
    job: Callable[[tuple[Root, ...]], IndexJob]
    roots: Roots
    options: CaptureOptions
    summarizer: Callable[[], Summarizer | None] = lambda: None
    """Gives who words notes; None where sentences are taken out."""
    aside: Aside = nullcontext
    """Lets other writers go before, while something takes its time."""
    traces: Callable[[], TraceBook | None] = lambda: None
    """Gives the book that the tool calls and errors of turns are kept in."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
