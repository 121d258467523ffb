"""Calling operations: from a name and JSON arguments to a JSON reply. All surfaces call operations here.

The client states its directory and environment. This module never reads those of its own process, which in the daemon
belong to someone else.

Short writes wait in the queue of their tenant, in order of arrival and without polling. The store's own lock protects the index; the queue only
decides which thread requests that lock next. A writer therefore releases its slot while it waits for a model, which may take arbitrarily long,
and a waiting writer can be cancelled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Condition
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from lorelog.core.caller import detect_agent
from lorelog.core.errors import LorelogError, UsageError, nearest_name
from lorelog.core.policy import Caller, Permission
from lorelog.core.ports import EmbeddedTexts, Embedder, Progress, Vector
from lorelog.core.serializable import json_form, to_json
from lorelog.engine import Engine
from lorelog.operations.catalogue import find_operation
from lorelog.operations.operation import Json, Meter, Operation, RequestContext
from lorelog.operations.requests import OperationRequest
from lorelog.services.traces.recorder import CallEvent, record_call
from lorelog.wiring import Location, open_engine, resolve_location


class ClientIdentity(Struct, frozen=True):
    """The client of a call: its working directory and environment."""

    directory: str
    environment: Mapping[str, str] = field(default_factory=dict)
    home: str | None = None
    """Home folder of the index; LORELOG_HOME of the environment, or ~/.lorelog, if not given."""
    own: bool = True
    """True for a process of this machine's user. Other clients may not name files to read."""
    names_files: bool = True
    """False for a client of this machine that may not name files to read either."""
    agent: str = ""
    """Name of the agent that calls. A client that is not `own` counts as an agent, too."""
    wants_value: bool = False
    """True for the Python library, which makes the handler's own value from the reply: `{"value": …}`."""

    def detect_agent(self) -> str:
        """Return the name of the agent that calls; empty for a person, as far as that can be told."""
        return self.agent or ("a remote client" if not self.own else detect_agent(self.environment))

    @property
    def kind(self) -> Caller:
        """Who calls, for `core.policy`. The page that an agent's shell opened has the rights of MCP."""
        if not self.own:
            return Caller.MCP if self.agent else Caller.BEARER
        if self.detect_agent():
            return Caller.SHELL if self.names_files else Caller.MCP
        return Caller.TERMINAL if self.names_files else Caller.PAGE

    def check(self, operation: Operation[Any, Any], request: OperationRequest | None = None) -> Permission:
        """Return what becomes of a call. Raise Forbidden if the client may not call the operation, or not with this request."""
        permission = operation.right.permission(self.kind)
        is_too_much = (
            permission is Permission.DRY_RUN and request is not None and not getattr(request, "dry_run", False)
        )
        if permission is Permission.NO or is_too_much:
            raise operation.right.refusal(self.detect_agent() or str(self.kind))
        return permission


OpenEngine = Callable[[Location, Mapping[str, object]], AbstractContextManager[Engine]]
CallOperation = Callable[[str, object, ClientIdentity, Progress | None], Json]
"""Calls an operation by name for a client; `Dispatcher.call` is the implementation."""
BoundCall = Callable[[str, dict[str, Any]], Json]
"""`CallOperation` for one client."""


_POLL_S = 0.1
"""Interval at which a waiting writer checks whether it was cancelled."""


class WriteQueue:
    """The queues of all tenants. The first writer of a queue holds the slot."""

    def __init__(self) -> None:
        self.changed = Condition()
        """Guards the queues, and is notified when one gets shorter."""
        self.waiting: dict[Path, list[WriteSlot]] = {}

    @contextmanager
    def acquire(self, folder: Path, progress: Progress | None = None, name: str = "") -> Iterator[WriteSlot]:
        """Wait for the write slot. `progress` may raise while waiting; then nothing was written.

        `name` is the operation, which writers behind it name as what they wait for.
        """
        slot = WriteSlot(self, folder, name)
        slot.wait(progress)
        try:
            yield slot
        finally:
            slot.release()

    def queue_length(self, folder: Path) -> int:
        """Return the number of writers that hold the slot or wait for it."""
        with self.changed:
            return len(self.waiting.get(folder, ()))


