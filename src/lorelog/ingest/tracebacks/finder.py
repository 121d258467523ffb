"""Find errors in program output: stack traces of several languages, compiler and test runner messages.

Text arrives line by line and may be long, interleaved and prefixed. A log line has up to two prefixes before its body.
The source (a container, a host's journal) passed it on; the lines of each source form a text of their own. The stamp is
the program's own prefix (time, level, thread, logger); lines of a stack trace often have no stamp.

A line that begins an error opens a block, and later lines go to the youngest open block that they can belong to: same
source, and no stamp or the same. A message without a stack is held back for a few lines, because the stack may follow.
Most lines of most logs are none of this, and cost one substring search.

A signature identifies equal errors: type, message and functions, without numbers, addresses, ids, paths and line numbers. Names stay: a
missing key `a` is not a missing key `b`, and error codes such as `E0308` are names. Only the innermost functions of a stack count, without
direct repetitions, so neither recursion depth nor the program's entry point matters.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.session import LocatedTrace, StackFrame, StackTrace
from lorelog.ingest.tracebacks import may_contain_error
from lorelog.ingest.tracebacks.blocks import (
    LOOKBACK_LINES,
    PYTEST_SECTION,
    RUST_HASH,
    BlockStep,
    PytestBlock,
    TraceBlock,
    message_trace,
    open_at_frames,
    open_message,
    open_panic,
    open_python_traceback,
    single_line_trace,
)

_ISO = r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_SYSLOG = rf"{_MONTH} [ \d]\d {_CLOCK}"
_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL|SEVERE|EMERG|ALERT|[Tt]race|[Dd]ebug|[Ii]nfo|[Ww]arn(?:ing)?|[Ff]atal)"
_SOURCE_PREFIX = re.compile(
    r"([A-Za-z][\w.-]{0,80}) {0,40}\| ?"
    rf"|(?:{_ISO}) (stdout|stderr) [FP] "
    rf"|(?:{_SYSLOG}|{_ISO}) (?!{_LEVEL}\b)([\w.-]{{1,80}} [\w./@-]{{1,80}})(?:\[\d+\])?: "
    rf"|([^\t\n]{{1,100}}\t[^\t\n]{{1,100}})\t\ufeff?(?:{_ISO}) "
    rf"|(?:\d{{4}}-\d\d-\d\dT{_CLOCK}Z) (?=[^\[\s]|\s\s)(?!{_LEVEL}\b)"
)
"""docker compose; Kubernetes runtime; syslog and journalctl; `gh run view --log`; GitHub Actions logs."""
_TOKENS = rf"(?:[ \t]{{0,2}}(?:{_LEVEL}\b:?|\[[^\[\]\n]{{0,80}}\]:?|\([^()\n]{{1,40}}\)|\d{{1,8}}(?= )|(?:---?|[|:])(?= ))){{0,8}}"
_STAMP = re.compile(
    rf"(?:\[?(?:{_ISO}|{_SYSLOG}|{_CLOCK})\]?(?:[ \t]{{0,2}}[-|:](?= ))?"
    rf"{_TOKENS}(?:[ \t]{{1,2}}(?![\w.]*(?:Error|Exception|Rejection|panic|error)\b)[\w.$/-]{{1,80}}(?: {{0,40}}:| -|\[\d+\]:)(?= ){_TOKENS})?"
    rf"|(?:\[[\w .:/-]{{1,60}}\][ \t]?){{0,3}}{_LEVEL}\b(?:\[[^\[\]\n]{{0,60}}\]|\([^()\n]{{1,60}}\))?(?::[\w.$-]{{1,80}}:|:| -)(?=[ \w\"'])"
    rf"|(?:\[[\w .:/-]{{1,60}}\][ \t]?){{1,3}}"
    rf"|[EWIF]\d{{4}} {_CLOCK}\s+\d+ [\w.-]+:\d+\])"
)
_SEVERE_WORD = re.compile(r"\b(?:ERROR|FATAL|CRITICAL|SEVERE|EMERG|ALERT|[Ff]atal)\b|^[EF]\d{4} ")
_LEVEL_WORD = re.compile(rf"\b{_LEVEL}\b")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")


class LogLine(Struct, frozen=True):
    """A log line, split into prefixes and body."""

    source: str
    """The container or host that passed the line on; empty if there is none."""
    stamp: str
    """The program's prefix without numbers and level, shared by lines that belong together; empty if there is none."""
    body: str
    is_severe: bool = False
    """True if the prefix has an error level."""


