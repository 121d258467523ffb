"""Readers of errors: stack traces of Python, JavaScript, Java, C#, Rust, Go, Ruby and PHP, messages of compilers, linters, test runners and shells.

A reader gets the first line of an error, takes the later lines that belong to it, and returns the error, or None if the
lines are not one after all. `StackTrace` has the innermost frame and the final error first; Python prints both last, so
they are reversed. Frames that begin with `at` (JavaScript, Java, C#) follow their error message, which may have any
number of lines; so such an error is found by its first frame, and its message by looking back. Of errors without a
stack only those with a location, or with a failure word at the start, are recognised: logs are full of the word
"error".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from msgspec import Struct

from lorelog.core.session import StackFrame, StackTrace

MAX_BLOCK_LINES = 300
"""Lines kept from the beginning of an error, and from its end."""
MAX_BLOCK_LINE_CHARS = 2_000
MAX_MESSAGE_CHARS = 2_000
_MAX_FOREIGN_LINES = 200
"""Lines of other output after which an error counts as ended."""


class LogLine(Struct, frozen=True):
    """A log line, split into prefixes and body."""

    source: str
    """The container or host that passed the line on; empty if there is none."""
    stamp: str
    """The program's prefix without numbers and level, shared by lines that belong together; empty if there is none."""
    body: str
    is_severe: bool = False
    """True if the prefix has an error level."""
    number: int = 0


class ErrorLines:
    """The lines that an error consists of so far, and later ones that may belong to it, in turn."""

    def __init__(self, first: Sequence[LogLine], later: Iterator[LogLine]) -> None:
        self.taken = [(line.number, line.body) for line in first]
        self._later = later

    def __iter__(self) -> Iterator[LogLine]:
        for line in self._later:
            if line.number - self.taken[-1][0] > _MAX_FOREIGN_LINES:
                return
            yield line

    def take(self, line: LogLine, body: str | None = None) -> None:
        self.taken.append((line.number, line.body if body is None else body))

    def take_matches(self, pattern: re.Pattern[str]) -> list[re.Match[str]]:
        """Take the lines that match a pattern; a match of its group `last` completes the error."""
        matches: list[re.Match[str]] = []
        for line in self:
            match = pattern.match(line.body)
            if match is None or len(matches) >= MAX_BLOCK_LINES:
                break
            self.take(line)
            matches.append(match)
            if match.groupdict().get("last"):
                break
        return matches

    @property
    def bodies(self) -> list[str]:
        """The taken lines without their prefixes: the first and the last ones, if there are many."""
        taken = self.taken
        if len(taken) > 2 * MAX_BLOCK_LINES:
            taken = taken[:MAX_BLOCK_LINES] + taken[-MAX_BLOCK_LINES:]
        return [body[:MAX_BLOCK_LINE_CHARS] for _, body in taken]


def _message(*lines: str) -> str:
    return "\n".join(lines).strip()[:MAX_MESSAGE_CHARS]


def _frame(match: re.Match[str]) -> StackFrame:
    found = match.groupdict()
    texts = (found.get(name) or "" for name in ("line", "column"))
    numbers = (int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0 for text in texts)
    return StackFrame(found.get("function") or "", found.get("file") or "", *numbers)


def _chain(traces: Iterable[StackTrace]) -> StackTrace | None:
    """Return the first trace with the others as its causes."""
    first, *causes = [*traces, None]
    return first and StackTrace(first.language, first.type, first.message, first.frames, tuple(filter(None, causes)))


# Python

_PY_HEAD = re.compile(r"\s*(?:\+ )?(?:Exception Group )?Traceback \(most recent call (?:last|first)\):\s*$")
_PY_GROUP = "+ Exception Group Traceback"
_PY_MARGIN = re.compile(r"^\s*[|+](?:-\+)?(?P<rest>.*)$")
_PY_GROUP_MEMBER = re.compile(r"^-*\+?-{3,} ?(?:\d+|\.\.\.) ?-{3,}$|^-{10,}$")
_PY_FRAME = re.compile(r'^\s*File "(?P<file>[^"\n]*)", line (?P<line>\d+)(?:, in (?P<function>.+?))?\s*$')
_PY_ERROR = re.compile(r"^(?P<type>[A-Za-z_][\w.]*(?:\[[\w., ]+\])?)(?::(?: (?P<message>.*))?)?$")
_PY_ERROR_NAME = re.compile(
    r"(?:Error|Exception|Exit|Interrupt|Iteration|Warning|Group|Failed|Skipped|Timeout|Cancelled)\b|^[A-Z]\w*$|\."
)
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


