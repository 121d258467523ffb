"""Definition of an operation: its name, request, handler and reply, and what the surfaces need to know about it."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import Any, Generic, TypeVar

from msgspec import Struct, field

from lorelog.core.errors import LorelogError
from lorelog.core.policy import RIGHTS, Caller, Permission, Right, check_right
from lorelog.core.ports import Progress
from lorelog.core.serializable import Serializable, json_type
from lorelog.engine import Engine
from lorelog.operations.requests import OperationRequest

RequestT = TypeVar("RequestT", bound=OperationRequest)
ValueT = TypeVar("ValueT")

Handler = Callable[[Engine, RequestT, "RequestContext"], ValueT]

SURFACES = ("cli", "python", "http", "mcp")
"""Surfaces on which an operation may be available. `lorelog call` and `lorelog batch` reach all operations."""


Json = dict[str, Any]


class OperationReply(Serializable, Struct, frozen=True, kw_only=True):
    """Base of replies. Every field is in the JSON."""


class SparseReply(OperationReply, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """Base of replies whose empty fields are left out of the JSON."""


ReplyT = TypeVar("ReplyT", bound=Struct)


def reply_from(value: object, reply: type[ReplyT], /, **changed: Any) -> ReplyT:
    """Return a reply that takes the fields in `changed` as given and all others from attributes of the same name."""
    same = {name: getattr(value, name) for name in reply.__struct_fields__ if name not in changed}
    return reply(**same, **changed)


_MAX_DURATIONS = 1_000
"""Durations kept per operation. Percentiles cover the most recent calls, and memory stays bounded."""


class OperationLatency(OperationReply, frozen=True):
    """Calls of one operation, with latency percentiles of the most recent ones in milliseconds."""

    op: str
    count: int
    errors: int
    p50_ms: float
    p90_ms: float
    p99_ms: float


class Meter(Struct):
    """The counters of one process. Thread-safe."""

    started: float = field(default_factory=time.monotonic)
    _lock: Lock = field(default_factory=Lock)
    _counts: Counter[str] = field(default_factory=Counter)
    _errors: Counter[str] = field(default_factory=Counter)
    _recent: defaultdict[str, deque[float]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=_MAX_DURATIONS))
    )

    def count(self, op: str, seconds: float, *, failed: bool) -> None:
        with self._lock:
            self._counts[op] += 1
            self._errors[op] += failed
            self._recent[op].append(seconds)

    def latencies(self) -> tuple[OperationLatency, ...]:
        """Return the counters by operation. A percentile is the duration that so many calls did not exceed."""
        with self._lock:
            recent = {op: sorted(self._recent[op]) for op in sorted(self._counts)}
            return tuple(
                OperationLatency(
                    op=op,
                    count=self._counts[op],
                    errors=self._errors[op],
                    **{
                        f"p{percent}_ms": round(times[int(percent / 100 * len(times))] * 1000, 3)
                        for percent in (50, 90, 99)
                    },
                )
                for op, times in recent.items()
            )


class ShellCommand(Struct, frozen=True):
    """A command that calls an operation. Its options are derived from the fields of the request (`scripts/derive_options.py`)."""

    words: str
    """The command, and its verb if it has one: `task start`."""
    positional: tuple[str, ...] = ()
    """Fields without an option, in order. `query...` takes any number of words, `id?` may be left out."""
    options: Mapping[str, str] = {}
    """Options of fields that are not called like the field: `-c --context`; of a flag `--yes/--no`, or `/--no`."""
    hidden: tuple[str, ...] = ()
    """Fields that the command does not offer."""
    offered: tuple[str, ...] = ()
    """If given, the command offers these fields and those that `positional` and `options` name, and no other."""
    metavars: Mapping[str, str] = {}
    helps: Mapping[str, str] = {}
    """Help of fields whose description does not fit the option: `/--no`, or an argument that has a default in the shell."""
    defaults: Mapping[str, Any] = {}
    """Values that the command sends if an option is not given, where they differ from the request's."""
    summary: str = ""
    """Help of a verb, unless it is the operation's summary."""