class WriteSlot:
    """One writer's place in the queue. For one thread."""

    def __init__(self, queue: WriteQueue, folder: Path, name: str = "") -> None:
        self._queue = queue
        self._folder = folder
        self.name = name or "another write"

    def wait(self, progress: Progress | None = None) -> None:
        """Join the queue and wait for the slot."""
        with self._queue.changed:
            writers = self._queue.waiting.setdefault(self._folder, [])
            writers.append(self)
            holder = writers[0]
        if holder is self:
            return
        started, first = time.monotonic(), False
        try:
            while not first:
                with self._queue.changed:
                    first = self._queue.changed.wait_for(lambda: writers[0] is self, _POLL_S if progress else None)
                    holder = holder if first else writers[0]
                if progress is not None:  # also at the end: it may have been cancelled since the last report
                    progress(f"waiting for {holder.name}", int(time.monotonic() - started), 0)
        except BaseException:
            self.release()
            raise

    def release(self) -> bool:
        """Leave the queue, from any position. Return whether the writer was in it."""
        with self._queue.changed:
            writers = self._queue.waiting.get(self._folder, [])
            was_queued = self in writers
            if was_queued:
                writers.remove(self)
                self._queue.changed.notify_all()
            if not writers:
                self._queue.waiting.pop(self._folder, None)
            return was_queued

    @contextmanager
    def released(self) -> Iterator[None]:
        """Release the slot during slow work, then wait for it again. That wait cannot be cancelled: work has begun.

        In work for which it is released already, such as embedding what a judge files, nothing changes.
        """
        was_queued = self.release()
        try:
            yield
        finally:
            if was_queued:
                self.wait()


class YieldingEmbedder:
    """An embedder that releases the write slot while it works."""

    def __init__(self, inner: Embedder, slot: WriteSlot) -> None:
        self._inner = inner
        self._slot = slot
        self.provider = inner.provider
        self.model = inner.model

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        with self._slot.released():
            return self._inner.embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        with self._slot.released():
            return self._inner.embed_query(text)

    def close(self) -> None:
        self._inner.close()


class Dispatcher:
    """Calls operations. `open_engine` opens an engine for each call, or lends one that is already open."""

    def __init__(self, open_engine: OpenEngine = open_engine) -> None:
        self._open_engine = open_engine
        self._write_queue = WriteQueue()
        self.meter = Meter()

    def call(
        self, name: str, arguments: object, caller: ClientIdentity, progress: Progress | None = None
    ) -> dict[str, Any]:
        """Call an operation and return its JSON. Raise LorelogError for errors that the user can fix."""
        value, reply = self._call(find_operation(name), arguments, caller, progress)
        return {"value": to_json(value)} if caller.wants_value else reply

    def value(self, name: str, arguments: object, caller: ClientIdentity, progress: Progress | None = None) -> Any:
        """Call an operation and return the handler's value: a typed object instead of JSON."""
        return self._call(find_operation(name), arguments, caller, progress)[0]

    def _call(
        self, operation: Operation[Any, Any], arguments: object, caller: ClientIdentity, progress: Progress | None
    ) -> tuple[Any, Json]:
        started = time.perf_counter()
        failed = True
        try:
            caller.check(operation)
            try:
                request = read_request(operation, arguments)
            except UsageError as error:
                # Traced in the caller's own project: the one that the request names may be what is invalid.
                with suppress(LorelogError), self._engine_for(OperationRequest(), caller) as engine:
                    _trace_call(engine, CallEvent(operation.name, arguments, 0.0, error))
                raise
            permission = caller.check(operation, request)
            with self._engine_for(request, caller) as engine:
                context = RequestContext(
                    caller.directory,
                    caller.own,
                    names_files=caller.own and caller.names_files,
                    environment=caller.environment,
                    caller=caller.kind,
                    agent=caller.detect_agent(),
                    progress=progress,
                    meter=self.meter,
                    find_operation=find_operation,
                )
                try:
                    if permission in (Permission.PROPOSED, Permission.ALL_PROPOSED):
                        from lorelog.operations.review import propose_change

                        propose_change(engine, operation, request, context)
                    value = self._run_handler(engine, operation, request, context)
                    reply = to_json(json_form(value))
                except BaseException as error:
                    _trace_call(engine, CallEvent(operation.name, arguments, time.perf_counter() - started, error))
                    raise
                _trace_call(engine, CallEvent(operation.name, arguments, time.perf_counter() - started, reply))
            failed = False
        finally:
            self.meter.count(operation.name, time.perf_counter() - started, failed=failed)
        return value, reply

    def _engine_for(self, request: OperationRequest, caller: ClientIdentity) -> AbstractContextManager[Engine]:
        location = resolve_location(
            home=caller.home,
            project=request.project,
            directory=caller.directory,
            environment=caller.environment,
            tenant=request.tenant,
        )
        overrides = {"scope.tenant": request.tenant}
        if not caller.own:
            overrides["records.identity"] = ""  # never sign a remote client's records with this user's key
        return self._open_engine(location, overrides)

    def _run_handler(
        self, engine: Engine, operation: Operation[Any, Any], request: OperationRequest, context: RequestContext
    ) -> Any:
        if not operation.writes:
            return operation.handler(engine, request, context)
        with self._write_queue.acquire(engine.place.tenant_folder, context.progress, operation.name) as slot:
            writer = engine.with_embedder(partial(YieldingEmbedder, slot=slot))
            with suppress(LorelogError):  # a forget that cannot be completed now does not stop the write
                writer.complete_forgets()
            value = operation.handler(writer, request, replace(context, yield_write_slot=slot.released))
            if operation.name in _UNDOABLE and context.caller in (Caller.TERMINAL, Caller.PAGE):
                from lorelog.operations.lifecycle import note_own_change

                with suppress(LorelogError):  # what was done is done, whether it can be noted or not
                    note_own_change(engine, operation.name, request, value)
            return value


