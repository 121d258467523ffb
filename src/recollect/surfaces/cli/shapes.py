"""The JSON that `--json` prints. These shapes are documented in docs/json.md and do not change without a version."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a search needs only its own
    from recollect.core.document import Anchor, Document, StoredChunk
    from recollect.core.errors import RecollectError
    from recollect.core.memory import AddReply, ExpandReply, IndexReport, ListReply
    from recollect.core.ports import StoreStats
    from recollect.core.query import Coverage, Hit, Packing, SearchReply
    from recollect.services.evaluate import EvaluateReply

Shape = dict[str, Any]

_UNPACKED = {"content", "snippet", "matches", "tokens"}


def print_json(shape: Shape) -> None:
    """Print one JSON object."""
    print(json.dumps(shape, ensure_ascii=False, indent=2))


def error_shape(error: RecollectError) -> Shape:
    """What went wrong."""
    return {"error": {"code": error.code, "message": error.message, "hint": error.hint}}


def search_shape(reply: SearchReply, *, explain: bool) -> Shape:
    """Hits, best first."""
    return {
        "query": reply.query,
        "lane": str(reply.lane),
        "hits": [_hit_shape(hit, explain=explain) for hit in reply.hits],
        "weighing": reply.weighing,
        "coverage": _coverage_shape(reply.coverage),
        "packing": None if reply.packing is None else _packing_shape(reply.packing),
        "notes": list(reply.notes),
    }


def expand_shape(reply: ExpandReply) -> Shape:
    """A section."""
    shape = chunk_shape(reply.chunk)
    shape |= {"content": reply.content, "start_line": reply.start_line, "end_line": reply.end_line}
    shape["tokens"] = reply.tokens
    shape["transcript"] = _transcript_shape(reply) if reply.transcript else None
    shape["notes"] = list(reply.notes)
    return shape


def list_shape(reply: ListReply) -> Shape:
    """Documents or memories."""
    return {
        "documents": [_document_shape(document) for document in reply.documents],
        "memories": [chunk_shape(memory) for memory in reply.memories],
        "more": reply.more,
    }


def index_shape(report: IndexReport) -> Shape:
    """What a run did."""
    shape = asdict(report)
    shape["problems"] = [asdict(problem) for problem in report.problems]
    shape["failed"] = len({problem.path for problem in report.problems})
    shape["notes"] = list(report.notes)
    return shape


def evaluate_shape(reply: EvaluateReply) -> Shape:
    """What was measured."""
    return {
        "k": reply.k,
        "questions": reply.questions,
        "judged": reply.judged,
        "documents": reply.documents,
        "unknown": [{"document": name, "reason": reason} for name, reason in reply.unknown],
        "rankings": [
            {
                "name": ranking.name,
                "measures": [{"name": name, **asdict(value)} for name, value in ranking.measures.items()],
                "ours_ahead": asdict(ranking.ours_ahead) if ranking.ours_ahead else None,
            }
            for ranking in reply.rankings
        ],
        "problems": [asdict(problem) for problem in reply.problems],
        "failed": len(reply.problems),
        "notes": list(reply.notes),
    }


def add_shape(reply: AddReply) -> Shape:
    """Where a new memory stands."""
    return asdict(reply) | {"notes": list(reply.notes)}


def stats_shape(stats: StoreStats, coverage: Coverage, model: str) -> Shape:
    """Sizes."""
    return {
        "documents": stats.documents,
        "chunks": stats.chunks,
        "vectors": stats.vectors,
        "other_vectors": stats.other_vectors,
        "coverage": _coverage_shape(coverage),
        "model": model,
        "projects": dict(stats.projects),
        "bytes_on_disk": stats.bytes_on_disk,
        "bytes_mapped": stats.bytes_mapped,
        "schema_version": stats.schema_version,
        "location": stats.location,
    }


def chunk_shape(stored: StoredChunk) -> Shape:
    """A chunk, as list and expand show it."""
    chunk = stored.chunk
    return {
        "id": stored.id,
        "source": chunk.source,
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "heading": chunk.heading,
        "heading_level": chunk.heading_level,
        "heading_path": list(chunk.heading_path),
        "project": stored.project,
        "date": chunk.date,
        "type": chunk.type,
        "tags": list(chunk.tags),
        "content": chunk.content,
        "content_hash": chunk.content_hash,
        "anchor": _anchor_shape(chunk.anchor),
    }


def _hit_shape(hit: Hit, *, explain: bool) -> Shape:
    shape: Shape = {
        "id": hit.id,
        "score": hit.score,
        "source": hit.source,
        "start_line": hit.start_line,
        "end_line": hit.end_line,
        "heading": hit.heading,
        "heading_level": hit.heading_level,
        "heading_path": list(hit.heading_path),
        "project": hit.project,
        "date": hit.date,
        "type": hit.type,
        "tags": list(hit.tags),
        "content": hit.content,
        "content_hash": hit.content_hash,
        "snippet": hit.snippet,
        "matches": [list(span) for span in hit.matches],
        "anchor": _anchor_shape(hit.anchor),
        "duplicates": list(hit.duplicates),
        "relevance": hit.relevance,
        "tokens": hit.tokens,
        "expand_tokens": hit.expand_tokens,
    }
    if hit.packed is not None:  # the budget is for the texts, so there are no others
        shape = {name: value for name, value in shape.items() if name not in _UNPACKED}
        shape["packed"] = asdict(hit.packed)
    if explain:
        shape["explanation"] = [asdict(part) for part in hit.explanation.parts]
    return shape


def _packing_shape(packing: Packing) -> Shape:
    return asdict(packing) | {"dropped": [asdict(one) for one in packing.dropped]}


def _transcript_shape(reply: ExpandReply) -> Shape:
    return {
        "address": reply.transcript,
        "exists": reply.transcript_exists,
        "tokens": reply.transcript_tokens,
    }


def _coverage_shape(coverage: Coverage) -> Shape:
    return {"chunks": coverage.chunks, "with_vectors": coverage.with_vectors}


def _anchor_shape(anchor: Anchor | None) -> Shape | None:
    if anchor is None:
        return None
    return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(anchor).items() if value}


def _document_shape(document: Document) -> Shape:
    return {
        "source": document.source,
        "project": document.project,
        "root": document.root,
        "title": document.title,
        "date": document.date,
        "chunks": document.chunk_count,
        "bytes": document.stamp.size,
        "indexed_at": document.indexed_at,
    }
