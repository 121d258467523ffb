"""Panics of Rust and Go, with their backtraces, and the chains of causes that Rust programs print."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lorelog.core.trace import Frame, StackTrace
from lorelog.ingest.stacks_block import Block, Step, cut, number

_RUST = re.compile(
    r"^thread '(?P<thread>[^']*)'(?: \(\d+\))? panicked at (?:'(?P<message>.*)', )?(?P<file>[^\n']+?):(?P<line>\d+):(?P<column>\d+):?$"
)
_RUST_FRAME = re.compile(r"^\s*\d+: +(?:0x[0-9a-f]+ - )?(?P<function>.+?)\s*$")
_RUST_PLACE = re.compile(r"^\s+at (?P<file>.+?):(?P<line>\d+)(?::(?P<column>\d+))?$")
_RUST_INTERNAL = re.compile(
    r"^(?:rust_begin_unwind|__rust|_?_?libc_start|_start$|main$|std::|core::|alloc::|<?test::|<unknown>|clone3?$|start_thread$)|^<(?:std|core|alloc)::|^<.* as (?:std|core|alloc)::"
)
_HASH = re.compile(r"::h[0-9a-f]{16}$")
_GO = re.compile(r"^(?:.*\bhttp: )?(?:panic(?: serving [^\s]+)?|fatal error): (?P<message>.*)$")
_GOROUTINE = re.compile(r"^goroutine \d+ (?:gp=\S+ m=\S+ )?\[[^\]]*\]:$")
_GO_CALL = re.compile(
    r"^(?:created by )?(?P<function>[^\s(][^\s]*?)(?:\((?:[^()]|\([^()]*\))*\))?(?: in goroutine \d+)?$"
)
_GO_PLACE = re.compile(r"^\t(?P<file>.+?):(?P<line>\d+)(?: \+0x[0-9a-f]+)?$")
_GO_ELSE = re.compile(r"^(?:\s*$|\[signal |\tpanic: |\.\.\.\s?additional|exit status \d|\[recovered|goroutine \d+ )")
_MARKS = re.compile(r"\s*\[recovered(?:, repanicked)?\]")
_CHAIN = re.compile(r"^Error: (?P<message>.+)$")
_LINK = re.compile(r"^\s+(?:\d+: )?(?P<message>\S.*)$")
_MESSAGE_LINES = 20


def open_panic(body: str, before: Sequence[str]) -> Block | None:
    """Return a block that begins with this line; a chain of causes begins with what stands before it."""
    if "panicked at" in body and _RUST.match(body):
        return RustBlock(body)
    if ("panic" in body or "fatal error: " in body) and _GO.match(body):
        return GoBlock(body)
    if body.rstrip() == "Caused by:":
        backs = [back for back in range(1, min(3, len(before)) + 1) if _CHAIN.match(before[-back])]
        return ChainBlock(before[-backs[0]], body, backs[0]) if backs else None
    return None


class RustBlock(Block):
    """A panic, its message, and its backtrace where one was asked for."""

    def __init__(self, body: str) -> None:
        super().__init__(body)
        head = _RUST.match(body)
        self._says = [head["message"] or ""] if head and head["message"] is not None else list[str]()
        self._said = bool(self._says)
        self._in_stack = False

    def take(self, body: str) -> Step:
        """Take the message, then frames."""
        if body.startswith("stack backtrace:"):
            self._in_stack = True
            return self.keep(body)
        if self._in_stack:
            if _RUST_PLACE.match(body) or _RUST_FRAME.match(body):
                return self.keep(body)
            return Step.LAST if body.startswith("note: ") else Step.OVER
        if body.startswith("note: "):
            return Step.LAST
        if (self._says and body[:1] not in {" ", "\t"}) or len(self._says) >= _MESSAGE_LINES or _RUST.match(body):
            return Step.OVER
        if not self._said or body.strip():
            self._says.append(body)
        return self.keep(body)

    def trace(self) -> StackTrace | None:
        """Return it. The place that is told first is the innermost one of the program's own."""
        head = _RUST.match(self.lines[0])
        if head is None:
            return None
        place = (head["file"], number(head["line"]), number(head["column"]))
        frames = [one for one in _rust_frames(self.lines[1:]) if not _RUST_INTERNAL.match(one.function)]
        if not frames:
            frames = [Frame("", *place)]
        elif not frames[0].file:
            frames[0] = Frame(frames[0].function, *place)
        return StackTrace("rust", "panic", cut("\n".join(self._says)), tuple(frames))


class GoBlock(Block):
    """A panic and the goroutine that it happened in; of the others nothing is kept."""

    def __init__(self, body: str) -> None:
        super().__init__(body)
        self._goroutines = 0
        self._more = 0

    def take(self, body: str) -> Step:
        """Take frames of goroutines, the first one's to keep."""
        if _GOROUTINE.match(body):
            self._goroutines += 1
            return Step.TAKEN
        if not self._goroutines:
            if _GO_ELSE.match(body):
                return self.keep(body) if body.strip() else Step.TAKEN
            self._more += 1
            return self.keep(body) if self._more <= 5 and not _GO.match(body) else Step.OVER
        if body.startswith("exit status "):
            return Step.LAST
        if _GO_PLACE.match(body) or _GO_ELSE.match(body) or _GO_CALL.match(body):
            return self.keep(body) if self._goroutines == 1 and body.strip() else Step.TAKEN
        return Step.OVER

    def trace(self) -> StackTrace | None:
        """Return it; a panic without a goroutine is somebody's way of speaking."""
        head = _GO.match(self.lines[0])
        if head is None or not self._goroutines:
            return None
        frames: list[Frame] = []
        name = ""
        for line in self.lines[1:]:
            place = _GO_PLACE.match(line)
            if place and name:
                frames.append(Frame(name, place["file"], number(place["line"])))
                name = ""
            elif line[:1] not in {"\t", "["}:
                call = _GO_CALL.match(line)
                name = call["function"] if call else ""
        kept = [one for one in frames if not one.function.startswith(("panic", "runtime."))] or frames
        kind = "fatal error" if self.lines[0].lstrip().startswith("fatal error") else "panic"
        return StackTrace("go", kind, cut(_MARKS.sub("", head["message"])), tuple(kept))


class ChainBlock(Block):
    """An error with numbered causes, as Rust's `anyhow` and `eyre` print it."""

    def __init__(self, head: str, body: str, reach: int) -> None:
        super().__init__(head, body)
        self.reach = reach

    def take(self, body: str) -> Step:
        """Take the causes."""
        if _LINK.match(body) and len(self.lines) < 50:
            return self.keep(body)
        return Step.OVER

    def trace(self) -> StackTrace | None:
        """Return it, with its causes."""
        head = _CHAIN.match(self.lines[0])
        links = [found for found in map(_LINK.match, self.lines[2:]) if found]
        if head is None or not links:
            return None
        causes = tuple(StackTrace("rust", "Error", cut(found["message"])) for found in links)
        return StackTrace("rust", "Error", cut(head["message"]), (), causes)


def _rust_frames(lines: Sequence[str]) -> list[Frame]:
    frames: list[Frame] = []
    for line in lines:
        place = _RUST_PLACE.match(line)
        if place and frames:
            frames[-1] = Frame(frames[-1].function, place["file"], number(place["line"]), number(place["column"]))
            continue
        found = _RUST_FRAME.match(line)
        if found:
            frames.append(Frame(_HASH.sub("", found["function"])))
    return frames