def clean_line(line: str) -> str:
    """Return a line without its line end and terminal escape sequences."""
    line = line.rstrip("\r\n")
    line = line.rpartition("\r")[2] if "\r" in line else line  # a progress bar overwrites itself
    return _ANSI.sub("", line) if "\x1b" in line else line


def parse_log_line(line: str) -> LogLine:
    """Split a clean line into source, stamp and body."""
    source, rest = "", line
    if prefix := _SOURCE_PREFIX.match(line):
        source, rest = prefix[prefix.lastindex] if prefix.lastindex else "", line[prefix.end() :]
    stamp = _STAMP.match(rest)
    if stamp is None or stamp.end() == 0:
        return LogLine(source, "", rest)
    head = stamp[0]
    body = rest[stamp.end() :]
    body = body[1:] if body[:1] == " " and not head.endswith(" ") else body
    key = _LEVEL_WORD.sub("", re.sub(r"\d+", "0", head)).strip()
    return LogLine(source, key or "-", body, is_severe=bool(_SEVERE_WORD.search(head)))


MAX_LINE_CHARS = 100_000
"""Longer lines are truncated."""
_MAX_OPEN_BLOCKS = 16
_MAX_FOREIGN_LINES = 200
"""Lines of other output after which a block counts as ended."""
_MAX_SECTIONS = 1_000
_MAX_TEXT_CHARS = 400_000
_MAX_SHOWN_CHARS = 2_000
_MAX_FRAMES = 40
_MAX_CAUSES = 8
_STACK_KEYS = (
    *("stack", "stack_trace", "stacktrace", "stackTrace", "exc_info", "exception", "traceback"),
    *("error", "err", "log", "message", "msg"),
)
_SEVERE_JSON_LEVELS = frozenset({"error", "fatal", "critical", "severe", "emerg", "alert", "panic", "50", "60"})


def find_traces(text: str, limit: int = 100) -> list[LocatedTrace]:
    """Return the errors in a text, in order; of a very long text only its beginning and end are searched."""
    if len(text) > 2 * _MAX_TEXT_CHARS:
        text = f"{text[:_MAX_TEXT_CHARS]}\n{text[-_MAX_TEXT_CHARS:]}"
    if not may_contain_error(text):
        return []
    recognizer = TraceRecognizer()
    traces: list[LocatedTrace] = []
    for line in text.split("\n"):
        traces += recognizer.feed(line)
        if len(traces) >= limit:
            break
    traces += recognizer.end()
    return sorted(traces, key=attrgetter("first_line"))[:limit]


def shorten_trace(located: LocatedTrace) -> LocatedTrace:
    """Return an error reduced to its innermost frames and part of its text."""
    trace = located.trace
    short = replace(
        trace,
        frames=trace.frames[:_MAX_FRAMES],
        causes=tuple(replace(cause, frames=cause.frames[:_MAX_FRAMES]) for cause in trace.causes[:_MAX_CAUSES]),
    )
    half = _MAX_SHOWN_CHARS // 2
    text = located.text
    if len(text) > _MAX_SHOWN_CHARS:
        text = f"{text[:half]}\n…\n{text[-half:]}"
    return replace(located, trace=short, text=text)


class _OpenBlock(Struct):
    """A block, and the lines it accepts."""

    block: TraceBlock
    line: LogLine
    first: int
    last: int
    foreign_lines: int = 0


