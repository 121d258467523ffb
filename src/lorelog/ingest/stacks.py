"""Finding errors in what programs print: stack traces of several languages, compilers' and test runners' messages.

The text comes a line at a time and may be endless, interleaved, and prefixed by whoever logged it (`stacks_lines`). A line that
begins an error opens a block (`stacks_block`), and later lines go to the youngest open block that they can belong to:
the same carrier, and no stamp or the same. A message alone is held back for a few lines, because what follows may be the
stack that it is the head of. Most lines of most logs are none of this, and cost one search for a pattern.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from lorelog.core.trace import FoundTrace, StackTrace
from lorelog.ingest.stacks_at import LOOKS_BACK, open_at
from lorelog.ingest.stacks_block import Block, Step, Whole
from lorelog.ingest.stacks_lines import LogLine, plain, take_apart, time_of
from lorelog.ingest.stacks_messages import SECTION, PytestBlock, open_message, said_alone
from lorelog.ingest.stacks_panics import open_panic
from lorelog.ingest.stacks_python import open_python

LINE_CHARS = 100_000
"""Of one line; what is longer is read to here."""
_MOST_OPEN = 16
_PATIENCE = 200
"""Lines of others after which a block is taken as ended."""
_MOST_SECTIONS = 1_000
_TEXT_CHARS = 400_000
_SHOWN_CHARS = 2_000
_FRAMES = 40
_CAUSES = 8
_TELLING = (
    *(
        "rror",
        "xception",
        "raceback",
        "panic",
        "ERR",
        "FATAL",
        "CRITICAL",
        "SEVERE",
        "EMERG",
        "ALERT",
        "atal",
        "ailure",
    ),
    *(
        "hrowable",
        "ejection",
        "  at ",
        "\tat ",
        '", line ',
        "Caused by",
        "FAILED",
        "--- FAIL",
        "E   ",
        "___ ",
        ".go:",
        ".py:",
        ".pyi:",
    ),
    *(":in ", "not found", "No such file", "ermission denied", "undefined reference", "multiple definition", "imeout"),
)
"""One of these is in every line that begins an error, and in every text that tells one."""
_STACK_KEYS = (
    "stack",
    "stack_trace",
    "stacktrace",
    "stackTrace",
    "exc_info",
    "exception",
    "traceback",
    "error",
    "err",
    "log",
    "message",
    "msg",
)
_TIME_KEYS = ("time", "timestamp", "ts", "@timestamp", "datetime")
_SEVERE = re.compile(r"^(?:error|fatal|critical|severe|emerg|alert|panic|50|60)$", re.IGNORECASE)


def find_traces(text: str, limit: int = 100) -> list[FoundTrace]:
    """Return the errors that a text tells, in their order; of a very long one those of its beginning and its end."""
    if len(text) > 2 * _TEXT_CHARS:
        text = f"{text[:_TEXT_CHARS]}\n{text[-_TEXT_CHARS:]}"
    if not may_tell(text):
        return []
    recogniser = Recogniser()
    found: list[FoundTrace] = []
    for line in text.split("\n"):
        found += recogniser.feed(line)
        if len(found) >= limit:
            break
    found += recogniser.end()
    return sorted(found, key=lambda one: one.first_line)[:limit]


def shortened(found: FoundTrace) -> FoundTrace:
    """Return an error with so much of it as is worth keeping for a while: its innermost frames, and some of its text."""
    trace = found.trace
    short = replace(
        trace,
        frames=trace.frames[:_FRAMES],
        causes=tuple(replace(one, frames=one.frames[:_FRAMES]) for one in trace.causes[:_CAUSES]),
    )
    half = _SHOWN_CHARS // 2
    text = found.text if len(found.text) <= _SHOWN_CHARS else f"{found.text[:half]}\n…\n{found.text[-half:]}"
    return replace(found, trace=short, text=text)


def may_tell(text: str) -> bool:
    """Say whether a line, or a text of many, has anything of an error in it. Plain searches: a pattern takes ten times as long."""
    for word in _TELLING:  # noqa: SIM110  (a generator takes twice as long)
        if word in text:
            return True
    return False


@dataclass(slots=True)
class _Opened:
    """A block, and whose lines it takes."""

    block: Block
    line: LogLine
    first: int
    last: int
    foreign: int = 0


class Recogniser:
    """Reads lines and gives errors as they end. What it holds is bounded, however long the text is."""

    def __init__(self) -> None:
        self._opened: list[_Opened] = []
        self._held: list[tuple[str, FoundTrace]] = []
        """Messages that may be heads of stacks, with their carriers."""
        self._before: deque[tuple[int, str]] = deque(maxlen=LOOKS_BACK)
        """Lines that belong to no error yet."""
        self._section = ""
        self._sections: set[str] = set()
        self._number = 0
        self._year = datetime.now(UTC).year

    @property
    def is_idle(self) -> bool:
        """Whether lines without a trigger mean nothing now."""
        return not self._opened and not self._held

    def skip(self, lines: Sequence[str], count: int) -> None:
        """Pass over `count` lines that have no trigger, of which these are the last; only when idle."""
        self._number += count
        self._before.extend(enumerate(lines, self._number - len(lines) + 1))

    def feed(self, line: str) -> Sequence[FoundTrace]:
        """Take the next line, and return the errors that have ended."""
        self._number += 1
        if not self._opened and not may_tell(line):
            self._before.append((self._number, line))
            return self._ripe() if self._held else ()
        text = plain(line[:LINE_CHARS])
        found = self._ripe()
        if not self._is_taken(take_apart(text), found):
            self._before.append((self._number, text))
        return found

    def end(self) -> Sequence[FoundTrace]:
        """Return what the end of the text ends."""
        found = [one for opened in self._opened for one in self._finish(opened)]
        found += [held for _, held in self._held]
        self._opened, self._held = [], []
        return sorted(found, key=lambda one: one.first_line)

    # -- a line ------------------------------------------------------------------------------------------------------

    def _is_taken(self, line: LogLine, found: list[FoundTrace]) -> bool:
        """Give a line to the block that it belongs to, or see what it begins; say whether it is a block's now."""
        for opened in reversed(self._opened.copy()):
            if opened.line.carrier != line.carrier or line.stamp not in {"", opened.line.stamp}:
                opened.foreign += 1
                continue
            opened.block.is_apart = opened.foreign > 0
            step = opened.block.take(line.body)
            if step in {Step.TAKEN, Step.LAST}:
                opened.last, opened.foreign = self._number, 0
                if step is Step.LAST:
                    found += self._close(opened)
                return True
            opened.foreign += 1
            if step is Step.OVER:
                found += self._close(opened)
        for opened in [one for one in self._opened if one.foreign > _PATIENCE]:
            found += self._close(opened)
        return self._is_begun(line, found)

    def _is_begun(self, line: LogLine, found: list[FoundTrace]) -> bool:
        section = SECTION.match(line.body)
        if section:
            self._section = section["name"]
            return False
        told = self._told_whole(line)
        if told:
            found += told
            return True
        before = self._said_before(line) if line.body.lstrip().startswith(("at ", "Caused by")) else []
        block = self._open(line.body, [body for _, body in before])
        if block is None:
            if line.severe and line.body.strip():
                self._hold(line, said_alone(line.body))
            return False
        if isinstance(block, Whole):
            found += self._settle(line, block)
            return False
        first = before[-block.reach][0] if block.reach else self._number
        # What was held of the same carrier is its head, or the line of a log that announces it.
        own = {number for number, _ in before[-block.reach :]} if block.reach else set()
        self._held = [
            one
            for one in self._held
            if one[0] != line.carrier or not {one[1].last_line, one[1].last_line + 1} & {*own, first}
        ]
        if not line.at:
            line = replace(line, at=self._last_time(line))
        self._opened.append(_Opened(block, line, first, self._number))
        if len(self._opened) > _MOST_OPEN:
            found += self._close(self._opened[0])
        return True

    def _open(self, body: str, before: Sequence[str]) -> Block | None:
        if body.lstrip().startswith("at "):
            return open_at(body, before)
        return open_python(body) or open_panic(body, before) or open_message(body, self._section)

    def _said_before(self, line: LogLine) -> list[tuple[int, str]]:
        """Return what the carrier of a line has said before, back to the last line that has a stamp."""
        said: list[tuple[int, str]] = []
        for number, text in reversed(self._before):
            one = take_apart(plain(text[:LINE_CHARS]))
            if one.carrier == line.carrier:
                said.append((number, one.body))
                if one.stamp not in {"", line.stamp}:
                    break
        return said[::-1]

    def _last_time(self, line: LogLine) -> str:
        """Return the time of the last line of a carrier that has one: a log says it once, and not before every frame."""
        for _, text in reversed(self._before):
            one = take_apart(plain(text[:LINE_CHARS]))
            if one.carrier == line.carrier and one.at:
                return one.at
        return ""

    def _settle(self, line: LogLine, block: Whole) -> Iterator[FoundTrace]:
        """See to a message alone: one that names a place is an error, another may be the head of one."""
        trace = block.trace()
        if trace.language == "python":  # pytest's summary repeats what it has told
            if trace.frames[0].function not in self._sections:
                yield self._found(line, trace, line.body, self._number, self._number)
        elif trace.frames:
            yield self._found(line, trace, line.body, self._number, self._number)
        else:
            self._hold(line, trace)

    def _hold(self, line: LogLine, trace: StackTrace) -> None:
        self._held.append((line.carrier, self._found(line, trace, line.body, self._number, self._number)))

    def _ripe(self) -> list[FoundTrace]:
        """Return messages that nothing has followed for long enough."""
        ripe = [held for _, held in self._held if held.last_line < self._number - LOOKS_BACK]
        if ripe:
            self._held = [one for one in self._held if one[1].last_line >= self._number - LOOKS_BACK]
        return ripe

    def _close(self, opened: _Opened) -> Iterator[FoundTrace]:
        self._opened.remove(opened)
        yield from self._finish(opened)

    def _finish(self, opened: _Opened) -> Iterator[FoundTrace]:
        if isinstance(opened.block, PytestBlock) and self._section:
            if len(self._sections) >= _MOST_SECTIONS:
                self._sections.clear()
            self._sections.add(self._section.replace("::", "."))
        trace = opened.block.trace()
        if trace is not None:
            yield self._found(opened.line, trace, opened.block.text, opened.first, opened.last)

    def _found(self, line: LogLine, trace: StackTrace, text: str, first: int, last: int) -> FoundTrace:
        return FoundTrace(trace, text, first, last, time_of(line.at, self._year))

    # -- whole stacks within a line ----------------------------------------------------------------------------------

    def _told_whole(self, line: LogLine) -> list[FoundTrace]:
        """Return the errors of a line that holds all of a stack: JSON, or a text with its line breaks spelt out."""
        body = line.body.lstrip()
        if body.startswith("{") and body.rstrip().endswith("}"):
            return self._told_in_json(line, body)
        if "\\n" in body and ("Traceback (most recent" in body or re.search(r"\\n(?:\\t| +)at ", body)):
            spelt = body.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
            start = max(0, spelt.find("Traceback (most recent"))
            return [self._placed(line, one) for one in find_traces(spelt[start:], 5) if one.trace.frames]
        return []

    def _told_in_json(self, line: LogLine, body: str) -> list[FoundTrace]:
        try:
            entry = json.loads(body)
        except (ValueError, RecursionError):
            return []
        if not isinstance(entry, dict):
            return []
        at = next((str(entry[key]) for key in _TIME_KEYS if isinstance(entry.get(key), str)), line.at)
        line = replace(line, at=at)
        for text in _texts(entry):
            found = [one for one in find_traces(text, 5) if one.trace.frames or one.trace.causes]
            if found:
                return [self._placed(line, one) for one in found]
        level = str(entry.get("level") or entry.get("severity") or entry.get("levelname") or "")
        said = next((entry[key] for key in ("message", "msg", "error", "log") if isinstance(entry.get(key), str)), "")
        if said.strip() and _SEVERE.match(level):
            return [self._found(line, said_alone(said), said, self._number, self._number)]
        return []

    def _placed(self, line: LogLine, found: FoundTrace) -> FoundTrace:
        at = time_of(line.at, self._year) or found.at
        return replace(found, first_line=self._number, last_line=self._number, at=at)


def _texts(entry: dict[str, Any]) -> Iterable[str]:
    """Yield what an entry of a log may hold a stack in, the likeliest first."""
    for key in _STACK_KEYS:
        value = entry.get(key)
        if isinstance(value, dict):
            yield from _texts({name: one for name, one in value.items() if isinstance(one, str)})
        elif isinstance(value, list) and all(isinstance(one, str) for one in value):
            yield "\n".join(value)
        elif isinstance(value, str) and value.strip():
            yield value