def read_traceback(lines: ErrorLines) -> StackTrace | None:
    """Read a traceback or an exception group of Python, with its chain of causes."""
    number, head = lines.taken[0]
    is_group: bool | None = _PY_GROUP in head
    margin = 0 if is_group else len(head) - len(head.lstrip())
    lines.taken[0] = (number, head if is_group else head.strip())
    later = ((line, line.body[min(margin, len(line.body) - len(line.body.lstrip())) :]) for line in lines)
    while is_group is not None and _take_stack(lines, later, is_group=is_group):
        is_group = _take_message(lines, later)
    parts: list[list[str]] = [[]]
    for text in lines.bodies:
        if text.strip() in _PY_CHAIN_SENTENCES:
            parts.append([])
        else:
            parts[-1].append(text)
    return _chain(trace for part in reversed(parts) for trace in _part_traces(part))


def _take_stack(lines: ErrorLines, later: Iterator[tuple[LogLine, str]], *, is_group: bool) -> bool:
    """Take the lines up to the error's own line, or to the end of a group; others in between are passed over."""
    for line, body in later:
        bare = body.strip()
        is_end = is_group and len(bare) > 10 and bare == "+".ljust(len(bare), "-")
        if not is_group and body[:1] not in {" ", "\t"}:
            error = _PY_ERROR.match(body)
            is_end = error is not None and (error["message"] is not None or bool(_PY_ERROR_NAME.search(error["type"])))
            if not is_end:
                continue
        elif is_group and not _PY_MARGIN.match(body):
            continue  # continuation lines of a message have no margin
        lines.take(line, body)
        if is_end:
            return True
    return False


def _take_message(lines: ErrorLines, later: Iterator[tuple[LogLine, str]]) -> bool | None:
    """Take further lines of a message, and the head of the next error of a chain; return whether that is a group."""
    blank = more = 0
    is_announced = False
    for line, body in later:
        if not body.strip() and blank < 2:
            blank += 1
            continue
        is_head = is_announced and _PY_HEAD.match(body) is not None
        if body.strip() in _PY_CHAIN_SENTENCES:
            is_announced, blank = True, 0
        elif not is_head:
            is_next = not blank and line.number == lines.taken[-1][0] + 1
            if not is_next or more == _MAX_CONTINUATION_LINES or _PY_OTHER_START.search(body):
                break
            more += 1
        lines.take(line, body)
        if is_head:
            return _PY_GROUP in body
    return None


def _part_traces(part: Sequence[str]) -> Iterator[StackTrace]:
    """Yield the error of a part, and the members if it is a group."""
    members: list[list[str]] = [[]]
    is_group = any(_PY_GROUP in line for line in part[:2])
    for line in part:
        bare = line
        while is_group and (margin := _PY_MARGIN.match(bare)):
            bare = margin["rest"].removeprefix(" ")
            if bare.lstrip()[:1] not in {"|", "+"}:
                break
        if is_group and _PY_GROUP_MEMBER.match(bare.strip()):
            members.append([])
        else:
            members[-1].append(bare)
    yield from filter(None, map(_parse_part, members))


def _parse_part(lines: Sequence[str]) -> StackTrace | None:
    """Parse one error, whose frames precede it, outermost first."""
    frames: list[StackFrame] = []
    message: list[str] = []
    kind = ""
    for line in lines:
        if kind:
            message += [line.strip()] if line.strip() else []
        elif frame := _PY_FRAME.match(line):
            frames.append(_frame(frame))
        elif line[:1] not in {" ", "\t"} and not _PY_HEAD.match(line):
            error = _PY_ERROR.match(line.rstrip())
            # Before the first frame only a line with an error's name counts.
            if error and (frames or _PY_ERROR_NAME.search(error["type"])):
                kind = error["type"]
                message.append(error["message"] or "")
    return StackTrace("python", kind, _message(*message), tuple(reversed(frames))) if kind else None


