"""What becomes of memories: the handlers, and their answers as JSON. The first line of a docstring is its help everywhere."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, cast

from msgspec import UnsetType

from lorelog.core.memory import EpisodeReply, ExpiryReply, FeedbackReply, NewMemory, SupersedeReply, TwinsReply
from lorelog.core.query import Filters
from lorelog.engine import Engine
from lorelog.operations import lifecycle_requests as asked
from lorelog.operations.days import day_ahead
from lorelog.operations.operation import Call
from lorelog.operations.shapes import add_shape

if TYPE_CHECKING:
    from lorelog.core.memory import Twin
    from lorelog.operations import lifecycle_replies as shapes

_NEVER = "never"
"""As good as null, which not everyone can send."""
_SHOWN = 300
"""Characters of a memory that may be a repetition: enough to tell."""


def supersede(engine: Engine, request: asked.SupersedeRequest, call: Call) -> SupersedeReply:
    """Put a new memory in the place of an old one, which is hidden from then on.

    Both stay in their files, and the new one's anchor says so. Deleting the new one brings the old one back.
    """
    memory = NewMemory(request.text, request.type, tuple(dict.fromkeys(request.tags)), request.origin)
    return engine.lifecycle().supersede(request.id, memory)


def set_expiry(engine: Engine, request: asked.ExpiryRequest, call: Call) -> ExpiryReply:
    """Say until when a memory is shown, and from when on it should be looked at again.

    What is not given stays as it is, and null takes it back. The file is not touched.
    """
    return engine.lifecycle().set_expiry(request.id, _day(request.expires), _day(request.review_after))


def feedback(engine: Engine, request: asked.FeedbackRequest, call: Call) -> FeedbackReply:
    """Say whether a memory answers a question.

    `lorelog eval --feedback` measures searches by it, and who asks the same question again sees lower what was irrelevant.
    """
    return engine.lifecycle().judge(request.query, request.id, request.relevance)


def find_near_duplicates(engine: Engine, request: asked.NearRequest, call: Call) -> TwinsReply:
    """Find memories that say nearly the same, and which of them to keep. Nothing is changed."""
    from lorelog.services.near import NearOptions

    options = NearOptions(Filters(types=tuple(request.types)), request.threshold, request.limit)
    return engine.lifecycle().near(options, all_projects=request.all_projects)


def consolidate_episode(engine: Engine, request: asked.EpisodeRequest, call: Call) -> EpisodeReply:
    """Sum the memories of an episode up in one, with a sentence of each and without a model.

    The same episode is summed up once, however often that is asked for.
    """
    return engine.lifecycle().consolidate(
        request.episode_id, most=request.max_chunks, retain=request.retain_source_chunks
    )


def _day(given: str | UnsetType | None) -> str | None:
    """Return a day; None where none was given, and nothing where it is taken back."""
    if isinstance(given, UnsetType):
        return None
    return "" if given is None or given.strip().lower() == _NEVER else day_ahead(given)


def supersede_shape(reply: SupersedeReply) -> shapes.SupersedeShape:
    """Where the new memory stands, and in whose place."""
    return {**add_shape(reply.added), "supersedes": reply.old}


def expiry_shape(reply: ExpiryReply) -> shapes.ExpiryShape:
    """The days of a memory."""
    return cast("shapes.ExpiryShape", asdict(reply))


def feedback_shape(reply: FeedbackReply) -> shapes.FeedbackShape:
    """A judgement."""
    return cast("shapes.FeedbackShape", asdict(reply))


def twins_shape(reply: TwinsReply) -> shapes.TwinsShape:
    """Groups of memories that say nearly the same."""
    return {
        "groups": [[_twin_shape(one, keep=not place) for place, one in enumerate(group)] for group in reply.groups],
        "compared": reply.compared,
        "by_vectors": reply.by_vectors,
        "more": reply.more,
        "notes": list(reply.notes),
    }


def episode_shape(reply: EpisodeReply) -> shapes.EpisodeShape:
    """The memory that sums an episode up."""
    return {
        "summary": add_shape(reply.summary),
        "sources": list(reply.sources),
        "retained": reply.retained,
        "changed": reply.changed,
        "notes": list(reply.notes),
    }


def _twin_shape(twin: Twin, *, keep: bool) -> shapes.TwinShape:
    from lorelog.retrieval.dedupe import said_by

    stored, chunk = twin.stored, twin.stored.chunk
    text = said_by(stored)
    return {
        "id": stored.id,
        "memory": chunk.anchor.memory if chunk.anchor else "",
        "source": chunk.source,
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "project": stored.project,
        "date": chunk.date,
        "type": chunk.type,
        "similarity": round(twin.similarity, 4),
        "keep": keep,
        "text": text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…",
    }