class RequestContext(Struct, frozen=True):
    """Properties of a call that handlers need beside the request."""

    directory: str
    """Base of the client's relative paths."""
    own: bool = True
    """True for a process of this machine's user."""
    names_files: bool = True
    """True if the client may name files of this machine to read: the shell and Python, not HTTP and MCP."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The client's environment."""
    caller: Caller = Caller.TERMINAL
    agent: str = ""
    """Name of the agent that calls; empty for a person, as far as that can be told (see `core.caller`)."""
    progress: Progress | None = None
    meter: Meter = field(default_factory=Meter)
    """Counters of this process."""
    yield_write_slot: Callable[[], AbstractContextManager[object]] = nullcontext
    """Releases the write slot during slow work, so that other writers can proceed."""
    find_operation: Callable[[str], Any] = lambda name: None
    """Returns another operation, for one that was proposed and is approved now."""

    def check(self, right: str, does: str = "") -> None:
        """Raise Forbidden unless the caller has a further right, which these arguments need."""
        check_right(right, self.caller, self.agent, does)


class Operation(Struct, Generic[RequestT, ValueT], frozen=True):
    """One operation. The handler's docstring is its help text on every surface.

    The handler returns the value that a service returned. Its fields are those of the JSON, unless a function declares
    another form (`core.serializable.shows_as_json`).
    """

    name: str
    request: type[RequestT]
    reply: type
    """Type of the value."""
    handler: Callable[[Engine, RequestT, RequestContext], ValueT]
    errors: tuple[type[LorelogError], ...] = ()
    """Errors besides those of every operation: an invalid request, invalid settings, an unreadable index, and of every
    write: an index that is busy or cannot be written."""
    writes: bool = False
    """True if calls wait for the write slot of their tenant."""
    once: bool = False
    """True if repeating a call does harm: a client that lost the connection must not send it again."""
    warms: bool = False
    """True if a call should start the daemon."""
    pure: bool = False
    """True if a call changes nothing, and another process may answer for the daemon."""
    commands: tuple[ShellCommand, ...] = ()
    """Commands that call it."""
    needs: str = ""
    """The right that a caller needs (`core.policy`): `write` or `read` if not given."""

    @property
    def right(self) -> Right:
        """Who may call it."""
        return RIGHTS[self.needs or ("write" if self.writes else "read")]

    @property
    def absent(self) -> dict[str, str]:
        """Surfaces without this operation, each with the reason."""
        callers = {"http": Caller.BEARER, "mcp": Caller.MCP}
        return {
            name: self.right.why for name, caller in callers.items() if self.right.permission(caller) is Permission.NO
        }

    @property
    def json_type(self) -> Any:
        """Type whose fields are those of the JSON; the JSON Schema is generated from it."""
        return json_type(self.reply)

    @property
    def summary(self) -> str:
        """First line of the help text."""
        return self.description.partition("\n")[0]

    @property
    def description(self) -> str:
        """The help text."""
        from inspect import cleandoc

        return cleandoc(self.handler.__doc__ or "")


class OperationFamily(dict[str, Operation[Any, Any]]):
    """The operations of one module by name, each declared at its handler."""

    def declare(
        self, name: str, *commands: ShellCommand, **properties: Any
    ) -> Callable[[Handler[RequestT, ValueT]], Handler[RequestT, ValueT]]:
        """Declare the operation whose handler follows: its annotations name the request and the reply. `properties` are its further fields."""

        def add(handler: Handler[RequestT, ValueT]) -> Handler[RequestT, ValueT]:
            known, annotations = handler.__globals__, handler.__annotations__
            request, reply = known[annotations["request"]], known[annotations["return"]]
            self[name] = Operation(name, request, reply, handler, commands=commands, **properties)
            return handler

        return add
