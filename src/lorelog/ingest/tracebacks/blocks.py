"""Parsers of errors: stack traces of Python, JavaScript, Java, C#, Rust, Go, Ruby and PHP, messages of compilers, linters, test runners and shells.

A block is opened by the first line of an error, takes the lines that belong to it and reports its end. It holds a bounded
number of lines, so neither a million frames nor an endless log exhausts memory. `StackTrace` has the innermost frame and
the final error first; Python prints both last, so they are reversed. Frames that begin with `at` (JavaScript, Java, C#)
follow their error message, which may have any number of lines; so such a block is opened by its first frame and looks
back for the message. Of errors without a stack only those with a location, or with a failure word at the start, are recognised: logs are full
of the word "error".
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from functools import partial

from lorelog.core.session import StackFrame, StackTrace

MAX_BLOCK_LINES = 300
"""Lines kept from the beginning of an error, and from its end."""
MAX_BLOCK_LINE_CHARS = 2_000
MAX_MESSAGE_CHARS = 2_000


class BlockStep(Enum):
    """What a block did with a line."""

    TAKEN = auto()
    LAST = auto()
    """The line was taken and completes the block."""
    ENDED = auto()
    """The block ended before this line."""
    FOREIGN = auto()
    """The line belongs to other output in between."""


class TraceBlock(ABC):
    """An error that is being read. `body` is a line without its log prefix."""

    lines_before = 0
    """Number of lines before the opening one that belong to the block."""
    is_interrupted = False
    """True if other output has come between the last taken line and the current one."""

    def __init__(self, *lines: str) -> None:
        self._first = [line[:MAX_BLOCK_LINE_CHARS] for line in lines]
        self._last: deque[str] = deque(maxlen=MAX_BLOCK_LINES)

    @abstractmethod
    def take(self, body: str) -> BlockStep:
        """Examine the next line and keep it if it belongs to the error."""

    @abstractmethod
    def trace(self) -> StackTrace | None:
        """Return the parsed error, or None if the lines were not an error after all."""

    @property
    def lines(self) -> list[str]:
        """The lines kept so far."""
        return [*self._first, *self._last]

    def keep(self, body: str) -> BlockStep:
        """Keep a line."""
        if len(self._first) < MAX_BLOCK_LINES:
            self._first.append(body[:MAX_BLOCK_LINE_CHARS])
        else:
            self._last.append(body[:MAX_BLOCK_LINE_CHARS])
        return BlockStep.TAKEN


class PatternBlock(TraceBlock):
    """An error whose further lines all match one pattern; a match of its group `last` completes it."""

    def __init__(
        self,
        lines: Sequence[str],
        more: re.Pattern[str],
        build: Callable[[list[re.Match[str]]], StackTrace | None],
        *,
        lines_before: int = 0,
        max_lines: int = 1_000_000,
    ) -> None:
        super().__init__(*lines)
        self.lines_before = lines_before
        self._more, self._build = more, build
        self._head_lines, self._max_lines = len(lines), max_lines

    def take(self, body: str) -> BlockStep:
        match = self._more.match(body)
        if match is None or len(self.lines) >= self._max_lines:
            return BlockStep.ENDED
        self.keep(body)
        return BlockStep.LAST if match.groupdict().get("last") else BlockStep.TAKEN

    def trace(self) -> StackTrace | None:
        return self._build([match for match in map(self._more.match, self.lines[self._head_lines :]) if match])


def parse_number(text: str | None) -> int:
    """Parse a line or column number; 0 if it is missing or implausibly long."""
    return min(int(text), 1_000_000_000) if text and text.isascii() and text.isdigit() and len(text) < 12 else 0


def truncate_message(message: str) -> str:
    return message.strip()[:MAX_MESSAGE_CHARS]


def chain_traces(traces: Iterator[StackTrace]) -> StackTrace | None:
    """Return the first trace with the others as its causes."""
    first = next(traces, None)
    if first is None:
        return None
    return StackTrace(first.language, first.type, first.message, first.frames, (*first.causes, *traces))


_PY_HEAD = re.compile(r"\s*(?:\+ )?(?:Exception Group )?Traceback \(most recent call (?:last|first)\):\s*$")
_PY_GROUP = "+ Exception Group Traceback"
_PY_MARGIN = re.compile(r"^\s*[|+](?:-\+)?(?P<rest>.*)$")
_PY_GROUP_MEMBER = re.compile(r"^-*\+?-{3,} ?(?:\d+|\.\.\.) ?-{3,}$|^-{10,}$")
_PY_FRAME = re.compile(r'^\s*File "(?P<file>[^"\n]*)", line (?P<line>\d+)(?:, in (?P<function>.+?))?\s*$')
_PY_ERROR = re.compile(r"^(?P<type>[A-Za-z_][\w.]*(?:\[[\w., ]+\])?)(?::(?: (?P<message>.*))?)?$")
_PY_ERROR_NAME = re.compile(
    r"(?:Error|Exception|Exit|Interrupt|Iteration|Warning|Group|Failed|Skipped|Timeout|Cancelled)\b|^[A-Z]\w*$|\."
)
_PY_SYNTAX_LINE = re.compile(r"^\s*(?P<last>(?:SyntaxError|IndentationError|TabError): .*)$|^[ \t]")
_PY_CHAIN_SENTENCES = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
_PY_OTHER_START = re.compile(
    r"Traceback|^\s*File \"|[Ee]rror|ERROR|Exception|panic|FAILED|^\s+at |^(?:===|___|---)|^[$>#] "
)
"""Starts of lines that do not continue an error message."""
_MAX_CONTINUATION_LINES = 6
"""Continuation lines of a message that are kept."""
_MAX_SYNTAX_LINES = 8


def open_python_traceback(body: str) -> TraceBlock | None:
    """Open a block if the line begins a traceback or a syntax error."""
    if "Traceback (most recent" in body and _PY_HEAD.match(body):
        return PythonTracebackBlock(body)
    location = _PY_FRAME.match(body) if 'File "' in body else None
    if location is None or location["function"]:
        return None

    def build(found: list[re.Match[str]]) -> StackTrace | None:
        return _parse_part([body, *(line.string for line in found)]) if found and found[-1]["last"] else None

    return PatternBlock([body], _PY_SYNTAX_LINE, build, max_lines=_MAX_SYNTAX_LINES)


class PythonTracebackBlock(TraceBlock):
    """A traceback or an exception group, with its chain of causes."""

    def __init__(self, body: str) -> None:
        is_group = _PY_GROUP in body
        super().__init__(body if is_group else body.strip())
        self._margin = 0 if is_group else len(body) - len(body.lstrip())
        self._blank = self._more = 0
        self._announces = False
        self._take_part = self._in_group if is_group else self._in_stack

    def take(self, body: str) -> BlockStep:
        return self._take_part(body[min(self._margin, len(body) - len(body.lstrip())) :])

    def _in_stack(self, body: str) -> BlockStep:
        if body[:1] in {" ", "\t"}:
            return self.keep(body)
        match = _PY_ERROR.match(body)
        if match and (match["message"] is not None or _PY_ERROR_NAME.search(match["type"])):
            self._end_part()
            return self.keep(body)
        return BlockStep.FOREIGN

    def _in_group(self, body: str) -> BlockStep:
        if _PY_MARGIN.match(body):
            bare = body.strip()
            if len(bare) > 10 and bare == "+".ljust(len(bare), "-"):
                self._end_part()
            return self.keep(body)
        return BlockStep.FOREIGN  # continuation lines of a message have no margin

    def _end_part(self) -> None:
        self._blank = self._more = 0
        self._announces = False
        self._take_part = self._after_error

    def _after_error(self, body: str) -> BlockStep:
        if not body.strip():
            self._blank += 1
            return BlockStep.ENDED if self._blank > 2 else BlockStep.TAKEN
        if body.strip() in _PY_CHAIN_SENTENCES:
            self._announces, self._blank = True, 0
            return self.keep(body)
        if self._announces and _PY_HEAD.match(body):
            self._take_part = self._in_group if _PY_GROUP in body else self._in_stack
            return self.keep(body)
        if self._more < _MAX_CONTINUATION_LINES and not (
            self._blank or self.is_interrupted or _PY_OTHER_START.search(body)
        ):
            self._more += 1
            return self.keep(body)
        return BlockStep.ENDED

    def trace(self) -> StackTrace | None:
        """Return the last error of the chain with the earlier ones, and the members of groups, as causes."""
        parts: list[list[str]] = [[]]
        for line in self.lines:
            if line.strip() in _PY_CHAIN_SENTENCES:
                parts.append([])
            else:
                parts[-1].append(line)
        return chain_traces(trace for part in reversed(parts) for trace in _part_traces(part))


def _part_traces(part: Sequence[str]) -> Iterator[StackTrace]:
    """Yield the error of a part, and the members if it is a group."""
    members: list[list[str]] = [[]]
    is_group = any(_PY_GROUP in line for line in part[:2])
    for line in part:
        bare = _strip_margins(line) if is_group else line
        if is_group and _PY_GROUP_MEMBER.match(bare.strip()):
            members.append([])
        else:
            members[-1].append(bare)
    yield from (trace for trace in map(_parse_part, members) if trace is not None)


def _parse_part(lines: Sequence[str]) -> StackTrace | None:
    """Parse one error, whose frames precede it, outermost first."""
    frames: list[StackFrame] = []
    message: list[str] = []
    kind = ""
    for line in lines:
        frame = _PY_FRAME.match(line)
        if frame and not kind:
            frames.append(StackFrame(frame["function"] or "", frame["file"], parse_number(frame["line"])))
            continue
        is_other = kind or line[:1] in {" ", "\t"} or _PY_HEAD.match(line)
        error = None if is_other else _PY_ERROR.match(line.rstrip())
        # Before the first frame only a line with an error's name counts.
        if error and (frames or _PY_ERROR_NAME.search(error["type"])):
            kind = error["type"]
            message.append(error["message"] or "")
        elif kind and line.strip():
            message.append(line.strip())
    if not kind:
        return None
    return StackTrace("python", kind, truncate_message("\n".join(message)), tuple(reversed(frames)))


def _strip_margins(line: str) -> str:
    """Return a line of an exception group without its margins."""
    match = _PY_MARGIN.match(line)
    while match:
        rest = match["rest"]
        inner = rest[1:] if rest[:1] == " " else rest
        match = _PY_MARGIN.match(inner) if inner.lstrip()[:1] in {"|", "+"} else None
        line = inner
    return line


LOOKBACK_LINES = 12
"""Lines before the first frame that are searched for its error."""
_JAVA_FRAME = re.compile(
    r"^\s*at (?:[\w.@$/-]+//?)?(?P<function>[\w$.<>/-]+\.[\w$<>]+)\((?:(?P<file>[\w$.-]+\.(?:java|kt|scala|groovy|clj)):(?P<line>\d+)|"
    r"(?P<other>[\w$.-]+\.(?:java|kt|scala|groovy|clj)|Native Method|Unknown Source|<generated>))\)"
)
_CSHARP_FRAME = re.compile(
    r"^\s*at (?P<function>[\w.`<>+\[\], ]+?\([^)]*\))(?: in (?P<file>.+?):line (?P<line>\d+))?\s*$"
)
_JAVASCRIPT_FRAME = re.compile(
    r"^\s*at (?:async )?(?:(?:new )?(?P<function>[^()\n]{1,300}?) \((?:eval at [^\n]*, )?(?P<file>[^()\n]*?):(?P<line>\d+):(?P<column>\d+)\)|"
    r"(?P<bare>[^()\s]+):(?P<bare_line>\d+):(?P<bare_column>\d+)|(?P<native>[^()\n]{1,300}?) \((?:native|<anonymous>|index \d+)\)|"
    r"(?P<anonymous><anonymous>))[ {]*$"
)
_INTERNAL_FRAMES = ("node:", "internal/", "jdk.internal.", "sun.reflect.", "java.base/jdk.internal.")
_TYPE_NAME = r"(?:[A-Za-z_$][\w$]*[./])*[A-Za-z_$][\w$]*"
_NAMED_ERROR = re.compile(
    r"(?:^|\s)(?P<type>(?:[A-Za-z_$][\w$]*[./])*[\w$]*(?:Error|Exception|Throwable|Failure|Fault|Rejection|Timeout)[\w$]*)"
    r"(?: \[(?P<code>[\w]+)\])?(?:$|:(?:\s+(?P<message>.*))?$)"
)
_TYPE_AND_MESSAGE = re.compile(rf"^(?:Uncaught )?(?P<type>{_TYPE_NAME}): (?P<message>.+)$")
_CAUSE_LINE = re.compile(
    rf"^\s*(?:Caused by: |\[cause\]: |---> |Suppressed: )(?P<type>{_TYPE_NAME})(?: \[\w+\])?(?:: (?P<message>.*?))?[ {{]*$"
)
_ELIDED_FRAMES = re.compile(
    r"^\s*\.\.\. (?:\d+ (?:more|common frames omitted|lines matching cause stack trace)|.*more)|^\s*--- End of "
)
_MAX_CAUSE_MESSAGE_LINES = 5
_MAX_PROPERTY_LINES = 40


def open_at_frames(body: str, before: Sequence[str]) -> TraceBlock | None:
    """Open a block if the line is a frame and an error precedes it. `before` has the nearest line last."""
    if _parse_at_frame(body) is None:
        return None
    head = _find_error_head(before[-LOOKBACK_LINES:])
    return AtFrameBlock(body, head) if head else None


class AtFrameBlock(TraceBlock):
    """An error with `at` frames, and its causes."""

    def __init__(self, body: str, head: Sequence[str]) -> None:
        super().__init__(*head, body)
        self.lines_before = self._head_lines = len(head)
        self._message_lines_left = 0
        self._property_lines_left = _MAX_PROPERTY_LINES if body.rstrip().endswith("{") else 0

    def take(self, body: str) -> BlockStep:
        if body.lstrip().startswith("at ") or _ELIDED_FRAMES.match(body):
            self._message_lines_left = 0
            if body.rstrip().endswith("{"):
                self._property_lines_left = self._property_lines_left or _MAX_PROPERTY_LINES
            return self.keep(body)
        if _CAUSE_LINE.match(body):
            self._message_lines_left = _MAX_CAUSE_MESSAGE_LINES
            return self.keep(body)
        if self._property_lines_left:  # Node prints an error's own fields in braces
            self._property_lines_left -= 1
            if body.rstrip() == "}":
                return BlockStep.LAST
            return BlockStep.TAKEN if body[:1] in {" ", "\t"} or not body.strip() else BlockStep.ENDED
        if self._message_lines_left:
            self._message_lines_left -= 1
            return self.keep(body)
        return BlockStep.ENDED

    def trace(self) -> StackTrace | None:
        return chain_traces(self._parts())

    def _parts(self) -> Iterator[StackTrace]:
        message, frames = list(self.lines[: self._head_lines]), list[StackFrame]()
        language = "javascript"
        for line in self.lines[self._head_lines :]:
            if _CAUSE_LINE.match(line):
                yield _build_at_trace(language, message, frames)
                message, frames = [line], []
                continue
            parsed = _parse_at_frame(line)
            if parsed is not None:
                language, frame = parsed
                if not frame.file.startswith(_INTERNAL_FRAMES) and not frame.function.startswith(_INTERNAL_FRAMES):
                    frames.append(frame)
            elif not frames and not _ELIDED_FRAMES.match(line):
                message.append(line)
        yield _build_at_trace(language, message, frames)


def _parse_at_frame(line: str) -> tuple[str, StackFrame] | None:
    """Return the language and the frame of a line, or None."""
    if match := _JAVA_FRAME.match(line):
        return "java", StackFrame(match["function"], match["file"] or "", parse_number(match["line"]))
    if match := _JAVASCRIPT_FRAME.match(line):
        name = match["function"] or match["native"] or match["anonymous"] or ""
        file, number, column = match["file"], match["line"], match["column"]
        if match["bare"]:
            file, number, column = match["bare"], match["bare_line"], match["bare_column"]
        file = (file or "").removeprefix("file://")
        return "javascript", StackFrame(name.strip(), file, parse_number(number), parse_number(column))
    if match := _CSHARP_FRAME.match(line):
        function = match["function"].partition("(")[0]
        return "csharp", StackFrame(function, match["file"] or "", parse_number(match["line"]))
    return None


def _find_error_head(before: Sequence[str]) -> list[str]:
    """Return the lines of the error and message before its frames; empty if there is none."""
    for back in range(1, len(before) + 1):
        line = before[-back]
        if line.lstrip().startswith("at "):
            break
        if _NAMED_ERROR.search(line) or _CAUSE_LINE.match(line):
            return list(before[-back:])
    last = before[-1] if before else ""
    return [last] if last.strip() and _TYPE_AND_MESSAGE.match(last.strip()) else []


def _build_at_trace(language: str, lines: Sequence[str], frames: Sequence[StackFrame]) -> StackTrace:
    first, rest = (lines[0], lines[1:]) if lines else ("", ())
    match = _CAUSE_LINE.match(first) or _NAMED_ERROR.search(first) or _TYPE_AND_MESSAGE.match(first.strip())
    kind, message = (match["type"], match["message"] or "") if match else ("Error", first)
    continuation = [line for line in rest if line.strip() and not line.strip().startswith("^")]
    return StackTrace(language, kind, truncate_message("\n".join([message, *continuation])), tuple(frames))


_RUST_PANIC = re.compile(
    r"^thread '(?P<thread>[^']*)'(?: \(\d+\))? panicked at (?:'(?P<message>.*)', )?(?P<file>[^\n']+?):(?P<line>\d+):(?P<column>\d+):?$"
)
_RUST_FRAME = re.compile(r"^\s*\d+: +(?:0x[0-9a-f]+ - )?(?P<function>.+?)\s*$")
_RUST_PLACE = re.compile(r"^\s+at (?P<file>.+?):(?P<line>\d+)(?::(?P<column>\d+))?$")
_RUST_INTERNAL = re.compile(
    r"^(?:rust_begin_unwind|__rust|_?_?libc_start|_start$|main$|std::|core::|alloc::|<?test::|<unknown>|clone3?$|start_thread$)|^<(?:std|core|alloc)::|^<.* as (?:std|core|alloc)::"
)
RUST_HASH = re.compile(r"::h[0-9a-f]{16}$")
_GO_PANIC = re.compile(r"^(?:.*\bhttp: )?(?:panic(?: serving [^\s]+)?|fatal error): (?P<message>.*)$")
_GOROUTINE = re.compile(r"^goroutine \d+ (?:gp=\S+ m=\S+ )?\[[^\]]*\]:$")
_GO_CALL = re.compile(
    r"^(?:created by )?(?P<function>[^\s(][^\s]*?)(?:\((?:[^()]|\([^()]*\))*\))?(?: in goroutine \d+)?$"
)
_GO_PLACE = re.compile(r"^\t(?P<file>.+?):(?P<line>\d+)(?: \+0x[0-9a-f]+)?$")
_GO_OTHER_LINE = re.compile(
    r"^(?:\s*$|\[signal |\tpanic: |\.\.\.\s?additional|exit status \d|\[recovered|goroutine \d+ )"
)
_CHAIN_HEAD = re.compile(r"^Error: (?P<message>.+)$")
_CHAIN_CAUSE = re.compile(r"^\s+(?:\d+: )?(?P<message>\S.*)$")
_MAX_PANIC_MESSAGE_LINES = 20


def open_panic(body: str, before: Sequence[str]) -> TraceBlock | None:
    """Open a block if the line begins a panic, or the causes of an error in one of the lines before."""
    if "panicked at" in body and _RUST_PANIC.match(body):
        return RustPanicBlock(body)
    if ("panic" in body or "fatal error: " in body) and _GO_PANIC.match(body):
        return GoPanicBlock(body)
    if body.rstrip() == "Caused by:":
        for back in range(1, min(3, len(before)) + 1):
            if head := _CHAIN_HEAD.match(before[-back]):
                return _error_chain_block(head, body, back)
    return None


def _error_chain_block(head: re.Match[str], body: str, lines_before: int) -> TraceBlock:
    """Return the block of an error with numbered causes, as Rust's `anyhow` and `eyre` print it."""

    def build(links: list[re.Match[str]]) -> StackTrace | None:
        causes = tuple(StackTrace("rust", "Error", truncate_message(link["message"])) for link in links)
        return StackTrace("rust", "Error", truncate_message(head["message"]), (), causes) if causes else None

    return PatternBlock([head[0], body], _CHAIN_CAUSE, build, lines_before=lines_before, max_lines=50)


