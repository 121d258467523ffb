"""What capturing works with, as the engine hands it out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from recollect.core.options import CaptureOptions
from recollect.core.ports import Embedder, Store
from recollect.core.session import Summarizer
from recollect.services.index import IndexJob
from recollect.services.place import Place
from recollect.services.roots import Root, Roots

if TYPE_CHECKING:
    from recollect.services.traces.book import TraceBook

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