# frames that begin with "at"

LOOKBACK_LINES = 12
"""Lines before the first frame that are searched for its error."""
_AT_FRAMES = {
    "java": (
        r"^\s*at (?:[\w.@$/-]+//?)?(?P<function>[\w$.<>/-]+\.[\w$<>]+)\((?:(?P<file>[\w$.-]+\.(?:java|kt|scala|groovy|clj)):(?P<line>\d+)|"
        r"(?:[\w$.-]+\.(?:java|kt|scala|groovy|clj)|Native Method|Unknown Source|<generated>))\)"
    ),
    "javascript": (
        r"^\s*at (?:async )?(?:(?:new )?(?P<function>[^()\n]{1,300}?) \((?:eval at [^\n]*, )?(?:file://)?(?P<file>[^()\n]*?):(?P<line>\d+):(?P<column>\d+)\)|"
        r"(?:file://)?(?P<bare>[^()\s]+):(?P<bare_line>\d+):(?P<bare_column>\d+)|(?P<native>[^()\n]{1,300}?) \((?:native|<anonymous>|index \d+)\)|"
        r"(?P<anonymous><anonymous>))[ {]*$"
    ),
    "csharp": r"^\s*at (?P<function>[\w.`<>+\[\], ]+?)\([^)]*\)(?: in (?P<file>.+?):line (?P<line>\d+))?\s*$",
}
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


def find_error_head(first_frame: str, before: Sequence[LogLine]) -> Sequence[LogLine]:
    """Return the lines of the error and its message before its first frame, the nearest last; empty if there is none."""
    if _parse_at_frame(first_frame) is None:
        return ()
    for back in range(1, len(before) + 1):
        line = before[-back].body
        if line.lstrip().startswith("at "):
            break
        if _NAMED_ERROR.search(line) or _CAUSE_LINE.match(line):
            return before[-back:]
    return before[-1:] if before and _TYPE_AND_MESSAGE.match(before[-1].body.strip()) else ()


def read_at_frames(lines: ErrorLines) -> StackTrace | None:
    """Read an error with `at` frames and its causes; the first frame is the last line that is taken so far."""
    head = len(lines.taken) - 1
    message_lines_left = 0
    property_lines_left = _MAX_PROPERTY_LINES if lines.taken[-1][1].rstrip().endswith("{") else 0
    for line in lines:
        body, is_last = line.body, False
        if body.lstrip().startswith("at ") or _ELIDED_FRAMES.match(body):
            message_lines_left = 0
            if body.rstrip().endswith("{"):
                property_lines_left = property_lines_left or _MAX_PROPERTY_LINES
        elif _CAUSE_LINE.match(body):
            message_lines_left = _MAX_CAUSE_MESSAGE_LINES
        elif property_lines_left:  # Node prints an error's own fields in braces
            property_lines_left -= 1
            is_last = body.rstrip() == "}"
            if not is_last and body[:1] not in {"", " ", "\t"}:
                break
        elif message_lines_left:
            message_lines_left -= 1
        else:
            break
        lines.take(line)
        if is_last:
            break
    return _chain(_at_traces(lines.bodies, head))


def _at_traces(lines: Sequence[str], head: int) -> Iterator[StackTrace]:
    message, frames = list(lines[:head]), list[StackFrame]()
    language = "javascript"
    for line in lines[head:]:
        if _CAUSE_LINE.match(line):
            yield _at_trace(language, message, frames)
            message, frames = [line], []
        elif parsed := _parse_at_frame(line):
            language, frame = parsed
            if not frame.file.startswith(_INTERNAL_FRAMES) and not frame.function.startswith(_INTERNAL_FRAMES):
                frames.append(frame)
        elif not frames and not _ELIDED_FRAMES.match(line):
            message.append(line)
    yield _at_trace(language, message, frames)


