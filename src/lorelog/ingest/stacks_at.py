"""Stacks whose frames begin with `at`: JavaScript, Java and C#.

The error stands before its frames, with however many lines of message, so a block is opened by its first frame and looks back.
Which language it is, the frame's own form tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lorelog.core.trace import Frame, StackTrace
from lorelog.ingest.stacks_block import Block, Step, chained, cut, number

LOOKS_BACK = 12
"""Lines before the first frame in which its error is looked for."""
_AT = re.compile(r"^\s*at \S")
_JAVA = re.compile(
    r"^\s*at (?:[\w.@$/-]+//?)?(?P<function>[\w$.<>/-]+\.[\w$<>]+)\((?:(?P<file>[\w$.-]+\.(?:java|kt|scala|groovy|clj)):(?P<line>\d+)|"
    r"(?P<other>[\w$.-]+\.(?:java|kt|scala|groovy|clj)|Native Method|Unknown Source|<generated>))\)"
)
_CSHARP = re.compile(r"^\s*at (?P<function>[\w.`<>+\[\], ]+?\([^)]*\))(?: in (?P<file>.+?):line (?P<line>\d+))?\s*$")
_SCRIPT = re.compile(
    r"^\s*at (?:async )?(?:(?:new )?(?P<function>[^()\n]{1,300}?) \((?:eval at [^\n]*, )?(?P<file>[^()\n]*?):(?P<line>\d+):(?P<column>\d+)\)|"
    r"(?P<bare>[^()\s]+):(?P<bare_line>\d+):(?P<bare_column>\d+)|(?P<native>[^()\n]{1,300}?) \((?:native|<anonymous>|index \d+)\)|"
    r"(?P<anonymous><anonymous>))[ {]*$"
)
_INTERNAL = re.compile(r"^(?:node:|internal/|jdk\.internal\.|sun\.reflect\.|java\.base/jdk\.internal\.)")
_TYPE = r"(?:[A-Za-z_$][\w$]*[./])*[A-Za-z_$][\w$]*"
_NAMED = re.compile(
    r"(?:^|\s)(?P<type>(?:[A-Za-z_$][\w$]*[./])*[\w$]*(?:Error|Exception|Throwable|Failure|Fault|Rejection|Timeout)[\w$]*)"
    r"(?: \[(?P<code>[\w]+)\])?(?:$|:(?:\s+(?P<message>.*))?$)"
)
_SAID = re.compile(rf"^(?:Uncaught )?(?P<type>{_TYPE}): (?P<message>.+)$")
_CAUSE = re.compile(
    rf"^\s*(?:Caused by: |\[cause\]: |---> |Suppressed: )(?P<type>{_TYPE})(?: \[\w+\])?(?:: (?P<message>.*?))?[ {{]*$"
)
_PASSED = re.compile(
    r"^\s*\.\.\. (?:\d+ (?:more|common frames omitted|lines matching cause stack trace)|.*more)|^\s*--- End of "
)
_GOES_ON = 5
_PROPERTIES = 40


def open_at(body: str, before: Sequence[str]) -> Block | None:
    """Return a block that begins with this frame, and with what stands before it, the nearest last."""
    if not _AT.match(body) or _frame(body) is None:
        return None
    head = _head(before[-LOOKS_BACK:])
    return AtBlock(body, head) if head else None


class AtBlock(Block):
    """An error with frames, and what caused it."""

    def __init__(self, body: str, head: Sequence[str]) -> None:
        super().__init__(*head, body)
        self.reach = self._heads = len(head)
        self._message = 0
        self._properties = _PROPERTIES if body.rstrip().endswith("{") else 0

    def take(self, body: str) -> Step:
        """Take frames and causes, and the further lines of a cause's message."""
        if _AT.match(body) or _PASSED.match(body):
            self._message = 0
            self._properties = self._properties or (_PROPERTIES if body.rstrip().endswith("{") else 0)
            return self.keep(body)
        if _CAUSE.match(body):
            self._message = _GOES_ON
            return self.keep(body)
        if self._properties:  # what node shows of an error's own fields
            self._properties -= 1
            if body.rstrip() == "}":
                return Step.LAST
            return Step.TAKEN if body[:1] in {" ", "\t"} or not body.strip() else Step.OVER
        if self._message:
            self._message -= 1
            return self.keep(body)
        return Step.OVER

    def trace(self) -> StackTrace | None:
        """Return it, its causes in the order they are told."""
        return chained(self._parts())

    def _parts(self) -> Iterator[StackTrace]:
        said, frames = list(self.lines[: self._heads]), list[Frame]()
        language = "javascript"
        for line in self.lines[self._heads :]:
            if _CAUSE.match(line):
                yield _told(language, said, frames)
                said, frames = [line], []
                continue
            found = _frame(line)
            if found is not None:
                language = found[0]
                frames += [] if _INTERNAL.match(found[1].file) or _INTERNAL.match(found[1].function) else [found[1]]
            elif not frames and not _PASSED.match(line):
                said.append(line)
        yield _told(language, said, frames)


def _frame(line: str) -> tuple[str, Frame] | None:
    """Return a frame and its language."""
    found = _JAVA.match(line)
    if found:
        return "java", Frame(found["function"], found["file"] or "", number(found["line"]))
    found = _SCRIPT.match(line)
    if found:
        if found["bare"]:
            place = (_file(found["bare"]), number(found["bare_line"]), number(found["bare_column"]))
            return "javascript", Frame("", *place)
        name = found["function"] or found["native"] or found["anonymous"] or ""
        place = (_file(found["file"] or ""), number(found["line"]), number(found["column"]))
        return "javascript", Frame(name.strip(), *place)
    found = _CSHARP.match(line)
    if found:
        return "csharp", Frame(found["function"].partition("(")[0], found["file"] or "", number(found["line"]))
    return None


def _file(path: str) -> str:
    return path.removeprefix("file://")


def _head(before: Sequence[str]) -> list[str]:
    """Return the lines of an error and its message that frames follow; none where nothing there tells of one."""
    for back in range(1, len(before) + 1):
        line = before[-back]
        if _AT.match(line):
            break
        if _NAMED.search(line) or _CAUSE.match(line):
            return list(before[-back:])
    last = before[-1] if before else ""
    return [last] if last.strip() and _SAID.match(last.strip()) else []


def _told(language: str, said: Sequence[str], frames: Sequence[Frame]) -> StackTrace:
    """Return an error of the lines that tell it and its frames."""
    first, rest = (said[0], said[1:]) if said else ("", ())
    found = _CAUSE.match(first) or _NAMED.search(first) or _SAID.match(first.strip())
    kind, message = (found["type"], found["message"] or "") if found else ("Error", first)
    further = [line for line in rest if line.strip() and not line.strip().startswith("^")]
    return StackTrace(language, kind, cut("\n".join([message, *further])), tuple(frames))