class RustPanicBlock(TraceBlock):
    """A Rust panic, its message, and its backtrace if there is one."""

    def __init__(self, body: str) -> None:
        super().__init__(body)
        head = _RUST_PANIC.match(body)
        self._message_lines = [head["message"] or ""] if head and head["message"] is not None else list[str]()
        self._has_inline_message = bool(self._message_lines)
        self._in_stack = False

    def take(self, body: str) -> BlockStep:
        if body.startswith("stack backtrace:"):
            self._in_stack = True
            return self.keep(body)
        if self._in_stack:
            if _RUST_PLACE.match(body) or _RUST_FRAME.match(body):
                return self.keep(body)
            return BlockStep.LAST if body.startswith("note: ") else BlockStep.ENDED
        if body.startswith("note: "):
            return BlockStep.LAST
        if (
            (self._message_lines and body[:1] not in {" ", "\t"})
            or len(self._message_lines) >= _MAX_PANIC_MESSAGE_LINES
            or _RUST_PANIC.match(body)
        ):
            return BlockStep.ENDED
        if not self._has_inline_message or body.strip():
            self._message_lines.append(body)
        return self.keep(body)

    def trace(self) -> StackTrace | None:
        """Return the panic; the location in its first line is the innermost one of the program itself."""
        head = _RUST_PANIC.match(self.lines[0])
        if head is None:
            return None
        location = (head["file"], parse_number(head["line"]), parse_number(head["column"]))
        frames = [frame for frame in _rust_frames(self.lines[1:]) if not _RUST_INTERNAL.match(frame.function)]
        if not frames:
            frames = [StackFrame("", *location)]
        elif not frames[0].file:
            frames[0] = StackFrame(frames[0].function, *location)
        return StackTrace("rust", "panic", truncate_message("\n".join(self._message_lines)), tuple(frames))


