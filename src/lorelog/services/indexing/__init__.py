"""Index runs: from changed files to searchable chunks and vectors, whole or incremental, and the health of the index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.options import ChunkOptions, ScanOptions
from lorelog.services.places.roots import Root

if TYPE_CHECKING:
    from lorelog.services.memory_state.tombstones import Tombstones


class IndexJob(Struct, frozen=True):
    """What an index run works on, and how. Here and not in `run`, because `status` checks the files of a job and runs none."""

    roots: tuple[Root, ...]
    known_roots: tuple[Root, ...]
    """Every root of the tenant: a file belongs to the innermost one that contains it."""
    scan: ScanOptions
    chunking: ChunkOptions
    force: bool = False
    """Read and chunk every file, even if its stamp is unchanged."""
    batch_size: int = 32
    """Largest number of texts per request to the model."""
    words_only: bool = False
    """Leave the vectors to a later run."""
    reembed: bool = False
    """Make all vectors of the index again."""
    patient: bool = True
    """Wait for other runs and writers; otherwise raise StoreBusy, for callers that try again by themselves."""
    named: bool = False
    """Whether a user named these roots in this call, and must be told if one does not exist."""
    keep_empty: bool = False
    """Remember named directories without Markdown files, too."""
    journals: frozenset[str] = frozenset()
    """Roots that hold journals."""
    tombstones: Tombstones | None = None
    """Deletions to omit from documents."""

    def scan_options(self) -> ScanOptions:
        """Return the options with the exclusions of the roots."""
        return replace(
            self.scan,
            exclude_paths=(*self.scan.exclude_paths, *(path for root in self.roots for path in root.exclude)),
            exclude_in={root.path: root.patterns for root in self.roots if root.patterns},
            journals=self.journals,
        )
