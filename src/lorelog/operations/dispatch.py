"""From a name and JSON to an answer in JSON: the one way in for shell, batch, HTTP and MCP.

The caller says where they stand; nothing here looks at this process's own directory or environment, because in the
daemon both are somebody else's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from lorelog.core.errors import LorelogError, UsageError
from lorelog.core.ports import Progress
from lorelog.engine import Engine
from lorelog.operations.catalogue import find_operation
from lorelog.operations.meter import Meter
from lorelog.operations.operation import Call, Operation
from lorelog.operations.requests import Request
from lorelog.operations.turns import Turns
from lorelog.services.traces.recording import Called, note_call
from lorelog.wiring import Standpoint, open_engine, standpoint

_OPTIONAL: dict[type[Request], frozenset[str]] = {}

Open = Callable[[Standpoint, Mapping[str, object]], AbstractContextManager[Engine]]


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever asks: their directory, and what their environment says."""

    directory: str
    environment: Mapping[str, str] = field(default_factory=dict)
    home: str | None = None
    """Where the index lives; LORELOG_HOME of the environment, or ~/.lorelog, if not given."""
    own: bool = True
    """Whether it is a process of the person whose machine it is; others may not name files to be read."""


class Dispatcher:
    """Answers calls. `engine_at` says how an engine comes about: anew for each call, or from what a daemon holds."""

    def __init__(self, engine_at: Open = open_engine) -> None:
        self._engine_at = engine_at
        self._turns = Turns()
        self.meter = Meter()

    def call(self, name: str, arguments: object, caller: Caller, progress: Progress | None = None) -> dict[str, Any]:
        """Carry out an operation. Raise LorelogError for everything that a person can do something about."""
        operation = find_operation(name)
        started = time.perf_counter()
        failed = True
        try:
            try:
                request = read_request(operation, arguments)
            except UsageError as error:
                self._note_refusal(operation, arguments, caller, error)
                raise
            with self._engine_for(request, caller) as engine:
                call = Call(caller.directory, caller.own, progress, self.meter)
                try:
                    shape = self._carry_out(engine, operation, request, call)
                except BaseException as error:
                    _note(engine, Called(operation.name, arguments, time.perf_counter() - started, error))
                    raise
                _note(engine, Called(operation.name, arguments, time.perf_counter() - started, shape))
            failed = False
        finally:
            self.meter.count(operation.name, time.perf_counter() - started, failed=failed)
        return shape

    def _engine_for(self, request: Request, caller: Caller) -> AbstractContextManager[Engine]:
        here = standpoint(
            home=caller.home,
            project=request.project,
            directory=caller.directory,
            environment=caller.environment,
            tenant=request.tenant,
        )
        flags = {"scope.tenant": request.tenant}
        if not caller.own:
            flags["records.identity"] = ""  # a stranger has nothing signed with this person's key
        return self._engine_at(here, flags)

    def _carry_out(
        self, engine: Engine, operation: Operation[Any, Any], request: Request, call: Call
    ) -> dict[str, Any]:
        if not operation.writes:
            return dict(operation.show(operation.handle(engine, request, call), request))
        with self._turns.take(engine.place.tenant_folder, call.progress) as turn:
            reply = operation.handle(engine.with_embedder(turn.polite), request, replace(call, aside=turn.aside))
        return dict(operation.show(reply, request))

    def _note_refusal(
        self, operation: Operation[Any, Any], arguments: object, caller: Caller, error: UsageError
    ) -> None:
        """Note a call that was asked for wrongly, where its caller stands: for whom it was meant cannot be told."""
        with suppress(LorelogError), self._engine_for(Request(), caller) as engine:
            _note(engine, Called(operation.name, arguments, 0.0, error))


def _note(engine: Engine, called: Called) -> None:
    note_call(engine.traces, engine.place.project.id, called)


def read_request(operation: Operation[Any, Any], arguments: object) -> Request:
    """Return the typed request of a JSON object. Raise UsageError that names the field and what it takes."""
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, Mapping):
        raise UsageError(
            f"the arguments of {operation.name} must be a JSON object", hint=f"lorelog ops {operation.name}"
        )
    # A field that is null is as good as not given: many clients write all fields they know. Where null means something
    # of its own, the field's default says that it was not given.
    known = _optional(operation.request)
    given = {key: value for key, value in arguments.items() if value is not None or key not in known}
    try:
        request: Request = msgspec.convert(given, operation.request)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{operation.name}: {_said(error, operation, given)}", hint=f"lorelog ops {operation.name}"
        ) from None
    except (ValueError, TypeError, RecursionError) as error:
        raise UsageError(f"{operation.name}: {error}") from None
    return request


def _optional(request: type[Request]) -> frozenset[str]:
    """Return the fields of a request for which null is as good as nothing; msgspec looks at all its types to tell."""
    if request not in _OPTIONAL:
        known = msgspec.structs.fields(request)
        _OPTIONAL[request] = frozenset(one.name for one in known if one.default is not msgspec.UNSET)
    return _OPTIONAL[request]


def _said(error: msgspec.ValidationError, operation: Operation[Any, Any], given: Mapping[str, object]) -> str:
    from difflib import get_close_matches

    from lorelog.records.kinds import COMPUTED

    known = [one.name for one in msgspec.structs.fields(operation.request)]
    unknown = [name for name in given if name not in known]
    if not unknown:
        what, _, where = str(error).partition(" - at `$.")
        value = None if what.startswith("Invalid enum value") else given.get(where.rstrip("`"))
        return what if not where else f"{what} in `{where}" + ("" if value is None else f", not {_short(value)}")
    if unknown[0] in COMPUTED:
        return f"there is no field {unknown[0]!r}: what a record is worth is computed from the ledger"
    near = get_close_matches(str(unknown[0]), known, n=1)
    return f"there is no field {str(unknown[0])[:100]!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