class GoPanicBlock(TraceBlock):
    """A Go panic and the goroutine in which it happened; other goroutines are not kept."""

    def __init__(self, body: str) -> None:
        super().__init__(body)
        self._goroutines = 0
        self._more = 0

    def take(self, body: str) -> BlockStep:
        if _GOROUTINE.match(body):
            self._goroutines += 1
            return BlockStep.TAKEN
        if not self._goroutines:
            if _GO_OTHER_LINE.match(body):
                return self.keep(body) if body.strip() else BlockStep.TAKEN
            self._more += 1
            return self.keep(body) if self._more <= 5 and not _GO_PANIC.match(body) else BlockStep.ENDED
        if body.startswith("exit status "):
            return BlockStep.LAST
        if _GO_PLACE.match(body) or _GO_OTHER_LINE.match(body) or _GO_CALL.match(body):
            return self.keep(body) if self._goroutines == 1 and body.strip() else BlockStep.TAKEN
        return BlockStep.ENDED

    def trace(self) -> StackTrace | None:
        """Return the panic; without a goroutine the word was ordinary text."""
        head = _GO_PANIC.match(self.lines[0])
        if head is None or not self._goroutines:
            return None
        frames: list[StackFrame] = []
        name = ""
        for line in self.lines[1:]:
            location = _GO_PLACE.match(line)
            if location and name:
                frames.append(StackFrame(name, location["file"], parse_number(location["line"])))
                name = ""
            elif line[:1] not in {"\t", "["}:
                call = _GO_CALL.match(line)
                name = call["function"] if call else ""
        kept = [frame for frame in frames if not frame.function.startswith(("panic", "runtime."))] or frames
        kind = "fatal error" if self.lines[0].lstrip().startswith("fatal error") else "panic"
        return StackTrace("go", kind, truncate_message(head["message"].partition("[recovered")[0]), tuple(kept))


