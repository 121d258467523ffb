"""Errors without a stack: compilers, linters, test runners and shells, each with its own way of saying where; and Ruby, PHP.

Only forms that name a place, or that begin with a word for failing, are taken: a log is full of the word "error".
"""

from __future__ import annotations

import re

from lorelog.core.trace import Frame, StackTrace
from lorelog.ingest.stacks_block import Block, Step, Whole, cut, number

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
_ARROW = re.compile(r"^\s*--> (?P<file>.+?):(?P<line>\d+):(?P<column>\d+)$")
_SHELL = re.compile(
    r"^(?P<type>(?:/\S*/)?(?:ba|z|da|fi)?sh): (?:line )?(?:\d+: )*(?P<message>.+: (?:command )?not found|.+: No such file or directory|.+: Permission denied)$"
)
_SAID = re.compile(r"^(?P<type>fatal|error|Error|ERROR|FATAL|npm ERR!|npm error|E:|ld|collect2):? (?P<message>\S.*)$")
_LINKER = re.compile(
    r"^(?:\S*ld(?:\.\w+)?: )?(?P<file>[^\s:]+):(?:\(\S+\)|(?P<line>\d+)): (?P<message>undefined reference to .+|multiple definition of .+)$"
)
_SUMS_UP = re.compile(
    r"aborting due to|could not compile|(?:error: )?ld returned|linker command failed|Command failed with exit code|Process completed with exit code"
)
"""What only says that there were errors."""
_NAMED = re.compile(
    r"^(?:[\w./-]+: )?(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Panic)): (?P<message>\S.*)$"
)
_PYTEST = re.compile(r"^E {3,}(?P<said>\S.*)$")
_PYTEST_END = re.compile(r"^(?P<file>\S+\.py):(?P<line>\d+): ?(?P<type>[\w.]*)$")
_PYTEST_SUM = re.compile(
    r"^(?:FAILED|ERROR) (?P<file>[^\s:]+\.py)(?:::(?P<function>\S+))?(?: - (?:(?P<type>[\w.]+): )?(?P<message>.+))?$"
)
_TYPED = re.compile(r"^(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*): ?(?P<message>.*)$")
SECTION = re.compile(r"^_{2,} (?:ERROR at \w+ of )?(?P<name>\S.*?) _{2,}$")
"""What pytest writes above a failure."""
_GOTEST = re.compile(r"^\s*--- FAIL: (?P<function>\S+)")
_GOTEST_SAID = re.compile(r"^\s+(?P<file>\S+_test\.go):(?P<line>\d+): (?P<message>.*)$")
_RUBY = re.compile(
    r"^(?P<file>\S[^:\n]*):(?P<line>\d+):in [`'](?P<function>[^']*)': (?P<message>.*) \((?P<type>[A-Z][\w:]*)\)$"
)
_RUBY_FROM = re.compile(r"^\s+(?:\d+: )?from (?P<file>.+?):(?P<line>\d+):in [`'](?P<function>[^']*)'")
_PHP = re.compile(
    r"^(?:PHP )?Fatal error:\s+Uncaught (?P<type>[\w\\]+): (?P<message>.*?) in (?P<file>/.+?):(?P<line>\d+)$"
)
_PHP_FRAME = re.compile(r"^#\d+ (?:(?P<file>.+?)\((?P<line>\d+)\): )?(?P<function>[\w\\:>{}-]+)(?:\(.*)?$")
_PYTEST_LINES = 80


def open_message(body: str, section: str) -> Block | None:
    """Return a block that begins with this line; `section` is the test that a runner has just named."""
    if _PYTEST.match(body):
        return PytestBlock(body, section)
    if _GOTEST.match(body):
        return GoTestBlock(body)
    if body.startswith("error") and _RUSTC.match(body):
        return RustcBlock(body)
    if _RUBY.match(body):
        return RubyBlock(body)
    if "Uncaught" in body and _PHP.match(body):
        return PhpBlock(body)
    trace = _whole(body)
    return None if trace is None else Whole(body, trace)


def said_alone(message: str, kind: str = "") -> StackTrace:
    """Return an error of which only a line is known."""
    found = _NAMED.match(message.strip()) or _SAID.match(message.strip())
    if found:
        return StackTrace("generic", kind or found["type"].rstrip(":"), cut(found["message"]))
    return StackTrace("generic", kind, cut(message))


