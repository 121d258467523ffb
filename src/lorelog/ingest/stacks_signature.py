"""What makes two errors the same one: type, message and the functions it went through, and nothing that changes by itself.

Numbers, addresses, ids, paths and places in files go. Names stay: a missing key `a` is not a missing key `b`, and error codes
such as `E0308` are names. Of a stack only the innermost functions count, each once in a row, so that neither the depth of
a recursion nor who started the program matters.
"""

from __future__ import annotations

import hashlib
import re

from lorelog.core.trace import Frame, StackTrace

DEPTH = 8
"""Functions that count, from the innermost one on."""
_MESSAGE_CHARS = 2_000
_DIGITS = 12
_CAUSES = 4
_SLUG = re.compile(r"[^A-Za-z0-9_]+")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s'\"<>)\]}]+", re.IGNORECASE)
_UUID = re.compile(r"\b[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b", re.IGNORECASE)
_ADDRESS = re.compile(r"\b0x[0-9a-f]+\b", re.IGNORECASE)
_HEX = re.compile(r"(?<![\w])(?=[0-9a-f]*\d)[0-9a-f]{7,}(?![\w])", re.IGNORECASE)
_WINDOWS = re.compile(r"(?<![\w])[A-Za-z]:[\\/][^\s'\"<>|:*?]*")
_QUOTED_PATH = re.compile(r"(['\"`])(?=[^'\"`\n]*[/\\])(?:[A-Za-z]:|~|\.{0,2})?[/\\]?[^'\"`\n]*[/\\][^'\"`\n]*\1")
_PATH = re.compile(r"(?<![\w/])(?:~|\.{1,2})?/(?:[^\s'\"`<>:,;()\[\]{}/]+/)*[^\s'\"`<>:,;()\[\]{}/]*")
_RELATIVE = re.compile(r"(?<![\w/.#])(?:[\w.@+-]+/)+[\w@+-]+(?:\.[\w]+)+")
_NUMBER = re.compile(r"(?<![A-Za-z_\d])[-+]?\d+(?:[.,:_]\d+)*(?:e[-+]?\d+)?(?![A-Za-z_\d])")
_UNIT = re.compile(
    r"(?<![A-Za-z_\d])\d+(?:\.\d+)?(?=(?:ns|us|µs|ms|s|m|h|d|B|kB|KB|MB|GB|KiB|MiB|GiB|px|x|th|st|nd|rd|%)(?![A-Za-z]))"
)
_PLACE = re.compile(r"<path>(?::#)+|<path>\(#(?:,\s*#)?\)")
_SPACE = re.compile(r"\s+")
_HASH = re.compile(r"::h[0-9a-f]{16}$")
_CLOSURE = re.compile(r"(?<=\.func)\d+(?:\.\d+)*|\$\d+(?=$|[.$])|(?<=lambda\$)\d+|(?<=\{closure#)\d+(?=\})")
_ARGUMENTS = re.compile(r"\((?!\*)[^()]*\)$")

_ROUNDS = 20
_MARKS = (
    (_URL, "<url>"),
    (_UUID, "#"),
    (_ADDRESS, "#"),
    (_WINDOWS, "<path>"),
    (_QUOTED_PATH, "<path>"),
    (_PATH, "<path>"),
    (_RELATIVE, "<path>"),
    (_HEX, "#"),
    (_UNIT, "#"),
    (_NUMBER, "#"),
)


def signature(trace: StackTrace) -> str:
    """Return the name of an error that has the same one whenever and wherever it happens: `ValueError-3f2a9c1b8e4d`."""
    parts = [
        part
        for one in (trace, *trace.causes[:_CAUSES])
        for part in (one.type, normalised(one.message), *_functions(one))
    ]
    return f"{_slug(trace)}-{_digest([trace.language, *parts])}"


def family(trace: StackTrace) -> str:
    """Return what an error has in common with the same message from elsewhere: its bare type, and what it says."""
    return _digest([bare_type(trace.type), normalised(trace.message)])


def bare_type(name: str) -> str:
    """Return a type's own name, without its package."""
    return re.split(r"[.:/\\]+", name.strip())[-1] or name


def normalised(message: str) -> str:
    """Return what a message says, without what differs from one time to the next: its telling line, on one line."""
    text = telling(_ESCAPES.sub("", message[:_MESSAGE_CHARS]))
    for _ in range(_ROUNDS):  # what is left of one may look like another
        before = text
        for pattern, mark in _MARKS:
            text = pattern.sub(mark, text)
        text = _SPACE.sub(" ", _PLACE.sub("<path>", text)).strip()
        if text == before:
            break
    return text


def telling(message: str) -> str:
    """Return the first line of a message that says something; one that only announces the next comes with that."""
    lines = [line.strip() for line in message.split("\n") if line.strip()]
    if not lines:
        return ""
    return f"{lines[0]} {lines[1]}" if lines[0].endswith(":") and len(lines) > 1 else lines[0]


def function_name(frame: Frame) -> str:
    """Return a frame's function without what a compiler or a run adds to it."""
    name = _HASH.sub("", frame.function.strip())
    return _CLOSURE.sub("", _ARGUMENTS.sub("", name))


def _functions(trace: StackTrace) -> list[str]:
    names: list[str] = []
    for frame in trace.frames:
        name = function_name(frame)
        if name and (not names or names[-1] != name):
            names.append(name)
        if len(names) == DEPTH:
            break
    return names


def _slug(trace: StackTrace) -> str:
    return _SLUG.sub("_", bare_type(trace.type)).strip("_")[:40] or trace.language


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