_UNDOABLE = frozenset(f"memory.{name}" for name in ("add", "add_batch", "supersede", "delete", "restore", "edit")) | {
    "review.decide"
}
"""What `lorelog undo` takes back if a person did it."""


def _trace_call(engine: Engine, event: CallEvent) -> None:
    record_call(engine.traces, engine.place.project.id, event)


def read_request(operation: Operation[Any, Any], arguments: object) -> OperationRequest:
    """Return the typed request of a JSON object. Raise UsageError with the field and what it accepts."""
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, Mapping):
        raise UsageError(
            f"the arguments of {operation.name} must be a JSON object", hint=f"lorelog ops {operation.name}"
        )
    # A null field counts as not given, because many clients send every field they know. Where null has a meaning, the
    # field's default is UNSET.
    nullable = _nullable_fields(operation.request)
    if not set(operation.request.__struct_fields__).issuperset(arguments):
        arguments = translate_memd_fields(operation.name, arguments, frozenset(operation.request.__struct_fields__))
    fields = {key: value for key, value in arguments.items() if value is not None or key not in nullable}
    if not fields:  # `convert` would inspect all types of the request; it is asked only to say what is missing
        with suppress(TypeError):
            empty: OperationRequest = operation.request()
            return empty
    try:
        request: OperationRequest = msgspec.convert(fields, operation.request)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{operation.name}: {_format_validation_error(error, operation, fields)}",
            hint=f"lorelog ops {operation.name}",
        ) from None
    except (ValueError, TypeError, RecursionError) as error:
        raise UsageError(f"{operation.name}: {error}") from None
    return request


def _nullable_fields(request: type[OperationRequest]) -> frozenset[str]:
    """Return the fields for which null counts as not given. `msgspec.structs.fields` would inspect all types for it."""
    names, defaults = request.__struct_fields__, request.__struct_defaults__
    optional = zip(names[len(names) - len(defaults) :], defaults, strict=True)
    return frozenset(names) - {name for name, value in optional if value is msgspec.UNSET}


def _format_validation_error(
    error: msgspec.ValidationError, operation: Operation[Any, Any], values: Mapping[str, object]
) -> str:
    """Return the reason in plain words, such as `k must be at least 1 (got 0)`."""
    from lorelog.records.kinds import COMPUTED_FIELDS

    known = [field.name for field in msgspec.structs.fields(operation.request)]
    unknown = [name for name in values if name not in known]
    if not unknown:
        reason, _, path = str(error).partition(" - at `$.")
        field = path.rstrip("`").replace("[...]", "[]")
        if reason.startswith("Object "):
            whole = f"{field}.{reason.partition('`')[2].rstrip('`')}".removeprefix(".")
            missing = reason.startswith("Object missing")
            return f"the field {whole!r} is missing" if missing else f"there is no field {whole!r}"
        constraint, value = _format_constraint(reason, _field_types(operation.request, field)), values.get(field)
        shown = value is not None and not constraint.startswith("must not be")
        return f"{field} {constraint}" + (f" (got {shorten_value(value)})" if shown else "")
    if unknown[0] in COMPUTED_FIELDS:
        return f"there is no field {unknown[0]!r}: the trust of a record is computed from the ledger"
    near = nearest_name(str(unknown[0]), known)
    return f"there is no field {str(unknown[0])[:100]!r}" + (f"; did you mean {near!r}?" if near else "")