def _rust_frames(lines: Sequence[str]) -> list[StackFrame]:
    frames: list[StackFrame] = []
    for line in lines:
        if (location := _RUST_PLACE.match(line)) and frames:
            file, number, column = location["file"], parse_number(location["line"]), parse_number(location["column"])
            frames[-1] = StackFrame(frames[-1].function, file, number, column)
        elif match := _RUST_FRAME.match(line):
            frames.append(StackFrame(RUST_HASH.sub("", match["function"])))
    return frames


_LOCATED_ERRORS = tuple(
    re.compile(source)
    for source in (
        # compilers, TypeScript, Go, Python linters, linkers
        (
            r"^(?P<file>(?:[A-Za-z]:)?[^\s:(][^:(]{0,400}?):(?P<line>\d+)(?::(?P<column>\d+))?:? (?:- )?(?:fatal |internal compiler )?[Ee]rror"
            r"(?:\[(?P<code>[\w-]+)\])?:? (?:(?P<number>[A-Z]{1,4}\d+): )?(?P<message>.+)$"
        ),
        r"^(?P<file>[^\s(][^(]{0,400}?)\((?P<line>\d+)(?:,(?P<column>\d+))?\)\s?: (?:fatal )?error (?P<number>[A-Z]+\d+): (?P<message>.+)$",
        r"^(?:vet: )?(?P<file>\S{1,400}\.go):(?P<line>\d+):(?P<column>\d+): (?P<message>.+)$",
        r"^(?P<file>\S{1,400}\.pyi?):(?P<line>\d+):(?P<column>\d+): (?P<number>[A-Z]{1,5}\d{2,5})\b:? (?P<message>.+)$",
        r"^(?:\S*ld(?:\.\w+)?: )?(?P<file>[^\s:]+):(?:\(\S+\)|(?P<line>\d+)): (?P<message>undefined reference to .+|multiple definition of .+)$",
    )
)
"""Errors of one line with a location."""
_RUSTC = re.compile(r"^error(?:\[(?P<number>E\d+)\])?: (?P<message>.+)$")
_RUSTC_LOCATION = re.compile(r"^\s*--> (?P<last>(?P<file>.+?):(?P<line>\d+):(?P<column>\d+))$")
_SHELL = re.compile(
    r"^(?P<type>(?:/\S*/)?(?:ba|z|da|fi)?sh): (?:line )?(?:\d+: )*(?P<message>.+: (?:command )?not found|.+: No such file or directory|.+: Permission denied)$"
)
_PREFIXED_ERROR = re.compile(
    r"^(?P<type>fatal|error|Error|ERROR|FATAL|npm ERR!|npm error|E:|ld|collect2):? (?P<message>\S.*)$"
)
_SUMMARY_MESSAGE = re.compile(
    r"aborting due to|could not compile|(?:error: )?ld returned|linker command failed|Command failed with exit code|Process completed with exit code"
)
"""Messages that only summarise earlier errors."""
_NAMED_EXCEPTION = re.compile(
    r"^(?:[\w./-]+: )?(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Panic)): (?P<message>\S.*)$"
)
_PYTEST_ERROR = re.compile(r"^E {3,}(?P<said>\S.*)$")
_PYTEST_END = re.compile(r"^(?P<file>\S+\.py):(?P<line>\d+): ?(?P<type>[\w.]*)$")
_PYTEST_SUMMARY = re.compile(
    r"^(?:FAILED|ERROR) (?P<file>[^\s:]+\.py)(?:::(?P<function>\S+))?(?: - (?:(?P<type>[\w.]+): )?(?P<message>.+))?$"
)
_TYPED_MESSAGE = re.compile(r"^(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*): ?(?P<message>.*)$")
PYTEST_SECTION = re.compile(r"^_{2,} (?:ERROR at \w+ of )?(?P<name>\S.*?) _{2,}$")
"""The heading that pytest prints above a failure."""
_GOTEST = re.compile(r"^\s*--- FAIL: (?P<function>\S+)")
_GOTEST_LINE = re.compile(r"^\s+(?:(?P<last>(?P<file>\S+_test\.go):(?P<line>\d+)): (?P<message>.*))?")
_RUBY = re.compile(
    r"^(?P<file>\S[^:\n]*):(?P<line>\d+):in [`'](?P<function>[^']*)': (?P<message>.*) \((?P<type>[A-Z][\w:]*)\)$"
)
_RUBY_FROM = re.compile(r"^\s+(?:\d+: )?from (?P<file>.+?):(?P<line>\d+):in [`'](?P<function>[^']*)'")
_PHP = re.compile(
    r"^(?:PHP )?Fatal error:\s+Uncaught (?P<type>[\w\\]+): (?P<message>.*?) in (?P<file>/.+?):(?P<line>\d+)$"
)
_PHP_LINE = re.compile(
    r"^(?:#\d+ (?:(?P<file>.+?)\((?P<line>\d+)\): )?(?P<function>[\w\\:>{}-]+)(?:\(.*)?$|Stack trace:|(?P<last>  thrown in ))"
)
_MAX_PYTEST_LINES = 80