class TraceRecognizer:
    """Reads lines and returns errors as they end. Its memory is bounded, however long the text is."""

    def __init__(self) -> None:
        self._open_blocks: list[_OpenBlock] = []
        self._pending_messages: list[tuple[str, LocatedTrace]] = []
        """Messages that may precede a stack, with their sources."""
        self._recent_lines: deque[tuple[int, str]] = deque(maxlen=LOOKBACK_LINES)
        """Lines that do not belong to an error yet."""
        self._section = ""
        self._sections: set[str] = set()
        self._number = 0

    def feed(self, line: str) -> Sequence[LocatedTrace]:
        """Read the next line and return the errors that it ended."""
        self._number += 1
        if not self._open_blocks and not may_contain_error(line):
            self._recent_lines.append((self._number, line))
            return self._expired_messages() if self._pending_messages else ()
        text = clean_line(line[:MAX_LINE_CHARS])
        ended = self._expired_messages()
        if not self._dispatch_line(parse_log_line(text), ended):
            self._recent_lines.append((self._number, text))
        return ended

    def end(self) -> Sequence[LocatedTrace]:
        """Return the errors that the end of the text ended."""
        ended = [trace for opened in self._open_blocks for trace in self._finish(opened)]
        ended += [message for _, message in self._pending_messages]
        self._open_blocks, self._pending_messages = [], []
        return sorted(ended, key=attrgetter("first_line"))

    # -- a line ------------------------------------------------------------------------------------------------------

    def _dispatch_line(self, line: LogLine, ended: list[LocatedTrace]) -> bool:
        """Pass a line to the block it belongs to, or open one; return True if it is now part of a block."""
        for opened in reversed(self._open_blocks.copy()):
            if opened.line.source != line.source or line.stamp not in {"", opened.line.stamp}:
                opened.foreign_lines += 1
                continue
            opened.block.is_interrupted = opened.foreign_lines > 0
            step = opened.block.take(line.body)
            if step in {BlockStep.TAKEN, BlockStep.LAST}:
                opened.last, opened.foreign_lines = self._number, 0
                if step is BlockStep.LAST:
                    ended += self._close(opened)
                return True
            opened.foreign_lines += 1
            if step is BlockStep.ENDED:
                ended += self._close(opened)
        for opened in [block for block in self._open_blocks if block.foreign_lines > _MAX_FOREIGN_LINES]:
            ended += self._close(opened)
        return self._try_open(line, ended)

    def _try_open(self, line: LogLine, ended: list[LocatedTrace]) -> bool:
        section = PYTEST_SECTION.match(line.body)
        if section:
            self._section = section["name"]
            return False
        if inline := self._traces_in_line(line):
            ended += inline
            return True
        before = self._lines_before(line) if line.body.lstrip().startswith(("at ", "Caused by")) else []
        block = self._open(line.body, [body for _, body in before])
        if block is None:
            trace = None if line.body.lstrip().startswith("at ") else single_line_trace(line.body)
            if trace is None and line.is_severe and line.body.strip():
                trace = message_trace(line.body)
            if trace is not None and not trace.frames:  # a stack may follow
                self._pending_messages.append((line.source, self._locate(trace, line.body)))
            # pytest's summary repeats errors it has printed
            elif trace is not None and (trace.language != "python" or trace.frames[0].function not in self._sections):
                ended.append(self._locate(trace, line.body))
            return False
        first = before[-block.lines_before][0] if block.lines_before else self._number
        # A pending message of the same source just before is the block's head, or the log line that announces it.
        own = {number for number, _ in before[-block.lines_before :]} if block.lines_before else set()
        lines = {*own, first}
        self._pending_messages = [
            (source, message)
            for source, message in self._pending_messages
            if source != line.source or not {message.last_line, message.last_line + 1} & lines
        ]
        self._open_blocks.append(_OpenBlock(block, line, first, self._number))
        if len(self._open_blocks) > _MAX_OPEN_BLOCKS:
            ended += self._close(self._open_blocks[0])
        return True

    def _open(self, body: str, before: Sequence[str]) -> TraceBlock | None:
        if body.lstrip().startswith("at "):
            return open_at_frames(body, before)
        return open_python_traceback(body) or open_panic(body, before) or open_message(body, self._section)

    def _lines_before(self, line: LogLine) -> list[tuple[int, str]]:
        """Return the earlier lines of the same source, back to the last one with another stamp."""
        lines: list[tuple[int, str]] = []
        for number, text in reversed(self._recent_lines):
            earlier = parse_log_line(clean_line(text[:MAX_LINE_CHARS]))
            if earlier.source == line.source:
                lines.append((number, earlier.body))
                if earlier.stamp not in {"", line.stamp}:
                    break
        return lines[::-1]

    def _expired_messages(self) -> list[LocatedTrace]:
        """Remove and return the messages that no stack has followed for `LOOKBACK_LINES` lines."""
        oldest = self._number - LOOKBACK_LINES
        expired = [message for _, message in self._pending_messages if message.last_line < oldest]
        if expired:
            self._pending_messages = [pending for pending in self._pending_messages if pending[1].last_line >= oldest]
        return expired

    def _close(self, opened: _OpenBlock) -> Iterator[LocatedTrace]:
        self._open_blocks.remove(opened)
        yield from self._finish(opened)

    def _finish(self, opened: _OpenBlock) -> Iterator[LocatedTrace]:
        if isinstance(opened.block, PytestBlock) and self._section:
            if len(self._sections) >= _MAX_SECTIONS:
                self._sections.clear()
            self._sections.add(self._section.replace("::", "."))
        trace = opened.block.trace()
        if trace is not None:
            yield LocatedTrace(trace, "\n".join(opened.block.lines), opened.first, opened.last)

    def _locate(self, trace: StackTrace, text: str) -> LocatedTrace:
        return LocatedTrace(trace, text, self._number, self._number)

    # -- whole stacks within a line ----------------------------------------------------------------------------------

    def _traces_in_line(self, line: LogLine) -> list[LocatedTrace]:
        """Return the errors of a line that contains a whole stack: JSON, or text with escaped line breaks."""
        body = line.body.lstrip()
        if body.startswith("{") and body.rstrip().endswith("}"):
            return self._traces_in_json(body)
        if "\\n" in body and ("Traceback (most recent" in body or re.search(r"\\n(?:\\t| +)at ", body)):
            unescaped = body.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
            start = max(0, unescaped.find("Traceback (most recent"))
            traces = find_traces(unescaped[start:], 5)
            return [self._at_current_line(located) for located in traces if located.trace.frames]
        return []

    def _traces_in_json(self, body: str) -> list[LocatedTrace]:
        try:
            entry = json.loads(body)
        except (ValueError, RecursionError):
            return []
        if not isinstance(entry, dict):
            return []
        for text in _stack_texts(entry):
            traces = [located for located in find_traces(text, 5) if located.trace.frames or located.trace.causes]
            if traces:
                return [self._at_current_line(located) for located in traces]
        level = str(entry.get("level") or entry.get("severity") or entry.get("levelname") or "")
        text = next((entry[key] for key in ("message", "msg", "error", "log") if isinstance(entry.get(key), str)), "")
        if text.strip() and level.lower() in _SEVERE_JSON_LEVELS:
            return [self._locate(message_trace(text), text)]
        return []

    def _at_current_line(self, located: LocatedTrace) -> LocatedTrace:
        return replace(located, first_line=self._number, last_line=self._number)


