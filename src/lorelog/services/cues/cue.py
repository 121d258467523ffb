"""Cues: when a memory is delivered to an agent, as text of the form `kind=value`.

| kind | value | matches |
|---|---|---|
| path | wildcard pattern or path | a file that the agent reads, edits or names in a command |
| command | wildcard pattern or first words | a command that the agent runs |
| tool | name, or a part of one | a tool that the agent calls: `linear` is a part of `mcp__linear__create_issue` |
| symbol | name, or names joined by dots | text that the agent writes or searches for |
| error | words, or a wildcard pattern | the output of a call |
| topic | words | a prompt that has these words |
| event | session-start, commit, test, e2e-test, failure | that moment |
| day | ISO date | sessions that start on that day or shortly after |

A value that would match nearly everything is refused: such a memory would be shown in every session.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct

from lorelog.core.errors import UsageError
from lorelog.hosts.tool_calls import EVERYDAY_TOOLS
from lorelog.light.cue_table import tool_names
from lorelog.light.wildcard import count_literals, has_wildcard

MAX_VALUE_CHARS = 200
MIN_PATTERN_LITERALS = 2
MIN_ERROR_LITERALS = 4
MIN_SYMBOL_CHARS = 3
CUE_EVENTS = ("session-start", "commit", "test", "e2e-test", "failure")
_NAME = r"[A-Za-z_$][\w$]*"
_SYMBOL = rf"{_NAME}(?:\.{_NAME})*"
_SYMBOL_SEPARATORS = r"::|#|->"


class CueKind(StrEnum):
    PATH = "path"
    COMMAND = "command"
    TOOL = "tool"
    SYMBOL = "symbol"
    ERROR = "error"
    TOPIC = "topic"
    EVENT = "event"
    DAY = "day"


_KINDS = frozenset(CueKind)


class Cue(Struct, frozen=True):
    """When a memory is delivered."""

    kind: CueKind
    value: str

    def __str__(self) -> str:
        return f"{self.kind.value}={self.value}"


@lru_cache(maxsize=8_192)
def parse_cue(text: str) -> Cue:
    """Return the cue of a text. Raise UsageError that says what is wrong with it."""
    kind, separator, value = text.partition("=")
    if not separator or kind.strip() not in _KINDS:
        hint = f"write KIND=VALUE; the kinds are {', '.join(CueKind)}"
        raise UsageError(f"{_shorten(text)} is not a cue", hint=hint)
    value = " ".join(value.split())
    if not value:
        raise UsageError(f"the cue {_shorten(text)} has no value", hint="such as path=src/db/** or command=npm *")
    if len(value) > MAX_VALUE_CHARS or not value.isprintable():
        raise UsageError(
            f"the cue {_shorten(text)} is not valid", hint=f"a cue is one line of at most {MAX_VALUE_CHARS} characters"
        )
    cue = CueKind(kind.strip())
    return Cue(cue, _check(cue, value))


def parse_cues(texts: Iterable[str]) -> tuple[str, ...]:
    """Return valid cues in their normal form, without duplicates. Raise UsageError for the first invalid one."""
    return tuple(dict.fromkeys(str(parse_cue(text)) for text in texts))


def read_cues(texts: Iterable[str]) -> tuple[Cue, ...]:
    """Return the valid cues among texts from a file; a file may contain anything."""
    cues: dict[Cue, None] = {}
    for text in texts:
        try:
            cues[parse_cue(text)] = None
        except UsageError:
            continue
    return tuple(cues)


def _check(kind: CueKind, value: str) -> str:
    """Return a value in its normal form. Raise UsageError if it is not one of the kind, or matches nearly everything."""
    literals, problem, hint = count_literals(value), "", ""
    if kind is CueKind.PATH:
        value = value.replace("\\", "/").removeprefix("./")
        if ".." in value.split("/") or value.startswith("~"):
            raise UsageError(
                f"the path {_shorten(value)} leads out of the project", hint="paths are relative to its root"
            )
        problem = "matches nearly every file" if literals < MIN_PATTERN_LITERALS else ""
        hint = "name a directory, a file or a suffix: src/db/**"
    elif kind is CueKind.COMMAND:
        is_broad = literals < MIN_PATTERN_LITERALS or has_wildcard(value.split(maxsplit=1)[0][:1])
        problem = "matches nearly every command" if is_broad else ""
        hint = "begin with the name of a program: npm *, git push --force"
    elif kind is CueKind.TOOL:
        value = value.lower()
        names = tool_names(value)
        is_broad = all(name in EVERYDAY_TOOLS or len(name) < MIN_SYMBOL_CHARS for name in names)
        problem = "names a tool of nearly every task" if is_broad else ""
        hint = "a name of an MCP server or tool, such as linear"
    elif kind is CueKind.SYMBOL:
        value = re.sub(_SYMBOL_SEPARATORS, ".", value).removesuffix("()")
        is_name = re.fullmatch(_SYMBOL, value) and len(value) >= MIN_SYMBOL_CHARS
        problem = "" if is_name else "cannot be a symbol"
        hint = f"a name of at least {MIN_SYMBOL_CHARS} characters, such as ConnectionPool or pool.acquire"
    elif kind is CueKind.ERROR:
        is_broad = max(map(count_literals, value.split("*"))) < MIN_ERROR_LITERALS
        problem = "matches nearly every output" if is_broad else ""
        hint = "give its type or the fixed part of its message"
    elif kind is CueKind.TOPIC:
        problem, hint = "is too short" if literals < MIN_ERROR_LITERALS else "", "a few words: database migrations"
    elif kind is CueKind.EVENT:
        problem, hint = "" if value in CUE_EVENTS else "does not exist", f"the events are {', '.join(CUE_EVENTS)}"
    else:
        try:
            value = date.fromisoformat(value).isoformat()
        except ValueError:
            problem, hint = "is not a day", "write it as 2026-12-31"
    if problem:
        raise UsageError(f"the {kind.value} {_shorten(value)} {problem}", hint=hint)
    return value


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:79] + "…")
