"""Find errors in program output: stack traces of several languages, compiler and test runner messages.

Text may be long, interleaved and prefixed. A log line has up to two prefixes before its body. The source (a container,
a host's journal) passed it on; the lines of each source form a text of their own. The stamp is the program's own prefix
(time, level, thread, logger); lines of a stack trace often have no stamp. So the lines that may belong to an error are
those of its source without a stamp, or with the stamp of its first line. Most lines of most logs are none of this, and
cost one substring search.

A signature identifies equal errors: type, message and functions, without numbers, addresses, ids, paths and line numbers. Names stay: a
missing key `a` is not a missing key `b`, and error codes such as `E0308` are names. Only the innermost functions of a stack count, without
direct repetitions, so neither recursion depth nor the program's entry point matters.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from lorelog.core.session import LocatedTrace, StackFrame, StackTrace
from lorelog.ingest.tracebacks import blocks, may_contain_error

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


def clean_line(line: str) -> str:
    """Return a line without its line end and terminal escape sequences."""
    line = line.rstrip("\r\n")
    line = line.rpartition("\r")[2] if "\r" in line else line  # a progress bar overwrites itself
    return _ANSI.sub("", line) if "\x1b" in line else line


def parse_log_line(line: str, number: int = 0) -> blocks.LogLine:
    """Split a clean line into source, stamp and body."""
    source, rest = "", line
    if prefix := _SOURCE_PREFIX.match(line):
        source, rest = prefix[prefix.lastindex] if prefix.lastindex else "", line[prefix.end() :]
    stamp = _STAMP.match(rest)
    if stamp is None or stamp.end() == 0:
        return blocks.LogLine(source, "", rest, number=number)
    head = stamp[0]
    body = rest[stamp.end() :]
    body = body[1:] if body[:1] == " " and not head.endswith(" ") else body
    key = _LEVEL_WORD.sub("", re.sub(r"\d+", "0", head)).strip()
    return blocks.LogLine(source, key or "-", body, is_severe=bool(_SEVERE_WORD.search(head)), number=number)


MAX_LINE_CHARS = 100_000
"""Longer lines are truncated."""
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
    return sorted(_TraceFinder(text.split("\n")).find(limit), key=attrgetter("first_line"))[:limit]


def shorten_trace(located: LocatedTrace) -> LocatedTrace:
    """Return an error reduced to its innermost frames and part of its text."""
    trace, text, half = located.trace, located.text, _MAX_SHOWN_CHARS // 2
    causes = tuple(replace(cause, frames=cause.frames[:_MAX_FRAMES]) for cause in trace.causes[:_MAX_CAUSES])
    if len(text) > _MAX_SHOWN_CHARS:
        text = f"{text[:half]}\n…\n{text[-half:]}"
    return replace(located, trace=replace(trace, frames=trace.frames[:_MAX_FRAMES], causes=causes), text=text)


class _TraceFinder:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._parsed: dict[int, blocks.LogLine] = {}
        self._taken: set[int] = set()
        """Numbers of lines that are part of an error."""
        self._section = ""
        self._sections: set[str] = set()
        """Tests whose failure pytest has printed in full: its summary repeats them."""

    def find(self, limit: int) -> list[LocatedTrace]:
        """Return the errors, in no particular order."""
        traces: list[LocatedTrace] = []
        messages: list[tuple[str, LocatedTrace]] = []
        for number, text in enumerate(self._lines, 1):
            if number in self._taken or not may_contain_error(text):
                continue
            if len(traces) + len(messages) >= limit:
                break
            line = self._line(number)
            if section := blocks.PYTEST_SECTION.match(line.body):
                self._section = section["name"]
            elif inline := self._traces_in_line(line):
                traces += inline
            elif block := self._read_block(line):
                traces.append(block)
                # A message just before is the head of the error, or the log line that announces it.
                near = range(block.first_line - 1, block.last_line + 1)
                messages = [
                    (source, kept) for source, kept in messages if source != line.source or kept.last_line not in near
                ]
            elif trace := self._single_line(line):
                located = LocatedTrace(trace, line.body, number, number)
                if trace.frames:
                    traces.append(located)
                else:
                    messages.append((line.source, located))
        return [*traces, *(message for _, message in messages)]

    def _line(self, number: int) -> blocks.LogLine:
        if number not in self._parsed:
            text = clean_line(self._lines[number - 1][:MAX_LINE_CHARS])
            self._parsed[number] = parse_log_line(text, number)
        return self._parsed[number]

    def _read_block(self, line: blocks.LogLine) -> LocatedTrace | None:
        is_late = line.body.lstrip().startswith(("at ", "Caused by"))
        found = blocks.find_reader(line.body, self._lines_before(line) if is_late else (), self._section)
        if found is None:
            return None
        read, before = found
        lines = blocks.ErrorLines([*before, line], self._lines_after(line))
        trace = read(lines)
        if trace is None:
            return None
        if blocks.is_pytest_error(line.body):
            self._sections.add(self._section.replace("::", "."))
        numbers = [number for number, _ in lines.taken]
        self._taken.update(numbers)
        return LocatedTrace(trace, "\n".join(lines.bodies), numbers[0], numbers[-1])

    def _single_line(self, line: blocks.LogLine) -> StackTrace | None:
        trace = None if line.body.lstrip().startswith("at ") else blocks.single_line_trace(line.body)
        if trace is None and line.is_severe and line.body.strip():
            trace = blocks.message_trace(line.body)
        is_repeated = trace and trace.language == "python" and trace.frames[0].function in self._sections
        return None if is_repeated else trace

    def _lines_after(self, first: blocks.LogLine) -> Iterator[blocks.LogLine]:
        """Yield the later lines that may belong to an error."""
        for number in range(first.number + 1, len(self._lines) + 1):
            line = self._line(number)
            if line.source == first.source and line.stamp in {"", first.stamp} and number not in self._taken:
                yield line

    def _lines_before(self, line: blocks.LogLine) -> list[blocks.LogLine]:
        """Return the last lines of the same source that are not part of an error, back to one with another stamp."""
        lines: list[blocks.LogLine] = []
        for number in range(line.number - 1, max(0, line.number - blocks.LOOKBACK_LINES - 1), -1):
            earlier = self._line(number)
            if earlier.source == line.source and number not in self._taken:
                lines.append(earlier)
                if earlier.stamp not in {"", line.stamp}:
                    break
        return lines[::-1]

    def _traces_in_line(self, line: blocks.LogLine) -> list[LocatedTrace]:
        """Return the errors of a line that contains a whole stack: JSON, or text with escaped line breaks."""
        body = line.body.strip()
        found: list[LocatedTrace] = []
        if body.startswith("{") and body.endswith("}"):
            found = _traces_in_json(body)
        elif "\\n" in body and ("Traceback (most recent" in body or re.search(r"\\n(?:\\t| +)at ", body)):
            unescaped = body.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
            start = max(0, unescaped.find("Traceback (most recent"))
            found = [located for located in find_traces(unescaped[start:], 5) if located.trace.frames]
        return [replace(located, first_line=line.number, last_line=line.number) for located in found]


def _traces_in_json(body: str) -> list[LocatedTrace]:
    try:
        entry = json.loads(body)
    except (ValueError, RecursionError):
        return []
    for text in _stack_texts(entry):
        traces = [located for located in find_traces(text, 5) if located.trace.frames or located.trace.causes]
        if traces:
            return traces
    level = str(entry.get("level") or entry.get("severity") or entry.get("levelname") or "")
    text = next((entry[key] for key in ("message", "msg", "error", "log") if isinstance(entry.get(key), str)), "")
    is_severe = text.strip() and level.lower() in _SEVERE_JSON_LEVELS
    return [LocatedTrace(blocks.message_trace(text), text, 1, 1)] if is_severe else []


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
_GENERATED_SUFFIX = re.compile(
    r"::h[0-9a-f]{16}$|\((?!\*)[^()]*\)$|(?<=\.func)\d+(?:\.\d+)*|\$\d+(?=$|[.$])|(?<=lambda\$)\d+|(?<=\{closure#)\d+(?=\})"
)
"""Suffixes that a compiler adds to a function's name, and its arguments."""
_MAX_ROUNDS = 20
_SUBSTITUTIONS = tuple(
    (re.compile(source), mark)
    for source, mark in (
        (r"(?i)\b[a-z][a-z0-9+.-]{1,20}://[^\s'\"<>)\]}]+", "<url>"),
        (r"(?i)\b[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b|\b0x[0-9a-f]+\b", "#"),
        # a path of Windows, in quotes, absolute, or relative with a suffix
        (
            (
                r"(?<![\w])[A-Za-z]:[\\/][^\s'\"<>|:*?]*"
                r"|(['\"`])(?=[^'\"`\n]*[/\\])(?:[A-Za-z]:|~|\.{0,2})?[/\\]?[^'\"`\n]*[/\\][^'\"`\n]*\1"
                r"|(?<![\w/])(?:~|\.{1,2})?/(?:[^\s'\"`<>:,;()\[\]{}/]+/)*[^\s'\"`<>:,;()\[\]{}/]*"
                r"|(?<![\w/.#])(?:[\w.@+-]+/)+[\w@+-]+(?:\.[\w]+)+"
            ),
            "<path>",
        ),
        (r"(?i)(?<![\w])(?=[0-9a-f]*\d)[0-9a-f]{7,}(?![\w])", "#"),
        (
            (
                r"(?<![A-Za-z_\d])(?:\d+(?:\.\d+)?(?=(?:ns|us|µs|ms|s|m|h|d|B|kB|KB|MB|GB|KiB|MiB|GiB|px|x|th|st|nd|rd|%)(?![A-Za-z]))"
                r"|[-+]?\d+(?:[.,:_]\d+)*(?:e[-+]?\d+)?(?![A-Za-z_\d]))"
            ),
            "#",
        ),
        (r"<path>(?::#)+|<path>\(#(?:,\s*#)?\)", "<path>"),
    )
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
    name = frame.function.strip()
    for _ in range(2):  # the suffix of a closure may be before its arguments
        name = _GENERATED_SUFFIX.sub("", name)
    return name


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
