"""Making a document of a file: what is cut of its text, how it is filed, and what of it is deleted and left out."""

from __future__ import annotations

from datetime import UTC, datetime

from lorelog.core.document import Document, SourceFile
from lorelog.core.options import ChunkOptions
from lorelog.core.ports import DocumentUpdate
from lorelog.core.record import is_compiled
from lorelog.ingest.markdown import chunk_markdown
from lorelog.services.hiding import is_cut_by, without_deleted
from lorelog.services.roots import Root
from lorelog.services.tombstones import Tombstones


class Reading:
    """How files are read in one run. Deletions are asked for anew each time: others may delete while it lasts."""

    def __init__(self, chunking: ChunkOptions, tombstones: Tombstones | None) -> None:
        self._chunking = chunking
        self._tombstones = tombstones

    def is_current(self, document: Document) -> bool:
        """Say whether a document was cut as its text would be now."""
        return is_cut_by(document, self._chunking.recipe, self._deleted())

    def cut(self, file: SourceFile, root: Root, text: str, digest: str) -> DocumentUpdate:
        """Return the document that a text makes; what was compiled from records makes an empty one.

        A digest that were found again would be its own source. The file stays known, so that nobody reads it time after time.
        """
        parsed = chunk_markdown(
            "" if is_compiled(text) else text, file.path, self._chunking, fallback_date=_day(file.stamp.mtime_ns)
        )
        document = Document(
            source=file.path,
            root=root.path,
            project=root.project,
            stamp=file.stamp,
            file_hash=digest,
            title=parsed.title,
            date=max((chunk.date[:10] for chunk in parsed.chunks), default=parsed.date),
            indexed_at=now(),
            recipe=self._chunking.recipe,
        )
        return self.without_deleted(DocumentUpdate(document, parsed.chunks))

    def without_deleted(self, update: DocumentUpdate) -> DocumentUpdate:
        """Return the update without what is deleted by now."""
        return without_deleted(update, self._deleted())

    def _deleted(self) -> frozenset[str]:
        return self._tombstones.keys() if self._tombstones is not None else frozenset()


def now() -> str:
    """Return the time that a document is marked with, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _day(mtime_ns: int) -> str:
    """Return the local day of a time stamp; none when it lies beyond what a calendar can say."""
    try:
        return datetime.fromtimestamp(mtime_ns / 1e9, UTC).astimezone().date().isoformat()
    except (ValueError, OverflowError, OSError):
        return ""
