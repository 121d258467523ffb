"""Commands that keep failing, and what was run instead: counted over sessions, without a model.

The unit is the shape of a command: its words with names, numbers and quotes masked, options kept. The remedy of a failed
command is the next command of the session that passed, is another one, and has mostly the same words, before any file
was written: then the command was wrong, not the code. A shape is known to fail if it failed in at least two
sessions, in more than it passed in, in the same way, and most of them went on with the same remedy.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import groupby, takewhile

from msgspec import Struct

from lorelog.core.ports import group_by
from lorelog.ingest.transcripts.actions import REJECTED
from lorelog.light.shell_command import split_command
from lorelog.services.traces.tables import TURN, TracedAction, TracedCall, TraceFilter, TraceTables

MIN_SESSIONS = 2
_MAX_CALLS = 50_000
_MAX_LATER_CALLS = 6
"""Calls after a failure among which its remedy is looked for."""
_MIN_SHARED_WORDS = 0.5
_MASKED = re.compile(r"[\w.@~-]*[/\\].*|\d[\w.,:-]*|[0-9a-f]{7,40}|.*\s.*|.+\.\w{1,5}|.{41,}")
"""Words that are masked: paths, numbers, hashes, quoted text, file names, long words."""
_ERROR_NOISE = re.compile(r"\d+|0x[0-9a-f]+|(?:/|[A-Za-z]:\\)\S+")
_FILTERS = frozenset(("tail", "head", "tee", "grep", "cat", "less", "sed", "awk", "echo", "true"))
_CANCELLED = "Sibling tool call errored"
"""What a host says of a call that it did not run because another one had failed."""
_EXIT_LINE = re.compile(
    r"\$ |(?:Error: )?(?:Exit code:?|Process exited with code|Command failed)\b.{0,20}$", re.IGNORECASE
)
"""Lines that say nothing of the error: the exit status, and a script's command, which its runner prints."""
_MAX_ERROR_CHARS = 80


class Remedy(Struct, frozen=True, kw_only=True):
    """A shape of command that keeps failing, and the command that passed instead."""

    shape: str
    """Its words; `*` stands for a masked one."""
    command: str
    """The remedy, as it was run last."""
    sessions: int
    """Sessions in which the shape failed this way,"""
    remedied: int
    """and those of them in which the remedy passed."""
    error: str
    last: int
    """Time of the last failure, milliseconds since 1970."""

    def text(self) -> str:
        """Return what an agent is told before it runs such a command."""
        day = datetime.fromtimestamp(self.last / 1000, UTC).astimezone().date()
        why = f" ({self.error})" if self.error else ""
        return (
            f"`{self.shape}` failed in {self.sessions} earlier sessions{why}, last on {day}; "
            f"`{self.command}` passed instead in {self.remedied} of them."
        )


class _Failure(Struct, frozen=True):
    session: str
    shape: str
    error: str
    at: int
    remedy: str
    command: str


def find_remedies(calls: Iterable[TracedCall | TracedAction]) -> list[Remedy]:
    """Return the shapes that keep failing and have a remedy, most frequent first. `calls` are in order of time."""
    finished = (call for call in calls if not is_cancelled(call))
    by_session = group_by(finished, lambda call: call.session)
    passed: Counter[str] = Counter()
    failures: list[_Failure] = []
    for session in by_session.values():
        shapes = [command_shape(call.command) for call in session]
        passed.update({shape for shape, call in zip(shapes, session, strict=True) if shape and not call.failed})
        failures += _failures(session, shapes)
    failures.sort(key=lambda failure: (failure.shape, failure.error, failure.at))
    groups = (list(group) for _, group in groupby(failures, key=lambda failure: (failure.shape, failure.error)))
    found = [remedy for group in groups if (remedy := _judge(group, passed)) is not None]
    return sorted(found, key=lambda remedy: -remedy.sessions)


def is_cancelled(call: TracedCall | TracedAction) -> bool:
    """Return whether a call never ran: it fails, but says nothing of its command."""
    return call.failed and (_CANCELLED in call.error[:100] or call.error == REJECTED)


def _failures(session: list[TracedCall | TracedAction], shapes: list[str]) -> Iterator[_Failure]:
    """Yield the first failure of each shape of a session, with its remedy."""
    known: set[str] = set()
    for number, (call, shape) in enumerate(zip(session, shapes, strict=True)):
        if not call.failed or not shape or shape in known:
            continue
        known.add(shape)
        remedy = command = ""
        for later, other in zip(session[number + 1 :], shapes[number + 1 :][:_MAX_LATER_CALLS], strict=False):
            if later.files:
                break
            if other and not later.failed and other != shape and _is_alike(shape, other):
                remedy, command = other, later.command
                break
        yield _Failure(call.session, shape, error_kind(call.error), call.at, remedy, command)


def _judge(failures: list[_Failure], passed: Counter[str]) -> Remedy | None:
    """Return the remedy of failures of one shape in the same way; None if there is none."""
    shape, sessions = failures[0].shape, len({failure.session for failure in failures})
    remedies = Counter(failure.remedy for failure in failures if failure.remedy)
    if sessions < MIN_SESSIONS or passed[shape] >= sessions or not remedies:
        return None
    remedy, count = remedies.most_common(1)[0]
    if 2 * count <= sessions:
        return None
    command = next(failure.command for failure in reversed(failures) if failure.remedy == remedy)
    return Remedy(
        shape=shape, command=command, sessions=sessions, remedied=count, error=failures[-1].error, last=failures[-1].at
    )


def command_shape(command: str) -> str:
    """Return the shape of a command; empty for several commands, of which the failed one is not known."""
    simple = _simple_commands(command)
    return " ".join([simple[0][0], *map(_mask, simple[0][1:])]) if len(simple) == 1 else ""


def command_form(command: str) -> str:
    """Return what stays the same of a command line when it is run again for the same purpose.

    These are the shapes of its commands, without redirections, without the filters of their output, and with one mask for several.
    """
    simple = enumerate(_simple_commands(command))
    kept = [words for number, words in simple if words[0] not in _FILTERS or (number == 0 and len(words) > 1)]
    masked = ([words[0], *map(_mask, words[1:])] for words in kept)
    return " && ".join(" ".join(word for word, _ in groupby(words)) for words in masked)


def _simple_commands(command: str) -> list[list[str]]:
    """Return the words of each command up to its redirections."""
    simple = (list(takewhile(lambda word: word[:1] not in ("<", ">"), words)) for words in split_command(command))
    return [words for words in simple if words and words[0] not in ("cd", "export", "source")]


def _mask(word: str) -> str:
    return "*" if not word or _MASKED.fullmatch(word) else word


def error_kind(error: str) -> str:
    """Return what is the same of an error when it occurs again: its first line without numbers and paths."""
    lines = (line.strip() for line in error.splitlines())
    line = next((line for line in lines if line and not _EXIT_LINE.match(line)), "")
    return " ".join(_ERROR_NOISE.sub("…", line).split())[:_MAX_ERROR_CHARS]


def _is_alike(shape: str, other: str) -> bool:
    words, others = set(_parts(shape)), set(_parts(other))
    return len(words & others) >= _MIN_SHARED_WORDS * max(len(words), len(others))


def _parts(shape: str) -> Iterator[str]:
    for word in shape.split():
        yield from filter(None, re.split(r"[:=]", word))


def project_remedies(tables: TraceTables, project: str) -> list[Remedy]:
    calls, _ = tables.calls(TraceFilter(projects=(project,), source=TURN, limit=_MAX_CALLS))
    return find_remedies(reversed(calls))