def open_message(body: str, section: str) -> TraceBlock | None:
    """Open a block if the line begins an error of several lines; `section` is the test last named by pytest."""
    if _PYTEST_ERROR.match(body):
        return PytestBlock(body, section)
    for head_pattern, more, build in _MESSAGE_BLOCKS:
        if head := head_pattern.match(body):
            return PatternBlock([body], more, partial(build, head))
    return None


def message_trace(message: str, kind: str = "") -> StackTrace:
    """Return an error that consists of one line."""
    match = _NAMED_EXCEPTION.match(message.strip()) or _PREFIXED_ERROR.match(message.strip())
    if match:
        return StackTrace("generic", kind or match["type"].rstrip(":"), truncate_message(match["message"]))
    return StackTrace("generic", kind, truncate_message(message))


def single_line_trace(body: str) -> StackTrace | None:
    """Return the error of a line that needs no further ones."""
    match = next(filter(None, (pattern.match(body) for pattern in _LOCATED_ERRORS)), None)
    if match:
        kind = match.groupdict().get("number") or match.groupdict().get("code") or "error"
        return StackTrace("generic", kind, truncate_message(match["message"]), (_frame(match),))
    match = _PYTEST_SUMMARY.match(body)
    if match:
        frame = StackFrame((match["function"] or "").replace("::", "."), match["file"])
        return StackTrace("python", match["type"] or "test failure", truncate_message(match["message"] or ""), (frame,))
    match = _SHELL.match(body)
    if match:
        return StackTrace("generic", match["type"].rpartition("/")[2], truncate_message(match["message"]))
    match = _NAMED_EXCEPTION.match(body) or _PREFIXED_ERROR.match(body)
    if match is None or _SUMMARY_MESSAGE.match(match["message"]):
        return None
    return StackTrace("generic", match["type"].rstrip(":"), truncate_message(match["message"]))