_TYPE_NAMES = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_BOUNDS = {">=": "at least", "<=": "at most", ">": "greater than", "<": "less than"}


def _field_types(request: type[OperationRequest], name: str) -> tuple[msgspec.inspect.Type, ...]:
    field = next((field for field in msgspec.structs.fields(request) if field.name == name), None)
    kind = msgspec.inspect.type_info(field.type) if field else msgspec.inspect.AnyType()
    kinds = _without_metadata(kind)
    members = kinds.types if isinstance(kinds, msgspec.inspect.UnionType) else (kinds,)
    return tuple(map(_without_metadata, members))


def _without_metadata(kind: msgspec.inspect.Type) -> msgspec.inspect.Type:
    while isinstance(kind, msgspec.inspect.Metadata):
        kind = kind.type
    return kind


def _format_constraint(reason: str, kinds: tuple[msgspec.inspect.Type, ...]) -> str:
    """Return a message of msgspec, such as Expected `int` >= 1, as a phrase that follows the field's name."""
    import re

    if reason in {"Expected `str` of length >= 1", "Expected `array` of length >= 1"}:
        return "must not be empty"
    if match := re.fullmatch(r"Expected `(\w+)` of length (>=|<=) (\d+)", reason):
        unit = "characters" if match[1] == "str" else "items"
        return f"must have {_BOUNDS[match[2]]} {match[3]} {unit}"
    if match := re.fullmatch(r"Expected `\w+` (>=|<=|>|<) (\S+)", reason):
        share = next((kind for kind in kinds if isinstance(kind, msgspec.inspect.FloatType)), None)
        is_share = share is not None and (share.ge, share.le) == (0, 1)
        bound = f"{_BOUNDS[match[1]]} {match[2].removesuffix('.0')}"
        return f"must be {'between 0 and 1, such as 0.5' if is_share else bound}"
    if match := re.fullmatch(r"Expected `([^`]+)`, got `[^`]+`", reason):
        names = [name for name in match[1].split(" | ") if name != "null"]
        return f"must be {' or '.join(_TYPE_NAMES.get(name, name) for name in names)}"
    if reason.startswith("Invalid enum value"):
        known = [str(value) for kind in kinds if isinstance(kind, msgspec.inspect.LiteralType) for value in kind.values]
        return f"must be one of {', '.join(known)}" if known else f"must not be {reason.rpartition(' ')[2]}"
    return f"is invalid: {reason}"


def shorten_value(value: object) -> str:
    """Return at most 60 characters of a value, for a message."""
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


_NAMES = {
    "tenant_id": "tenant",
    "agent_id": "writer",
    "chunk_id": "id",
    "old_chunk_id": "id",
    "new_text": "text",
    "chunks": "memories",
    "expires_at_ms": "expires",
    "review_after_ms": "review_after",
}
_DROPPED = frozenset(
    {
        *("debug_tiers", "oversample_factor", "expand_event_siblings", "compact", "include_text", "include_artifact"),
        *("include_matched_text", "candidate_multiplier", "dedupe_by_source", "render_event_time", "include_tiered"),
        *("include_recent", "include_examples", "include_history", "supersede_near_duplicates"),
    }
)
_MAX_TAG = 150
_ITEM_FIELDS = frozenset({"text", "type", "tags", "origin", "expires", "cues"})
_ADD_MODES = frozenset({"conversation", "document"})


