"""Parsers of errors without a full stack: compilers, linters, test runners, shells, Ruby and PHP.

Only messages with a location, or with a failure word at the start, are recognised: logs are full of the word "error".
"""

from __future__ import annotations

import re

from lorelog.core.session import StackFrame, StackTrace
from lorelog.ingest.tracebacks.blocks import BlockStep, SingleLineBlock, TraceBlock, parse_number, truncate_message

_COMPILER = re.compile(
    r"^(?P<file>(?:[A-Za-z]:)?[^\s:(][^:(]{0,400}?):(?P<line>\d+)(?::(?P<column>\d+))?:? (?:- )?(?:fatal |internal compiler )?[Ee]rror"
    r"(?:\[(?P<code>[\w-]+)\])?:? (?:(?P<number>[A-Z]{1,4}\d+): )?(?P<message>.+)$"
)
_TYPESCRIPT = re.compile(
    r"^(?P<file>[^\s(][^(]{0,400}?)\((?P<line>\d+)(?:,(?P<column>\d+))?\)\s?: (?:fatal )?error (?P<number>[A-Z]+\d+): (?P<message>.+)$"
)
_GO = re.compile(r"^(?:vet: )?(?P<file>\S{1,400}\.go):(?P<line>\d+):(?P<column>\d+): (?P<message>.+)$")
_LINTER = re.compile(
    r"^(?P<file>\S{1,400}\.pyi?):(?P<line>\d+):(?P<column>\d+): (?P<number>[A-Z]{1,5}\d{2,5})\b:? (?P<message>.+)$"
)
_RUSTC = re.compile(r"^error(?:\[(?P<number>E\d+)\])?: (?P<message>.+)$")
_RUSTC_LOCATION = re.compile(r"^\s*--> (?P<file>.+?):(?P<line>\d+):(?P<column>\d+)$")
_SHELL = re.compile(
    r"^(?P<type>(?:/\S*/)?(?:ba|z|da|fi)?sh): (?:line )?(?:\d+: )*(?P<message>.+: (?:command )?not found|.+: No such file or directory|.+: Permission denied)$"
)
_PREFIXED_ERROR = re.compile(
    r"^(?P<type>fatal|error|Error|ERROR|FATAL|npm ERR!|npm error|E:|ld|collect2):? (?P<message>\S.*)$"
)
_LINKER = re.compile(
    r"^(?:\S*ld(?:\.\w+)?: )?(?P<file>[^\s:]+):(?:\(\S+\)|(?P<line>\d+)): (?P<message>undefined reference to .+|multiple definition of .+)$"
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
_GOTEST_MESSAGE = re.compile(r"^\s+(?P<file>\S+_test\.go):(?P<line>\d+): (?P<message>.*)$")
_RUBY = re.compile(
    r"^(?P<file>\S[^:\n]*):(?P<line>\d+):in [`'](?P<function>[^']*)': (?P<message>.*) \((?P<type>[A-Z][\w:]*)\)$"
)
_RUBY_FROM = re.compile(r"^\s+(?:\d+: )?from (?P<file>.+?):(?P<line>\d+):in [`'](?P<function>[^']*)'")
_PHP = re.compile(
    r"^(?:PHP )?Fatal error:\s+Uncaught (?P<type>[\w\\]+): (?P<message>.*?) in (?P<file>/.+?):(?P<line>\d+)$"
)
_PHP_FRAME = re.compile(r"^#\d+ (?:(?P<file>.+?)\((?P<line>\d+)\): )?(?P<function>[\w\\:>{}-]+)(?:\(.*)?$")
_MAX_PYTEST_LINES = 80


def open_message(body: str, section: str) -> TraceBlock | None:
    """Open a block if the line begins an error; `section` is the test last named by pytest."""
    if _PYTEST_ERROR.match(body):
        return PytestBlock(body, section)
    if _GOTEST.match(body):
        return GoTestBlock(body)
    if body.startswith("error") and _RUSTC.match(body):
        return RustcBlock(body)
    if _RUBY.match(body):
        return RubyBlock(body)
    if "Uncaught" in body and _PHP.match(body):
        return PhpBlock(body)
    trace = _single_line_trace(body)
    return None if trace is None else SingleLineBlock(body, trace)


def message_trace(message: str, kind: str = "") -> StackTrace:
    """Return an error that consists of one line."""
    match = _NAMED_EXCEPTION.match(message.strip()) or _PREFIXED_ERROR.match(message.strip())
    if match:
        return StackTrace("generic", kind or match["type"].rstrip(":"), truncate_message(match["message"]))
    return StackTrace("generic", kind, truncate_message(message))


def _single_line_trace(body: str) -> StackTrace | None:
    for pattern in (_COMPILER, _TYPESCRIPT, _GO, _LINTER, _LINKER):
        match = pattern.match(body)
        if match:
            groups = match.groupdict()
            kind = groups.get("number") or groups.get("code") or "error"
            frame = StackFrame("", groups["file"], parse_number(groups["line"]), parse_number(groups.get("column")))
            return StackTrace("generic", kind, truncate_message(groups["message"]), (frame,))
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
        """Take the E lines and the location."""
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


class GoTestBlock(TraceBlock):
    """A failed Go test and its first message."""

    def take(self, body: str) -> BlockStep:
        if _GOTEST_MESSAGE.match(body):
            self.keep(body)
            return BlockStep.LAST
        return BlockStep.ENDED if body[:1] not in {" ", "\t"} or len(self.lines) > 10 else self.keep(body)

    def trace(self) -> StackTrace | None:
        head = _GOTEST.match(self.lines[0])
        if head is None:
            return None
        match = _GOTEST_MESSAGE.match(self.lines[-1])
        if match is None:
            return StackTrace("go", "test failure", "", (StackFrame(head["function"]),))
        frame = StackFrame(head["function"], match["file"], parse_number(match["line"]))
        return StackTrace("go", "test failure", truncate_message(match["message"]), (frame,))


class RustcBlock(TraceBlock):
    """A Rust compiler error; its location is on the next line."""

    def take(self, body: str) -> BlockStep:
        if _RUSTC_LOCATION.match(body):
            self.keep(body)
            return BlockStep.LAST
        return BlockStep.ENDED

    def trace(self) -> StackTrace | None:
        head = _RUSTC.match(self.lines[0])
        if head is None or _SUMMARY_MESSAGE.match(head["message"]):
            return None
        frames: tuple[StackFrame, ...] = ()
        if match := _RUSTC_LOCATION.match(self.lines[-1]):
            frames = (StackFrame("", match["file"], parse_number(match["line"]), parse_number(match["column"])),)
        language = "rust" if head["number"] or frames else "generic"
        return StackTrace(language, head["number"] or "error", truncate_message(head["message"]), frames)


class RubyBlock(TraceBlock):
    """A Ruby exception."""

    def take(self, body: str) -> BlockStep:
        return self.keep(body) if _RUBY_FROM.match(body) else BlockStep.ENDED

    def trace(self) -> StackTrace | None:
        head = _RUBY.match(self.lines[0])
        if head is None:
            return None
        calls = [head, *filter(None, map(_RUBY_FROM.match, self.lines[1:]))]
        frames = tuple(StackFrame(call["function"], call["file"], parse_number(call["line"])) for call in calls)
        return StackTrace("ruby", head["type"], truncate_message(head["message"]), frames)


class PhpBlock(TraceBlock):
    """An uncaught PHP exception."""

    def take(self, body: str) -> BlockStep:
        if body.startswith("  thrown in "):
            return BlockStep.LAST
        return self.keep(body) if _PHP_FRAME.match(body) or body.startswith("Stack trace:") else BlockStep.ENDED

    def trace(self) -> StackTrace | None:
        head = _PHP.match(self.lines[0])
        if head is None:
            return None
        calls = filter(None, map(_PHP_FRAME.match, self.lines[1:]))
        frames = [StackFrame("", head["file"], parse_number(head["line"]))]
        frames += [StackFrame(call["function"], call["file"] or "", parse_number(call["line"])) for call in calls]
        return StackTrace("php", head["type"], truncate_message(head["message"]), tuple(frames))
