"""Build index documents from files: chunk the text, and omit deleted chunks."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.document import Document, SourceFile
from lorelog.core.options import ChunkOptions
from lorelog.core.ports import DocumentUpdate
from lorelog.core.record import is_digest_text
from lorelog.core.serializable import utc_now
from lorelog.ingest.files import FileText, ParseTimer, printable_path
from lorelog.services.memory_state.tombstones import Tombstones, is_chunked_with, remove_deleted
from lorelog.services.places.roots import Root

if TYPE_CHECKING:  # the parser is imported with the first file that changed
    from lorelog.ingest.markdown import ParsedDocument, ResumePoint

MIN_RESUMED_LINES = 200
"""Lines before a resume point from which it is kept: a shorter text is parsed in a millisecond."""


class Continuation(Struct, frozen=True):
    """An indexed version of a file, and where a text that begins with it can be parsed from."""

    document: Document
    size: int
    point: ResumePoint


def read_continuation(document: Document, stored: str) -> Continuation | None:
    """Return how a document can be continued, from what the store keeps with it; None if that is of another version."""
    from lorelog.ingest.markdown import EnclosingHeading, ResumePoint

    try:
        digest, size, fields = json.loads(stored)
        point = ResumePoint(*fields)
        outer = tuple(EnclosingHeading(*heading) for heading in point.outer)
        day, source = point.latest
        point = point._replace(outer=outer, latest=(day, source))
    except (ValueError, TypeError):
        return None
    return Continuation(document, size, point) if digest == document.file_hash else None


class DocumentBuilder:
    """Builds the documents of one run. Deletions are read for each document: another process may delete meanwhile."""

    def __init__(self, chunking: ChunkOptions, tombstones: Tombstones | None) -> None:
        self._chunking = chunking
        self._tombstones = tombstones
        self.notes: list[str] = []
        """What the file that was built last has beyond the limits."""

    def is_current(self, document: Document) -> bool:
        """Return whether a document was chunked as its text would be now."""
        return is_chunked_with(document, self._chunking.recipe, self._deleted())

    def build(
        self, file: SourceFile, root: Root, content: FileText, continued: Continuation | None = None
    ) -> DocumentUpdate:
        """Return the document of a text; an empty one for a digest that was compiled from records.

        A text that grew from the version of `continued` is parsed from its resume point on, and the chunks before that stay.

        A digest that is found by searches would become its own source. The file stays known, so that it is not read in every run.
        Raise SourceError if parsing takes too long.
        """
        from lorelog.ingest.markdown import can_resume, chunk_markdown

        text, fallback_date = content.text, _local_day(file.stamp.mtime_ns)
        if continued and not (content.has_grown and can_resume(continued.point, text, fallback_date)):
            continued = None
        point = continued.point if continued else None
        parsed = chunk_markdown(
            "" if is_digest_text(text) else text,
            file.path,
            self._chunking,
            fallback_date=fallback_date,
            timer=ParseTimer(file, len(text)),
            resume=point,
        )
        self.notes = _describe_limits(file, parsed)
        days = [(chunk.date[:10], chunk.date_source) for chunk in parsed.chunks]
        if point and point.latest[0]:
            days.append(point.latest)
        date, date_source = max(days, default=(parsed.date, parsed.date_source))
        document = Document(
            source=file.path,
            root=root.path,
            project=root.project,
            stamp=file.stamp,
            file_hash=content.digest,
            title=parsed.title,
            date=date,
            indexed_at=utc_now(),
            recipe=continued.document.recipe if continued else self._chunking.recipe,
            date_source=date_source,
        )
        update = DocumentUpdate(
            document,
            parsed.chunks,
            first_line=point.line + 1 if point else 1,
            base=continued.document if continued else None,
        )
        if parsed.resume and parsed.resume.line >= MIN_RESUMED_LINES:
            kept = json.dumps([content.digest, content.size, parsed.resume], ensure_ascii=False)
            update = replace(update, resume=kept)
        return self.remove_deleted(update)

    def remove_deleted(self, update: DocumentUpdate) -> DocumentUpdate:
        """Return the update without chunks that are deleted now."""
        return remove_deleted(update, self._deleted())

    def _deleted(self) -> frozenset[str]:
        return self._tombstones.keys() if self._tombstones is not None else frozenset()


def _describe_limits(file: SourceFile, parsed: ParsedDocument) -> list[str]:
    from lorelog.ingest.metadata import MAX_TAGS
    from lorelog.ingest.outline import heading_limit

    notes, shown = [], printable_path(file.path)
    if parsed.dropped_tags:
        notes.append(f"{parsed.dropped_tags:,} tags of {shown} are not indexed: at most {MAX_TAGS} of a file are")
    if parsed.undivided_from:
        notes.append(
            f"{shown} has more than {heading_limit(file.path):,} headings: from line {parsed.undivided_from:,} on sections are merged"
        )
    return notes


def _local_day(mtime_ns: int) -> str:
    """Return the local date of a time stamp; empty if it is out of range."""
    try:
        return datetime.fromtimestamp(mtime_ns / 1e9, UTC).astimezone().date().isoformat()
    except (ValueError, OverflowError, OSError):
        return ""