def _whole(body: str) -> StackTrace | None:
    for pattern in (_COMPILER, _TYPESCRIPT, _GO, _LINTER, _LINKER):
        found = pattern.match(body)
        if found:
            groups = found.groupdict()
            kind = groups.get("number") or groups.get("code") or "error"
            frame = Frame("", groups["file"], number(groups["line"]), number(groups.get("column")))
            return StackTrace("generic", kind, cut(groups["message"]), (frame,))
    found = _PYTEST_SUM.match(body)
    if found:
        frame = Frame((found["function"] or "").replace("::", "."), found["file"])
        return StackTrace("python", found["type"] or "test failure", cut(found["message"] or ""), (frame,))
    found = _SHELL.match(body)
    if found:
        return StackTrace("generic", found["type"].rpartition("/")[2], cut(found["message"]))
    found = _NAMED.match(body) or _SAID.match(body)
    if found is None or _SUMS_UP.match(found["message"]):
        return None
    return StackTrace("generic", found["type"].rstrip(":"), cut(found["message"]))


class PytestBlock(Block):
    """What pytest says of a failure: lines that begin with E, and the place after them."""

    def __init__(self, body: str, section: str) -> None:
        super().__init__(body)
        self._section = section
        self._end: re.Match[str] | None = None
        self._seen = 0

    def take(self, body: str) -> Step:
        """Take the lines with an E, and the place."""
        self._seen += 1
        if _PYTEST.match(body):
            return self.keep(body)
        self._end = _PYTEST_END.match(body)
        if self._end:
            self.keep(body)
            return Step.LAST
        return Step.OVER if body.startswith(("___", "===", "FAILED ")) or self._seen > _PYTEST_LINES else Step.TAKEN

    def trace(self) -> StackTrace | None:
        """Return it."""
        said = [found["said"] for found in map(_PYTEST.match, self.lines) if found]
        found = _TYPED.match(said[0])
        told = self._end["type"] if self._end else ""
        kind, message = (found["type"], found["message"]) if found else (told or "AssertionError", said[0])
        frames: tuple[Frame, ...] = ()
        if self._end:
            test, place = self._section.replace("::", "."), (self._end["file"], number(self._end["line"]))
            is_own = not test or "test" in place[0].rpartition("/")[2]
            frames = (Frame(test, *place),) if is_own else (Frame("", *place), Frame(test))
        return StackTrace("python", kind, cut("\n".join([message, *said[1:]])), frames)


class GoTestBlock(Block):
    """A failed test of Go, and the first thing that it said."""

    def take(self, body: str) -> Step:
        """Take what the test said."""
        if _GOTEST_SAID.match(body):
            self.keep(body)
            return Step.LAST
        return Step.OVER if body[:1] not in {" ", "\t"} or len(self.lines) > 10 else self.keep(body)

    def trace(self) -> StackTrace | None:
        """Return it."""
        head = _GOTEST.match(self.lines[0])
        if head is None:
            return None
        said = _GOTEST_SAID.match(self.lines[-1])
        frame = Frame(head["function"], said["file"], number(said["line"])) if said else Frame(head["function"])
        return StackTrace("go", "test failure", cut(said["message"] if said else ""), (frame,))


class RustcBlock(Block):
    """An error of the Rust compiler: its place is on the next line."""

    def take(self, body: str) -> Step:
        """Take the place."""
        if _ARROW.match(body):
            self.keep(body)
            return Step.LAST
        return Step.OVER

    def trace(self) -> StackTrace | None:
        """Return it."""
        head = _RUSTC.match(self.lines[0])
        if head is None or _SUMS_UP.match(head["message"]):
            return None
        place = _ARROW.match(self.lines[-1])
        frames = (Frame("", place["file"], number(place["line"]), number(place["column"])),) if place else ()
        return StackTrace(
            "rust" if head["number"] or place else "generic", head["number"] or "error", cut(head["message"]), frames
        )


class RubyBlock(Block):
    """An exception of Ruby."""

    def take(self, body: str) -> Step:
        """Take its callers."""
        return self.keep(body) if _RUBY_FROM.match(body) else Step.OVER

    def trace(self) -> StackTrace | None:
        """Return it."""
        head = _RUBY.match(self.lines[0])
        if head is None:
            return None
        places = [head, *(found for found in map(_RUBY_FROM.match, self.lines[1:]) if found)]
        frames = tuple(Frame(one["function"], one["file"], number(one["line"])) for one in places)
        return StackTrace("ruby", head["type"], cut(head["message"]), frames)


class PhpBlock(Block):
    """An exception of PHP that nobody caught."""

    def take(self, body: str) -> Step:
        """Take its stack."""
        if body.startswith("  thrown in "):
            return Step.LAST
        return self.keep(body) if _PHP_FRAME.match(body) or body.startswith("Stack trace:") else Step.OVER

    def trace(self) -> StackTrace | None:
        """Return it."""
        head = _PHP.match(self.lines[0])
        if head is None:
            return None
        found = [one for one in map(_PHP_FRAME.match, self.lines[1:]) if one]
        frames = [Frame("", head["file"], number(head["line"]))]
        frames += [Frame(one["function"], one["file"] or "", number(one["line"])) for one in found]
        return StackTrace("php", head["type"], cut(head["message"]), tuple(frames))