def translate_memd_fields(operation: str, arguments: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """Return arguments with memd's fields replaced by ours, so that scripts and batches written for memd run unchanged.

    memd, another program that keeps memories, has the same operations and calls some fields by other names. Its names
    apply only to fields that the operation does not have; a field given under both names stays an error. A field that
    selects or limits what is returned is translated or refused, never ignored. Fields that only tune memd's own ranking or
    the shape of its replies are dropped. `project_id` is a name in memd and a directory here: a path is taken as one, and a
    name means the project of the caller's directory, because memd's projects have no directory.
    """
    ours = {name: value for name, value in arguments.items() if name in known}
    for name, value in arguments.items():
        if name in ours:
            continue
        renamed = _NAMES.get(name, "")
        if renamed in known and renamed not in arguments:
            ours[renamed] = _CONVERSIONS[name](value) if name in _CONVERSIONS else value
        elif value is None and name in _FORGIVEN:
            continue
        elif name in _TRANSLATIONS and isinstance(value, _TRANSLATIONS[name][0]):
            _add_fields(ours, name, _TRANSLATIONS[name][1](operation, value), known)
        elif name not in _DROPPED:
            ours[name] = value
    return ours


def _translate_items(value: Any) -> Any:
    """Return the memories of a batch with our fields. Their project is that of the batch."""
    if not isinstance(value, list):
        return value
    own = [
        {name: part for name, part in item.items() if name not in {"project_id", "tenant_id"}}
        if isinstance(item, dict)
        else item
        for item in value
    ]
    return [translate_memd_fields("memory.add", item, _ITEM_FIELDS) if isinstance(item, dict) else item for item in own]


def _add_fields(ours: dict[str, Any], name: str, fields: Mapping[str, Any], known: frozenset[str]) -> None:
    for target, value in fields.items():
        if target not in known or (target in ours and not isinstance(value, list)):
            raise UsageError(f"{name} is not supported here", hint="'lorelog ops OPERATION' lists the fields")
        ours[target] = [*ours.get(target, ()), *value] if isinstance(value, list) else value


def _project(_: str, value: str) -> dict[str, Any]:
    return {"project": value} if value.startswith(("/", "~", "./", "../")) else {}


def _mode(operation: str, value: str) -> dict[str, Any]:
    if value == "generic" or (operation.startswith("memory.add") and value in _ADD_MODES):
        return {}
    prefix = "context" if value == "brief_project" else "task" if value == "resume_task" else "artifact"
    name = "task.resume" if prefix == "task" else f"{prefix}.{value}"
    raise UsageError(f"mode {value!r} is not supported here", hint=f"call {name}, or leave out mode")


def _filters(_: str, value: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, content in value.items():
        if name == "episode_id" and isinstance(content, str):
            fields["tags"] = [f"episode:{content}"]
        elif name == "time_range" and isinstance(content, dict):
            fields |= {"since": _day(content.get("from")), "until": _day(content.get("to"))}
        else:
            fields[name] = content or None
    return {name: content for name, content in fields.items() if content is not None}


def _day(moment: object) -> str | None:
    """Return the day of memd's ISO moment. Days are the finest that memories are filtered by."""
    return moment[:10] if isinstance(moment, str) else None


def _day_of(milliseconds: Any) -> Any:
    if not isinstance(milliseconds, int):
        return milliseconds
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"{milliseconds} is not a time in milliseconds since 1970") from None


def _source(_: str, value: dict[str, Any]) -> dict[str, Any]:
    """Keep where a memory comes from as a tag, if it fits into one."""
    place = next((value[name] for name in ("path", "uri") if isinstance(value.get(name), str)), "")
    return (
        {"tags": [f"source:{place}"]} if place and len(place) <= _MAX_TAG and not any(map(str.isspace, place)) else {}
    )


_CONVERSIONS: Mapping[str, Callable[[Any], Any]] = {
    "chunks": _translate_items,
    "expires_at_ms": _day_of,
    "review_after_ms": _day_of,
}
_TRANSLATIONS: Mapping[str, tuple[type, Callable[[str, Any], dict[str, Any]]]] = {
    "project_id": (str, _project),
    "mode": (str, _mode),
    "filters": (dict, _filters),
    "source": (dict, _source),
    "episode_id": (str, lambda _, value: {"tags": [f"episode:{value}"]}),
}
_FORGIVEN = frozenset((*_NAMES, *_DROPPED, *_TRANSLATIONS))
"""Fields of memd that may be null in any call: some clients send every field they know."""
