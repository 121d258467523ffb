"""Operations on memories after they were written: supersede, edit, expiry, feedback, duplicates, summaries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import UNSET, DecodeError, Meta, Struct, UnsetType, ValidationError, json
from msgspec.structs import replace

from lorelog.core.atomic_file import write_atomic
from lorelog.core.caller import checked_origin
from lorelog.core.errors import DailyLimitReached, LorelogError, ModelError, NotFound, SourceChanged
from lorelog.core.memory import (
    CompactOptions,
    CompactReply,
    DuplicatesReply,
    ExpiryReply,
    FeedbackReply,
    NewMemory,
    SupersedeReply,
)
from lorelog.core.query import Filters
from lorelog.core.serializable import Serializable, utc_now
from lorelog.engine import Engine
from lorelog.operations.memory import (
    TEXT_HELP,
    CueTexts,
    KeepSecrets,
    MemoryId,
    OriginName,
    check_keep_secrets,
    read_cues,
)
from lorelog.operations.operation import OperationFamily, RequestContext, ShellCommand
from lorelog.operations.requests import (
    Day,
    FilePath,
    OperationRequest,
    ScopedRequest,
    Since,
    Text,
    Until,
    Words,
    about,
    parse_future_day,
    parse_past_day,
    resolve_path,
)
from lorelog.services.memories.edit import EditReply
from lorelog.services.memories.lifecycle import find_near_duplicates as find_near_duplicates_among
from lorelog.services.places.workspace import Workspace
from lorelog.services.review.filing import FILED, REFUSED, UNDECIDED, WAITING, ReviewLog

OPERATIONS = OperationFamily()
_Day = Annotated[Day, Meta(max_length=40)] | UnsetType | None


class SupersedeRequest(OperationRequest, frozen=True):
    """The memory that replaces another."""

    id: MemoryId
    text: Annotated[Text, about("The new text, in Markdown.", min_length=1)]
    type: Annotated[str, about("Type of the memory; that of the old one if not given.", max_length=64)] = ""
    tags: Annotated[Words, about("Tags, one word each; those of the old memory if not given.")] = []
    origin: OriginName = "user"
    cues: CueTexts = []
    keep_secrets: KeepSecrets = False


class EditRequest(OperationRequest, frozen=True):
    """A new text for the section of a memory."""

    id: MemoryId
    before: Annotated[Text, about("The section as memory.expand showed it, to be replaced.", min_length=1)]
    text: Annotated[Text, about("The new text of the section, with its heading and anchor.", min_length=1)]
    keep_secrets: KeepSecrets = False


class ExpiryRequest(OperationRequest, frozen=True):
    """The expiry and review days of a memory. A field that is not given stays unchanged; null removes it."""

    id: MemoryId
    expires: Annotated[
        _Day,
        about(
            "The last day it is shown: 2026-03-05, today, or a period such as 14d, 2w, 3m, 1y; "
            "null or 'never' removes it."
        ),
    ] = UNSET
    review_after: Annotated[
        _Day, about("The day from which it is due for review, likewise; null or 'never' removes it.")
    ] = UNSET


class FeedbackRequest(OperationRequest, frozen=True):
    """Whether a memory answers a query."""

    id: MemoryId
    query: Annotated[str, about("The query.", min_length=1, max_length=10_000)]
    relevance: Annotated[Literal["relevant", "irrelevant"], about("Whether the memory answers it.")]


class NearDuplicatesRequest(ScopedRequest, frozen=True, kw_only=True):
    """Which memories to compare."""

    threshold: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        about(
            "Minimum similarity, 0 to 1: cosine of vectors (default 0.84 with the built-in model, else 0.94) or share of common words (0.8)."
        ),
    ] = None
    limit: Annotated[int, about("Maximum number of groups.", ge=1, le=1000)] = 20
    types: Annotated[Words, about("Only memories of one of these types.")] = []


class CompactRequest(OperationRequest, frozen=True, kw_only=True):
    """What to summarize, with which model, and where to write the summary."""

    source: Annotated[FilePath | None, about("Only files at or below this path.")] = None
    since: Since = None
    until: Until = None
    output_dir: Annotated[
        FilePath | None, about("Write to the day's file in this directory; the project's journals if not given.")
    ] = None
    llm: Annotated[
        str,
        about(
            "'none' extracts sentences at no cost; otherwise a provider or PROVIDER/MODEL; llm.provider if not given.",
            max_length=200,
        ),
    ] = ""
    prompt_file: Annotated[
        FilePath | None, about("A file with instructions for the model; prompts.compact if not given.")
    ] = None
    dry_run: Annotated[bool, about("Report the requests and their cost; write nothing.")] = False


@OPERATIONS.declare(
    "memory.supersede",
    ShellCommand("supersede", ("id", "text"), helps={"text": TEXT_HELP}, hidden=("origin", "cues")),
    errors=(NotFound,),
    writes=True,
    once=True,
    warms=True,
    needs="change",
)
def supersede(engine: Engine, request: SupersedeRequest, call: RequestContext) -> SupersedeReply:
    """Replace a memory by a new one and hide the old one.

    Both stay in their files; the new memory's anchor names the old one. Deleting the new memory shows the old one
    again. Secrets in the new text are redacted.
    """
    check_keep_secrets(call, [request.origin], keep_secrets=request.keep_secrets)
    tags, cues = tuple(dict.fromkeys(request.tags)), read_cues(request.cues)
    memory = NewMemory(request.text, request.type, tags, checked_origin(request.origin, call.agent), cues=cues)
    return engine.lifecycle().supersede(request.id, memory, keep_secrets=request.keep_secrets)


@OPERATIONS.declare("memory.edit", errors=(NotFound, SourceChanged), writes=True, once=True, warms=True, needs="edit")
def edit(engine: Engine, request: EditRequest, call: RequestContext) -> EditReply:
    """Edit the section of a memory in its file; its id stays.

    `before` is the text that is replaced: if the file says something else by now, nothing is written and the error's code
    is `changed`. Secrets in the new text are redacted.
    """
    return engine.memories().edit(request.id, request.before, request.text, keep_secrets=request.keep_secrets)


@OPERATIONS.declare(
    "memory.set_expiry",
    ShellCommand(
        "expire", ("id", "expires"), {"review_after": "--review"}, metavars={"expires": "DAY", "review_after": "DAY"}
    ),
    errors=(NotFound,),
    writes=True,
    needs="change",
)
def set_expiry(engine: Engine, request: ExpiryRequest, call: RequestContext) -> ExpiryReply:
    """Set the last day on which a memory is shown, or the day from which it is due for review.

    A field that is not given stays unchanged; null removes it. The memory's file is not changed.
    """
    return engine.lifecycle().set_expiry(
        request.id, _parse_expiry(request.expires), _parse_expiry(request.review_after)
    )


@OPERATIONS.declare(
    "memory.feedback", ShellCommand("feedback", ("query", "id", "relevance")), errors=(NotFound,), writes=True
)
def feedback(engine: Engine, request: FeedbackRequest, call: RequestContext) -> FeedbackReply:
    """Record whether a memory answers a query.

    `lorelog eval --feedback` measures search with these judgements, and a memory marked irrelevant ranks lower when the
    same query is searched again, unless it is your own and an agent says so. Secrets in the query are redacted.
    """
    query = engine.redact(request.query)
    return engine.lifecycle().judge(query, request.id, request.relevance, by=call.agent)


@OPERATIONS.declare("memory.find_near_duplicates", ShellCommand("duplicates"))
def find_near_duplicates(engine: Engine, request: NearDuplicatesRequest, call: RequestContext) -> DuplicatesReply:
    """Find memories that say nearly the same, and suggest which one to keep. Changes nothing."""
    filters = engine.scoped(Filters(types=tuple(request.types)), all_projects=request.all_projects)
    lifecycle, threshold = engine.lifecycle_index(), request.threshold
    return find_near_duplicates_among(engine.store, lifecycle, filters, threshold=threshold, limit=request.limit)


@OPERATIONS.declare(
    "memory.compact",
    ShellCommand("compact"),
    errors=(NotFound, ModelError, DailyLimitReached),
    writes=True,
    once=True,
    warms=True,
    needs="maintain",
)
def compact(engine: Engine, request: CompactRequest, call: RequestContext) -> CompactReply:
    """Summarize the project's memories in one memory that cites its sources.

    The sources stay in place and keep their rank. A source is summarized only once.
    """
    source, output_dir, prompt_file = (
        resolve_path(path, call.directory) if path else ""
        for path in (request.source, request.output_dir, request.prompt_file)
    )
    since, until = parse_past_day(request.since), parse_past_day(request.until)
    options = CompactOptions(
        filters=engine.scoped(Filters(source_prefix=source, since=since, until=until), all_projects=True),
        output_dir=output_dir,
        llm=request.llm,
        prompt_file=prompt_file or engine.defaults.compact_prompt,
        dry_run=request.dry_run,
    )
    return engine.compactor(call.yield_write_slot, options.llm).compact(options, call.progress)


def _parse_expiry(day: str | date | UnsetType | None) -> str | None:
    """Return an ISO day, "" to remove the day, or None to keep it. `never` is for clients that cannot send null."""
    if isinstance(day, UnsetType):
        return None
    return "" if day is None or str(day).strip().lower() == "never" else parse_future_day(day)


class OwnChange(Serializable, Struct, frozen=True, kw_only=True):
    """A change that a person made, and what takes it back."""

    what: str
    """In the past tense: `added`."""
    step: str
    """`hide` or `show` memories, `edit` one back, let items `wait` again, take an `import` back; empty if nothing can."""
    ids: tuple[str, ...]
    at: str = ""
    project: str = ""
    before: str = ""
    after: str = ""
    """Section texts of an edit."""


_MAX_CHANGES = 50
_AGREED = {"memory.supersede": "hide", "memory.restore": "hide", "memory.delete": "show"}


def read_own_changes(place: Workspace) -> list[OwnChange]:
    """Return the last changes that the user made in the tenant, oldest first. `forget` deletes the file if it names the text."""
    with suppress(OSError, ValidationError, DecodeError):
        return json.decode(_changes_file(place).read_bytes(), type=list[OwnChange])
    return []


def write_own_changes(place: Workspace, changes: Sequence[OwnChange]) -> None:
    with suppress(OSError):
        write_atomic(_changes_file(place), json.encode(changes[-_MAX_CHANGES:]), durable=False)


def note_own_change(engine: Engine, operation: str, request: Any, value: Any) -> None:
    """Note what a person did with an operation, for `lorelog undo`. `import` has the id of a batch."""
    at, place = utc_now(), engine.place
    if new := [change for change in _own_changes(engine, operation, request, value) if change.ids]:
        new = [replace(change, at=at, project=place.project.id) for change in new]
        write_own_changes(place, [*read_own_changes(place), *new])


def _changes_file(place: Workspace) -> Path:
    return place.cache_folder / "delivery" / "own.changes"


def _own_changes(engine: Engine, operation: str, request: Any, value: Any) -> Iterator[OwnChange]:
    match operation:
        case "memory.add" | "memory.add_batch":
            added = [value] if operation == "memory.add" else value.memories
            yield OwnChange(what="added", step="hide", ids=tuple(each.memory for each in added if not each.existed))
        case "memory.supersede":
            yield OwnChange(what="replaced a memory by", step="hide", ids=(value.memory,))
        case "memory.delete" | "memory.restore" if value.changed:
            is_hidden = operation == "memory.delete"
            what, step = ("hid", "show") if is_hidden else ("showed again", "hide")
            yield OwnChange(what=what, step=step, ids=(value.memory or value.id,))
        case "memory.edit" if value.changed:
            texts = {"before": request.before, "after": request.text.replace("\r\n", "\n").strip("\n")}
            if any(engine.redact(text) != text for text in texts.values()):
                texts = {}  # a secret is not kept a second time
            yield OwnChange(what="edited", step="edit" if texts else "", ids=(value.memory,), **texts)
        case "review.decide":
            yield from _own_decisions(engine, value.decisions)
        case "import":
            yield OwnChange(what="imported", step="import", ids=(value,))


def _own_decisions(engine: Engine, decisions: Iterable[Any]) -> Iterator[OwnChange]:
    """Yield one change for all decisions that are taken back in the same way."""
    entries = ReviewLog(engine.place.tenant_folder).entries()
    groups: dict[tuple[str, str], list[str]] = {}
    for decision in decisions:
        entry, step, memory = entries.get(decision.id), "", decision.result
        if decision.kind == "statement":
            step = "hide" if decision.outcome == FILED else "wait"
        elif decision.kind == "proposal" and decision.outcome == "refused":
            step = "wait"
        elif decision.kind == "proposal" and entry and entry.arguments:
            step = _AGREED.get(entry.label, "")
        elif decision.kind not in ("guard", "rest") and memory:
            step = "show" if memory == decision.id else "hide"
        is_memory = step in ("hide", "show")
        groups.setdefault((decision.outcome, step), []).append(memory if is_memory else decision.id)
    for (what, step), ids in groups.items():
        yield OwnChange(what=what, step=step, ids=tuple(ids))


def take_back(engine: Engine, change: OwnChange) -> None:
    """Take a change back that is not an import. Raise LorelogError if that is not possible any more."""
    if not change.step:
        hint = "'lorelog undo' again takes back what you did before"
        raise LorelogError(f"what you {change.what} cannot be taken back: its earlier state is not kept", hint=hint)
    memories, log = engine.memories(), ReviewLog(engine.place.tenant_folder)
    for identity in reversed(change.ids):
        if change.step == "wait":
            entry = log.entries()[identity]
            outcome = WAITING if entry.outcome == REFUSED else UNDECIDED
            log.add([replace(entry, outcome=outcome, at=utc_now())])
        elif change.step == "edit":
            memories.edit(identity, change.after, change.before, keep_secrets=True)
        else:
            (memories.delete if change.step == "hide" else memories.restore)(identity)
