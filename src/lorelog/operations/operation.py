"""What an operation is: a name, a typed request, a handler, and the JSON of its answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from lorelog.core.errors import LorelogError
from lorelog.core.ports import Progress
from lorelog.engine import Engine
from lorelog.operations.meter import Meter
from lorelog.operations.requests import Request

Asked = TypeVar("Asked", bound=Request)
Answer = TypeVar("Answer")

SURFACES = ("cli", "python", "http", "mcp")
"""Where an operation may be asked for. `call` and `batch` of the shell reach every one of them."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a handler should know of whoever asks."""

    directory: str
    """Where their relative paths start."""
    own: bool = True
    """Whether they may name files of this machine to be read."""
    progress: Progress | None = None
    meter: Meter = field(default_factory=Meter)
    """What this process has counted."""
    aside: Callable[[], AbstractContextManager[object]] = nullcontext
    """Lets other writers go before, while one that has its turn does something that takes long."""


@dataclass(frozen=True, slots=True)
class Operation(Generic[Asked, Answer]):
    """A verb. Its handler returns values, for Python; `show` makes JSON of them, for everyone else."""

    name: str
    request: type[Asked]
    reply: type
    """The typed dictionary that describes what `show` makes."""
    handle: Callable[[Engine, Asked, Call], Answer]
    show: Callable[[Answer, Asked], Mapping[str, Any]]
    errors: tuple[type[LorelogError], ...] = ()
    """What it may raise beyond a wrong request, wrong settings and an index that cannot be read."""
    writes: bool = False
    """Whether it waits for its turn among those who write."""
    warms: bool = False
    """Whether it is worth starting a daemon for."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Surfaces on which it cannot be asked for, each with the reason."""

    @property
    def summary(self) -> str:
        """One line that says what it does."""
        return self.text.partition("\n")[0]

    @property
    def text(self) -> str:
        """All that there is to say about it."""
        return inspect.cleandoc(self.handle.__doc__ or "")