def _stack_texts(entry: dict[str, Any]) -> Iterable[str]:
    """Yield the texts of a log entry that may contain a stack, the most likely first."""
    for key in _STACK_KEYS:
        value = entry.get(key)
        if isinstance(value, dict):
            yield from _stack_texts({name: text for name, text in value.items() if isinstance(text, str)})
        elif isinstance(value, list) and all(isinstance(line, str) for line in value):
            yield "\n".join(value)
        elif isinstance(value, str) and value.strip():
            yield value


MAX_FUNCTIONS = 8
"""Innermost functions that are part of a signature."""

_MAX_MESSAGE_CHARS = 2_000
_DIGEST_CHARS = 12
_SIGNATURE_MAX_CAUSES = 4
_CLOSURE = re.compile(r"(?<=\.func)\d+(?:\.\d+)*|\$\d+(?=$|[.$])|(?<=lambda\$)\d+|(?<=\{closure#)\d+(?=\})")
_ARGUMENTS = re.compile(r"\((?!\*)[^()]*\)$")
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s'\"<>)\]}]+", re.IGNORECASE)
_ID = re.compile(r"\b[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b|\b0x[0-9a-f]+\b", re.IGNORECASE)
_PATH = re.compile(
    r"(?<![\w])[A-Za-z]:[\\/][^\s'\"<>|:*?]*"
    r"|(['\"`])(?=[^'\"`\n]*[/\\])(?:[A-Za-z]:|~|\.{0,2})?[/\\]?[^'\"`\n]*[/\\][^'\"`\n]*\1"
    r"|(?<![\w/])(?:~|\.{1,2})?/(?:[^\s'\"`<>:,;()\[\]{}/]+/)*[^\s'\"`<>:,;()\[\]{}/]*"
    r"|(?<![\w/.#])(?:[\w.@+-]+/)+[\w@+-]+(?:\.[\w]+)+"
)
"""A path of Windows, in quotes, absolute, or relative with a suffix."""
_HEX = re.compile(r"(?<![\w])(?=[0-9a-f]*\d)[0-9a-f]{7,}(?![\w])", re.IGNORECASE)
_NUMBER = re.compile(
    r"(?<![A-Za-z_\d])(?:\d+(?:\.\d+)?(?=(?:ns|us|µs|ms|s|m|h|d|B|kB|KB|MB|GB|KiB|MiB|GiB|px|x|th|st|nd|rd|%)(?![A-Za-z]))"
    r"|[-+]?\d+(?:[.,:_]\d+)*(?:e[-+]?\d+)?(?![A-Za-z_\d]))"
)
_PATH_LOCATION = re.compile(r"<path>(?::#)+|<path>\(#(?:,\s*#)?\)")

