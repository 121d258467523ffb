"""Compact: the request, the handler and the answer as JSON. The first line of the docstring is its help everywhere."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, TypedDict, cast

from msgspec import Meta

from lorelog.core.query import Filters
from lorelog.engine import Engine
from lorelog.operations.days import day_of, located
from lorelog.operations.operation import Call
from lorelog.operations.replies import AddShape
from lorelog.operations.requests import Path, Request
from lorelog.operations.shapes import add_shape

if TYPE_CHECKING:
    from lorelog.core.compact import CompactReply


class CompactRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be summed up, by whom, and where the summary goes."""

    source: Annotated[Path | None, Meta(description="Only files at or below this path.")] = None
    since: Annotated[
        str | None,
        Meta(description="From this day on: 2026-03-05, today, yesterday, or 7d, 2w, 3m, 1y for so long ago."),
    ] = None
    until: Annotated[str | None, Meta(description="Up to and including this day.")] = None
    output_dir: Annotated[
        Path | None,
        Meta(description="Write to the day's file in this directory; the project's journals if not given."),
    ] = None
    llm: Annotated[
        Annotated[str, Meta(max_length=200)],
        Meta(
            description="none takes sentences out and costs nothing; otherwise a provider, or PROVIDER/MODEL; "
            "whom the settings choose (llm.provider) if not given."
        ),
    ] = ""
    prompt_file: Annotated[
        Path | None, Meta(description="A file that tells the model how to sum up; prompts.compact if not given.")
    ] = None
    dry_run: Annotated[bool, Meta(description="Only tell what would be asked and what it would cost.")] = False


class CompactBatchShape(TypedDict):
    """Chunks that were, or would be, summed up together."""

    chunks: int
    first_day: str
    last_day: str
    tokens: int
    lines: int
    extracted: bool


class DroppedLineShape(TypedDict):
    """A line that a model wrote and that was thrown away."""

    text: str
    reason: str
    batch: int


class CompactShape(TypedDict):
    """The one memory that sums up what was chosen."""

    changed: bool
    dry_run: bool
    worded_by: str
    chunks: int
    covered_before: int
    summary: AddShape | None
    text: str
    batches: list[CompactBatchShape]
    dropped: list[DroppedLineShape]
    calls: int
    tokens_most: int
    tokens_spent: int
    notes: list[str]


def compact(engine: Engine, request: CompactRequest, call: Call) -> CompactReply:
    """Sum up what the project remembers in one memory that cites its sources.

    They stay where they are, and are found below their summary. What was summed up once is not summed up again.
    """
    from lorelog.core.compact import CompactOptions

    options = CompactOptions(
        filters=Filters(
            source_prefix=located(request.source, call) if request.source else "",
            since=day_of(request.since) if request.since else "",
            until=day_of(request.until) if request.until else "",
        ),
        output_dir=located(request.output_dir, call) if request.output_dir else "",
        llm=request.llm,
        prompt_file=located(request.prompt_file, call) if request.prompt_file else "",
        dry_run=request.dry_run,
    )
    reply = engine.compact(options, call.progress, call.aside)
    return replace(reply, notes=(*reply.notes, *engine.defaults.warnings))


def compact_shape(reply: CompactReply) -> CompactShape:
    """What was summed up, and what was thrown away."""
    return {
        "changed": reply.changed,
        "dry_run": reply.dry_run,
        "worded_by": reply.worded_by,
        "chunks": reply.chunks,
        "covered_before": reply.covered_before,
        "summary": None if reply.summary is None else add_shape(reply.summary),
        "text": reply.text,
        "batches": [cast("CompactBatchShape", asdict(one)) for one in reply.batches],
        "dropped": [cast("DroppedLineShape", asdict(one)) for one in reply.dropped],
        "calls": reply.calls,
        "tokens_most": reply.tokens_most,
        "tokens_spent": reply.tokens_spent,
        "notes": list(reply.notes),
    }