class PytestBlock(TraceBlock):
    """A failure in pytest's output: lines that begin with E, and the location after them."""

    def __init__(self, body: str, section: str) -> None:
        super().__init__(body)
        self._section = section
        self._end: re.Match[str] | None = None
        self._seen = 0

    def take(self, body: str) -> BlockStep:
        self._seen += 1
        if _PYTEST_ERROR.match(body):
            return self.keep(body)
        self._end = _PYTEST_END.match(body)
        if self._end:
            self.keep(body)
            return BlockStep.LAST
        has_ended = body.startswith(("___", "===", "FAILED ")) or self._seen > _MAX_PYTEST_LINES
        return BlockStep.ENDED if has_ended else BlockStep.TAKEN

    def trace(self) -> StackTrace | None:
        lines = [match["said"] for match in map(_PYTEST_ERROR.match, self.lines) if match]
        end_type = self._end["type"] if self._end else ""
        typed = _TYPED_MESSAGE.match(lines[0])
        kind, message = (typed["type"], typed["message"]) if typed else (end_type or "AssertionError", lines[0])
        frames: tuple[StackFrame, ...] = ()
        if self._end:
            test, file, line = self._section.replace("::", "."), self._end["file"], parse_number(self._end["line"])
            in_test = not test or "test" in file.rpartition("/")[2]
            frames = (StackFrame(test, file, line),) if in_test else (StackFrame("", file, line), StackFrame(test))
        return StackTrace("python", kind, truncate_message("\n".join([message, *lines[1:]])), frames)