_MAX_ROUNDS = 20
_SUBSTITUTIONS = (
    *((_URL, "<url>"), (_ID, "#"), (_PATH, "<path>"), (_HEX, "#"), (_NUMBER, "#")),
    (_PATH_LOCATION, "<path>"),
)


def trace_signature(trace: StackTrace) -> str:
    """Return an error's signature, the same for every occurrence: `ValueError-3f2a9c1b8e4d`."""
    parts = [
        part
        for error in (trace, *trace.causes[:_SIGNATURE_MAX_CAUSES])
        for part in (
            *(error.type, normalize_message(error.message)),
            *[name for name, _ in groupby(filter(None, map(function_name, error.frames)))][:MAX_FUNCTIONS],
        )
    ]
    kind = re.sub(r"\W+", "_", bare_type(trace.type), flags=re.ASCII).strip("_")[:40] or trace.language
    return f"{kind}-{_digest([trace.language, *parts])}"


def trace_family(trace: StackTrace) -> str:
    """Return a digest of type and message only, shared by equal errors raised in different code."""
    return _digest([bare_type(trace.type), normalize_message(trace.message)])


def bare_type(name: str) -> str:
    """Return a type's name without its package."""
    return re.split(r"[.:/\\]+", name.strip())[-1] or name


def normalize_message(message: str) -> str:
    """Return the main line of a message with variable parts replaced by placeholders."""
    text = message_headline(_ANSI.sub("", message[:_MAX_MESSAGE_CHARS]))
    for _ in range(_MAX_ROUNDS):  # a substitution may produce text that another one matches
        before = text
        for pattern, mark in _SUBSTITUTIONS:
            text = pattern.sub(mark, text)
        text = " ".join(text.split())
        if text == before:
            break
    return text


def message_headline(message: str) -> str:
    """Return the first line of a message that is not blank, with the next one if it ends in a colon."""
    lines = [line.strip() for line in message.split("\n") if line.strip()]
    if not lines:
        return ""
    return f"{lines[0]} {lines[1]}" if lines[0].endswith(":") and len(lines) > 1 else lines[0]


def function_name(frame: StackFrame) -> str:
    """Return a frame's function without compiler-generated suffixes and arguments."""
    name = RUST_HASH.sub("", frame.function.strip())
    return _CLOSURE.sub("", _ARGUMENTS.sub("", name))


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