def _at_trace(language: str, lines: Sequence[str], frames: Sequence[StackFrame]) -> StackTrace:
    first, *rest = lines or [""]
    match = _CAUSE_LINE.match(first) or _NAMED_ERROR.search(first) or _TYPE_AND_MESSAGE.match(first.strip())
    kind, message = (match["type"], match["message"] or "") if match else ("Error", first)
    continuation = [line for line in rest if line.strip() and not line.strip().startswith("^")]
    return StackTrace(language, kind, _message(message, *continuation), tuple(frames))


def _parse_at_frame(line: str) -> tuple[str, StackFrame] | None:
    for language, pattern in _AT_FRAMES.items():
        if match := re.match(pattern, line):
            frame = _frame(match)
            if language == "javascript" and match["bare"]:
                numbers = int(match["bare_line"][:9]), int(match["bare_column"][:9])
                frame = StackFrame("", match["bare"], *numbers)
            elif language == "javascript":
                name = match["function"] or match["native"] or match["anonymous"] or ""
                frame = StackFrame(name.strip(), frame.file, frame.line, frame.column)
            return language, frame
    return None


# Rust and Go

_RUST_PANIC = re.compile(
    r"^thread '(?P<thread>[^']*)'(?: \(\d+\))? panicked at (?:'(?P<message>.*)', )?(?P<file>[^\n']+?):(?P<line>\d+):(?P<column>\d+):?$"
)
_RUST_LINE = re.compile(
    r"^\s*(?:\d+: +(?:0x[0-9a-f]+ - )?(?P<function>.+?)(?:::h[0-9a-f]{16})?|at (?P<file>.+?):(?P<line>\d+)(?::(?P<column>\d+))?)\s*$"
)
_RUST_INTERNAL = (
    *(
        "rust_begin_unwind",
        "__rust",
        "libc_start",
        "_libc_start",
        "__libc_start",
        "_start",
        "<unknown>",
        "start_thread",
    ),
    *("clone", "std::", "core::", "alloc::", "test::", "<std::", "<core::", "<alloc::", "<test::"),
)
_GO_PANIC = re.compile(r"^(?:.*\bhttp: )?(?P<type>panic|fatal error)(?: serving [^\s]+)?: (?P<message>.*)$")
_GO_LINE = re.compile(
    r"^(?:\t(?P<file>.+?):(?P<line>\d+)(?: \+0x[0-9a-f]+)?"
    r"|(?:created by )?(?P<function>[^\s(][^\s]*?)(?:\((?:[^()]|\([^()]*\))*\))?(?: in goroutine \d+)?)$"
)
_GO_OTHER_LINES = ("[signal ", "\tpanic: ", "...additional", "... additional", "exit status ", "[recovered")
_MAX_PANIC_MESSAGE_LINES = 20
_MAX_GO_MESSAGE_LINES = 5


def read_rust_panic(lines: ErrorLines) -> StackTrace | None:
    """Read a panic, its message and its backtrace; the location in its first line is the innermost one of the program."""
    head = _RUST_PANIC.match(lines.taken[0][1])
    if head is None:
        return None
    message = [] if head["message"] is None else [head["message"]]
    is_inline, in_stack, frames = bool(message), False, list[StackFrame]()
    for line in lines:
        body = line.body
        if body.startswith("stack backtrace:"):
            in_stack = True
        elif in_stack and (match := _RUST_LINE.match(body)):
            frame = _frame(match)
            if not frame.file:
                frames.append(frame)
            elif frames:
                frames[-1] = StackFrame(frames[-1].function, frame.file, frame.line, frame.column)
        elif not body.startswith("note: "):
            is_full = len(message) >= _MAX_PANIC_MESSAGE_LINES or _RUST_PANIC.match(body) is not None
            if in_stack or is_full or (message and body[:1] not in {" ", "\t"}):
                break
            message += [body] if not is_inline or body.strip() else []
        lines.take(line)
        if body.startswith("note: "):
            break
    first = _frame(head)
    own = [frame for frame in frames if not _is_rust_internal(frame.function)] or [first]
    if not own[0].file:
        own[0] = StackFrame(own[0].function, first.file, first.line, first.column)
    return StackTrace("rust", "panic", _message(*message), tuple(own))


