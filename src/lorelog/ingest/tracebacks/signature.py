"""Signatures that identify equal errors: type, message and functions, without the parts that vary between runs.

Numbers, addresses, ids, paths and line numbers are removed. Names stay: a missing key `a` is not a missing key `b`, and
error codes such as `E0308` are names. Only the innermost functions of a stack count, without direct repetitions, so
neither recursion depth nor the program's entry point matters.
"""

from __future__ import annotations

import hashlib
import re

from lorelog.core.stack_trace import StackFrame, StackTrace

MAX_FUNCTIONS = 8
"""Innermost functions that are part of a signature."""

_MAX_MESSAGE_CHARS = 2_000
_DIGEST_CHARS = 12
_MAX_CAUSES = 4
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
_PATH_LOCATION = re.compile(r"<path>(?::#)+|<path>\(#(?:,\s*#)?\)")
_SPACE = re.compile(r"\s+")
_HASH = re.compile(r"::h[0-9a-f]{16}$")
_CLOSURE = re.compile(r"(?<=\.func)\d+(?:\.\d+)*|\$\d+(?=$|[.$])|(?<=lambda\$)\d+|(?<=\{closure#)\d+(?=\})")
_ARGUMENTS = re.compile(r"\((?!\*)[^()]*\)$")

_MAX_ROUNDS = 20
_SUBSTITUTIONS = (
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


def trace_signature(trace: StackTrace) -> str:
    """Return an error's signature, the same for every occurrence: `ValueError-3f2a9c1b8e4d`."""
    parts = [
        part
        for error in (trace, *trace.causes[:_MAX_CAUSES])
        for part in (error.type, normalize_message(error.message), *_function_names(error))
    ]
    return f"{_type_slug(trace)}-{_digest([trace.language, *parts])}"


def trace_family(trace: StackTrace) -> str:
    """Return a digest of type and message only, shared by equal errors raised in different code."""
    return _digest([bare_type(trace.type), normalize_message(trace.message)])


def bare_type(name: str) -> str:
    """Return a type's name without its package."""
    return re.split(r"[.:/\\]+", name.strip())[-1] or name


def normalize_message(message: str) -> str:
    """Return the main line of a message with variable parts replaced by placeholders."""
    text = message_headline(_ESCAPES.sub("", message[:_MAX_MESSAGE_CHARS]))
    for _ in range(_MAX_ROUNDS):  # a substitution may produce text that another one matches
        before = text
        for pattern, mark in _SUBSTITUTIONS:
            text = pattern.sub(mark, text)
        text = _SPACE.sub(" ", _PATH_LOCATION.sub("<path>", text)).strip()
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
    name = _HASH.sub("", frame.function.strip())
    return _CLOSURE.sub("", _ARGUMENTS.sub("", name))


def _function_names(trace: StackTrace) -> list[str]:
    names: list[str] = []
    for frame in trace.frames:
        name = function_name(frame)
        if name and (not names or names[-1] != name):
            names.append(name)
        if len(names) == MAX_FUNCTIONS:
            break
    return names


def _type_slug(trace: StackTrace) -> str:
    return _SLUG.sub("_", bare_type(trace.type)).strip("_")[:40] or trace.language


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
