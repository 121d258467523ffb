"""Every knob, typed and frozen, on one screen. Where values come from is the business of `config/`."""

from __future__ import annotations

from dataclasses import dataclass, field

from recollect.core.query import Filters, Fusion, Lane


@dataclass(frozen=True, slots=True)
class ChunkOptions:
    """How Markdown is cut."""

    max_chunk_size: int = 1500
    overlap_lines: int = 2


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """Which files under the roots are read."""

    exclude: tuple[str, ...] = ()
    """gitignore-style patterns, relative to each root."""
    exclude_paths: tuple[str, ...] = ()
    """Absolute paths; each takes everything below it with it."""
    ignore_files: tuple[str, ...] = (".gitignore", ".recollectignore")
    max_file_bytes: int = 10_000_000


@dataclass(frozen=True, slots=True)
class EmbedOptions:
    """Which model embeds, and how hard it may work."""

    provider: str = "builtin"
    model: str = ""
    base_url: str = ""
    api_key: str = ""
    """Resolved secret; never shown, logged or stored."""
    batch_size: int = 0
    threads: int = 0
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """What to return and how to rank it."""

    k: int = 5
    lane: Lane = Lane.HYBRID
    fusion: Fusion = Fusion.CONVEX
    filters: Filters = field(default_factory=Filters)