def _gotest_trace(head: re.Match[str], lines: list[re.Match[str]]) -> StackTrace:
    found = next((line for line in lines if line["last"]), None)
    place = (found["file"], parse_number(found["line"])) if found else ()
    message = truncate_message(found["message"]) if found else ""
    return StackTrace("go", "test failure", message, (StackFrame(head["function"], *place),))


def _rustc_trace(head: re.Match[str], lines: list[re.Match[str]]) -> StackTrace | None:
    if _SUMMARY_MESSAGE.match(head["message"]):
        return None
    frames = tuple(_frame(line) for line in lines)
    language = "rust" if head["number"] or frames else "generic"
    return StackTrace(language, head["number"] or "error", truncate_message(head["message"]), frames)


def _stack_trace(language: str, head: re.Match[str], lines: list[re.Match[str]]) -> StackTrace:
    frames = tuple(_frame(line) for line in (head, *lines) if line.groupdict().get("function") or line is head)
    return StackTrace(language, head["type"], truncate_message(head["message"]), frames)


def _frame(match: re.Match[str]) -> StackFrame:
    found = match.groupdict()
    numbers = (parse_number(found.get(name)) for name in ("line", "column"))
    return StackFrame(found.get("function") or "", found["file"] or "", *numbers)


_MESSAGE_BLOCKS: tuple[tuple[re.Pattern[str], re.Pattern[str], Callable[..., StackTrace | None]], ...] = (
    (_GOTEST, _GOTEST_LINE, _gotest_trace),
    (_RUSTC, _RUSTC_LOCATION, _rustc_trace),
    (_RUBY, _RUBY_FROM, partial(_stack_trace, "ruby")),
    (_PHP, _PHP_LINE, partial(_stack_trace, "php")),
)
"""Errors with a first line of their own: its pattern, that of the lines after it, and what makes an error of them."""