def _is_rust_internal(function: str) -> bool:
    crates = (f" as {crate}::" in function for crate in ("std", "core", "alloc"))
    return function == "main" or function.startswith(_RUST_INTERNAL) or (function.startswith("<") and any(crates))


def read_go_panic(lines: ErrorLines) -> StackTrace | None:
    """Read a panic and the goroutine in which it happened; without a goroutine the word was ordinary text."""
    head = _GO_PANIC.match(lines.taken[0][1])
    frames: list[StackFrame] = []
    name, more, in_stack = "", 0, False
    for line in lines:
        body = line.body
        if body.startswith("goroutine ") and body.endswith("]:"):
            if in_stack:
                break  # another goroutine
            in_stack = True
        elif body.strip() and not body.startswith(_GO_OTHER_LINES):
            match = _GO_LINE.match(body) if in_stack else None
            more += not in_stack
            if more > _MAX_GO_MESSAGE_LINES or (in_stack and not match) or (not in_stack and _GO_PANIC.match(body)):
                break
            if match and match["file"] and name:
                frames.append(StackFrame(name, *_frame(match)[1:]))
            name = match["function"] or "" if match else ""
        lines.take(line)
    if head is None or not in_stack:
        return None
    own = [frame for frame in frames if not frame.function.startswith(("panic", "runtime."))] or frames
    return StackTrace("go", head["type"], _message(head["message"].partition("[recovered")[0]), tuple(own))


# pytest

PYTEST_SECTION = re.compile(r"^_{2,} (?:ERROR at \w+ of )?(?P<name>\S.*?) _{2,}$")
"""The heading that pytest prints above a failure."""
_PYTEST_END = re.compile(r"^(?P<file>\S+\.py):(?P<line>\d+): ?(?P<type>[\w.]*)$")
_TYPED_MESSAGE = re.compile(r"^(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*): ?(?P<message>.*)$")
_MAX_PYTEST_LINES = 80


def is_pytest_error(body: str) -> bool:
    """Return True for a line of a failure that begins with E."""
    return body.startswith("E   ") and bool(body[1:].strip())


def read_pytest(lines: ErrorLines, section: str) -> StackTrace | None:
    """Read a failure in pytest's output: lines that begin with E, and the location after them."""
    first = lines.taken[0][0]
    said = [lines.taken[0][1][1:].strip()]
    end: re.Match[str] | None = None
    for line in lines:
        end = _PYTEST_END.match(line.body)
        if end or is_pytest_error(line.body):
            lines.take(line)
            said += [] if end else [line.body[1:].strip()]
        if end or line.body.startswith(("___", "===", "FAILED ")) or line.number > first + _MAX_PYTEST_LINES:
            break
    typed = _TYPED_MESSAGE.match(said[0])
    kind, message = (typed["type"], typed["message"]) if typed else ((end and end["type"]) or "AssertionError", said[0])
    frames: tuple[StackFrame, ...] = ()
    if end:
        test, frame = section.replace("::", "."), _frame(end)
        in_test = not test or "test" in frame.file.rpartition("/")[2]
        frames = (StackFrame(test, frame.file, frame.line),) if in_test else (frame, StackFrame(test))
    return StackTrace("python", kind, _message(message, *said[1:]), frames)


# errors of several lines with a first line of their own, and errors of one line

_SUMMARIES = (
    *("aborting due to", "could not compile", "ld returned", "error: ld returned", "linker command failed"),
    *("Command failed with exit code", "Process completed with exit code"),
)
"""Starts of messages that only summarise earlier errors."""


def _syntax_error(head: re.Match[str], lines: list[re.Match[str]]) -> StackTrace | None:
    last = lines[-1] if lines and lines[-1]["last"] else None
    return last and StackTrace("python", last["type"], _message(last["message"]), (_frame(head),))


