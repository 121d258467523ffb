"""Python's tracebacks: chained ones, groups, and syntax errors, which have no stack.

The innermost frame stands last, and so does the error that came out of a chain; both are turned round. Between two parts of a
chain stands a sentence of its own. Members of a group are drawn with a margin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lorelog.core.trace import Frame, StackTrace
from lorelog.ingest.stacks_block import Block, Step, chained, cut, number

_HEAD = re.compile(r"\s*(?:\+ )?(?:Exception Group )?Traceback \(most recent call (?:last|first)\):\s*$")
_GROUP = re.compile(r"\s*\+ Exception Group Traceback")
_MARGIN = re.compile(r"^\s*[|+](?:-\+)?(?P<rest>.*)$")
_CLOSED = re.compile(r"^\s*\+-{10,}\s*$")
_MEMBER = re.compile(r"^-*\+?-{3,} ?(?:\d+|\.\.\.) ?-{3,}$|^-{10,}$")
_FRAME = re.compile(r'^\s*File "(?P<file>[^"\n]*)", line (?P<line>\d+)(?:, in (?P<function>.+?))?\s*$')
_PLACE = re.compile(r'^\s*File "[^"\n]+", line \d+\s*$')
_ERROR = re.compile(r"^(?P<type>[A-Za-z_][\w.]*(?:\[[\w., ]+\])?)(?::(?: (?P<message>.*))?)?$")
_ERROR_NAME = re.compile(
    r"(?:Error|Exception|Exit|Interrupt|Iteration|Warning|Group|Failed|Skipped|Timeout|Cancelled)\b|^[A-Z]\w*$|\."
)
_SYNTAX = re.compile(r"^(?P<type>SyntaxError|IndentationError|TabError): (?P<message>.*)$")
_BETWEEN = re.compile(
    r"^\s*(?:The above exception was the direct cause of the following exception:|"
    r"During handling of the above exception, another exception occurred:)\s*$"
)
_STARTS = re.compile(r"Traceback|^\s*File \"|[Ee]rror|ERROR|Exception|panic|FAILED|^\s+at |^(?:===|___|---)|^[$>#] ")
"""What does not go on with a message, but begins something else."""
_CONTINUES = 6
"""Further lines of a message that are taken."""
_SYNTAX_LINES = 8


def open_python(body: str) -> Block | None:
    """Return a block that begins with this line."""
    if "Traceback (most recent" in body and _HEAD.match(body):
        return PythonBlock(body)
    if 'File "' in body and _PLACE.match(body):
        return SyntaxBlock(body)
    return None


class PythonBlock(Block):
    """A traceback or a group of errors, with those that it came from."""

    def __init__(self, body: str) -> None:
        super().__init__(body if _GROUP.match(body) else body.strip())
        self._margin = 0 if _GROUP.match(body) else len(body) - len(body.lstrip())
        self._blank = self._more = 0
        self._announces = False
        self._take_part = self._in_group if _GROUP.match(body) else self._in_stack

    def take(self, body: str) -> Step:
        """Take frames until an error's line, and then what another part of the chain would begin with."""
        return self._take_part(body[min(self._margin, len(body) - len(body.lstrip())) :])

    def _in_stack(self, body: str) -> Step:
        if body[:1] in {" ", "\t"}:
            return self.keep(body)
        found = _ERROR.match(body)
        if found and (found["message"] is not None or _ERROR_NAME.search(found["type"])):
            self._end_part()
            return self.keep(body)
        return Step.FOREIGN

    def _in_group(self, body: str) -> Step:
        if _MARGIN.match(body):
            if _CLOSED.match(body):
                self._end_part()
            return self.keep(body)
        return Step.FOREIGN  # the further lines of a message have no margin

    def _end_part(self) -> None:
        self._blank = self._more = 0
        self._announces = False
        self._take_part = self._after_error

    def _after_error(self, body: str) -> Step:
        if not body.strip():
            self._blank += 1
            return Step.OVER if self._blank > 2 else Step.TAKEN
        if _BETWEEN.match(body):
            self._announces, self._blank = True, 0
            return self.keep(body)
        if self._announces and _HEAD.match(body):
            self._take_part = self._in_group if _GROUP.match(body) else self._in_stack
            return self.keep(body)
        if self._more < _CONTINUES and not (self._blank or self.is_apart or _STARTS.search(body)):
            self._more += 1
            return self.keep(body)
        return Step.OVER

    def trace(self) -> StackTrace | None:
        """Return the last error of the chain, with those it came from as causes; the members of a group are causes, too."""
        parts: list[list[str]] = [[]]
        for line in self.lines:
            if _BETWEEN.match(line):
                parts.append([])
            else:
                parts[-1].append(line)
        return chained(one for part in reversed(parts) for one in _errors(part))


class SyntaxBlock(Block):
    """A file that could not be parsed: a place, the line, a caret, and the error."""

    def __init__(self, body: str) -> None:
        super().__init__(body)
        self._ended = False

    def take(self, body: str) -> Step:
        """Take the line and its caret, and the error, which ends it."""
        if _SYNTAX.match(body.strip()):
            self._ended = True
            self.keep(body)
            return Step.LAST
        if body[:1] in {" ", "\t"} and len(self.lines) < _SYNTAX_LINES:
            return self.keep(body)
        return Step.OVER

    def trace(self) -> StackTrace | None:
        """Return it, if the error came."""
        return _read(self.lines) if self._ended else None


def _errors(part: Sequence[str]) -> Iterator[StackTrace]:
    """Yield the error of a part; of a group its members, too."""
    members: list[list[str]] = [[]]
    is_group = any(_GROUP.match(line) for line in part[:2])
    for line in part:
        bare = _bare(line) if is_group else line
        if is_group and _MEMBER.match(bare.strip()):
            members.append([])
        else:
            members[-1].append(bare)
    yield from (one for one in map(_read, members) if one is not None)


def _read(lines: Sequence[str]) -> StackTrace | None:
    """Return the error of one part, whose frames stand before it, outermost first."""
    frames: list[Frame] = []
    said: list[str] = []
    kind = ""
    for line in lines:
        found = _FRAME.match(line)
        if found and not kind:
            frames.append(Frame(found["function"] or "", found["file"], number(found["line"])))
            continue
        error = None if kind else _error(line, bool(frames))
        if error:
            kind = error["type"]
            said.append(error["message"] or "")
        elif kind and line.strip():
            said.append(line.strip())
    if not kind:
        return None
    return StackTrace("python", kind, cut("\n".join(said)), tuple(reversed(frames)))


def _error(line: str, has_frames: bool) -> re.Match[str] | None:  # noqa: FBT001
    """Return an error's line; before any frame only what names an error is one."""
    if line[:1] in {" ", "\t"} or _HEAD.match(line):
        return None
    found = _ERROR.match(line.rstrip())
    if found and (has_frames or _ERROR_NAME.search(found["type"])):
        return found
    return None


def _bare(line: str) -> str:
    """Return a line of a group without all of its margins."""
    found = _MARGIN.match(line)
    while found:
        rest = found["rest"]
        inner = rest[1:] if rest[:1] == " " else rest
        found = _MARGIN.match(inner) if inner.lstrip()[:1] in {"|", "+"} else None
        line = inner
    return line