def _go_test(head: re.Match[str], lines: list[re.Match[str]]) -> StackTrace:
    found = next((line for line in lines if line["last"]), None)
    frame = StackFrame(head["function"], *(_frame(found)[1:] if found else ()))
    return StackTrace("go", "test failure", _message(found["message"]) if found else "", (frame,))


def _rustc(head: re.Match[str], lines: list[re.Match[str]]) -> StackTrace | None:
    frames = tuple(map(_frame, lines))
    language = "rust" if head["number"] or frames else "generic"
    trace = StackTrace(language, head["number"] or "error", _message(head["message"]), frames)
    return None if trace.message.startswith(_SUMMARIES) else trace


def _stack(language: str, head: re.Match[str], lines: list[re.Match[str]]) -> StackTrace:
    frames = tuple(_frame(line) for line in (head, *lines) if line.groupdict().get("function") or line is head)
    return StackTrace(language, head["type"], _message(head["message"]), frames)


_BLOCKS: tuple[tuple[re.Pattern[str], re.Pattern[str], Callable[..., StackTrace | None]], ...] = tuple(
    (re.compile(head), re.compile(more), build)
    for build, head, more in (
        (
            _syntax_error,
            r'^\s*File "(?P<file>[^"\n]*)", line (?P<line>\d+)\s*$',
            r"^\s*(?P<last>(?P<type>SyntaxError|IndentationError|TabError): (?P<message>.*))$|^[ \t]",
        ),
        (
            _go_test,
            r"^\s*--- FAIL: (?P<function>\S+)",
            r"^\s+(?:(?P<last>(?P<file>\S+_test\.go):(?P<line>\d+)): (?P<message>.*))?",
        ),
        (
            _rustc,
            r"^error(?:\[(?P<number>E\d+)\])?: (?P<message>.+)$",
            r"^\s*--> (?P<last>(?P<file>.+?):(?P<line>\d+):(?P<column>\d+))$",
        ),
        (
            partial(_stack, "ruby"),
            r"^(?P<file>\S[^:\n]*):(?P<line>\d+):in [`'](?P<function>[^']*)': (?P<message>.*) \((?P<type>[A-Z][\w:]*)\)$",
            r"^\s+(?:\d+: )?from (?P<file>.+?):(?P<line>\d+):in [`'](?P<function>[^']*)'",
        ),
        (
            partial(_stack, "php"),
            r"^(?:PHP )?Fatal error:\s+Uncaught (?P<type>[\w\\]+): (?P<message>.*?) in (?P<file>/.+?):(?P<line>\d+)$",
            r"^(?:#\d+ (?:(?P<file>.+?)\((?P<line>\d+)\): )?(?P<function>[\w\\:>{}-]+)(?:\(.*)?$|Stack trace:|(?P<last>  thrown in ))",
        ),
    )
)
"""The pattern of a first line, that of the lines after it, and what makes an error of them."""
_CHAIN_CAUSE = re.compile(r"^\s+(?:\d+: )?(?P<message>\S.*)$")
_SINGLE_LINES = tuple(
    re.compile(source)
    for source in (
        # compilers, TypeScript, Go, Python linters, linkers, pytest, shells; any exception, any failure word
        (
            r"^(?P<file>(?:[A-Za-z]:)?[^\s:(][^:(]{0,400}?):(?P<line>\d+)(?::(?P<column>\d+))?:? (?:- )?(?:fatal |internal compiler )?[Ee]rror"
            r"(?:\[(?P<code>[\w-]+)\])?:? (?:(?P<number>[A-Z]{1,4}\d+): )?(?P<message>.+)$"
        ),
        r"^(?P<file>[^\s(][^(]{0,400}?)\((?P<line>\d+)(?:,(?P<column>\d+))?\)\s?: (?:fatal )?error (?P<number>[A-Z]+\d+): (?P<message>.+)$",
        r"^(?:vet: )?(?P<file>\S{1,400}\.go):(?P<line>\d+):(?P<column>\d+): (?P<message>.+)$",
        r"^(?P<file>\S{1,400}\.pyi?):(?P<line>\d+):(?P<column>\d+): (?P<number>[A-Z]{1,5}\d{2,5})\b:? (?P<message>.+)$",
        r"^(?:\S*ld(?:\.\w+)?: )?(?P<file>[^\s:]+):(?:\(\S+\)|(?P<line>\d+)): (?P<message>undefined reference to .+|multiple definition of .+)$",
        r"^(?:FAILED|ERROR) (?P<file>[^\s:]+\.py)(?:::(?P<test>\S+))?(?: - (?:(?P<type>[\w.]+): )?(?P<message>.+))?$",
        r"^(?:/\S*/)?(?P<type>(?:ba|z|da|fi)?sh): (?:line )?(?:\d+: )*(?P<message>.+: (?:command )?not found|.+: No such file or directory|.+: Permission denied)$",
        r"^(?:[\w./-]+: )?(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Panic)): (?P<message>\S.*)$",
        r"^(?P<type>fatal|error|Error|ERROR|FATAL|npm ERR!|npm error|E:|ld|collect2):? (?P<message>\S.*)$",
    )
)


def find_reader(
    body: str, before: Sequence[LogLine], section: str
) -> tuple[Callable[[ErrorLines], StackTrace | None], Sequence[LogLine]] | None:
    """Return the reader of an error that a line begins, and the lines before it that belong to the error.

    `before` has the nearest line last; `section` is the test last named by pytest.
    """
    reader: Callable[[ErrorLines], StackTrace | None] | None = None
    head: Sequence[LogLine] = ()
    if body.lstrip().startswith("at "):
        head = find_error_head(body, before)
        reader = read_at_frames if head else None
    elif "Traceback (most recent" in body and _PY_HEAD.match(body):
        reader = read_traceback
    elif "panicked at" in body and _RUST_PANIC.match(body):
        reader = read_rust_panic
    elif ("panic" in body or "fatal error: " in body) and _GO_PANIC.match(body):
        reader = read_go_panic
    elif is_pytest_error(body):
        reader = partial(read_pytest, section=section)
    elif body.rstrip() == "Caused by:":  # as Rust's `anyhow` and `eyre` print causes
        starts = [index for index in range(-len(before[-3:]), 0) if before[index].body.startswith("Error: ")]
        head = before[starts[-1] :] if starts else ()
        reader = _read_chain if head else None
    else:
        for pattern, more, build in _BLOCKS:
            if match := pattern.match(body):
                reader = partial(_read_block, match, more, build)
                break
    return (reader, head) if reader else None


def _read_block(
    head: re.Match[str], more: re.Pattern[str], build: Callable[..., StackTrace | None], lines: ErrorLines
) -> StackTrace | None:
    return build(head, lines.take_matches(more))


def _read_chain(lines: ErrorLines) -> StackTrace | None:
    message = lines.taken[0][1].removeprefix("Error: ")
    links = lines.take_matches(_CHAIN_CAUSE)
    causes = tuple(StackTrace("rust", "Error", _message(link["message"])) for link in links)
    return StackTrace("rust", "Error", _message(message), (), causes) if causes else None


def message_trace(message: str) -> StackTrace:
    """Return an error that consists of one line."""
    match = next(filter(None, (pattern.match(message.strip()) for pattern in _SINGLE_LINES[-2:])), None)
    kind, text = (match["type"].rstrip(":"), match["message"]) if match else ("", message)
    return StackTrace("generic", kind, _message(text))


def single_line_trace(body: str) -> StackTrace | None:
    """Return the error of a line that needs no further ones."""
    match = next(filter(None, (pattern.match(body) for pattern in _SINGLE_LINES)), None)
    if match is None:
        return None
    found, frame = match.groupdict(), _frame(match)
    message = _message(found["message"] or "")
    if "test" in found:
        test = StackFrame((found["test"] or "").replace("::", "."), frame.file)
        return StackTrace("python", found["type"] or "test failure", message, (test,))
    if not frame.file and message.startswith(_SUMMARIES):
        return None
    kind = found.get("number") or found.get("code") or found.get("type") or "error"
    return StackTrace("generic", kind.rstrip(":"), message, (frame,) if frame.file else ())
