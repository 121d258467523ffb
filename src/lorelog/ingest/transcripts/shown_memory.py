"""Recognise lorelog's own words in a transcript: memories shown with a tool call, and the reasons of stopped calls.

Hooks add a block of memories to the result of a call, in front of it or after it, and hosts store it there. Without
this module, a shown memory would be captured as an error, a note or the user's words, shown again, and so on. A call
that a guard blocked, or that was held once because of a rule, was not rejected by the user and is not an error.
"""

from __future__ import annotations

import re

_BLOCK = re.compile(
    r"(?<!`)<lorelog-memory>[ \t]*(?:\n|\\n|\Z).*?(?:</lorelog-memory>|\Z)[ \t]*", re.DOTALL | re.IGNORECASE
)
"""A block to its end, or to the end of a text that the host cut off. The opening tag ends a line."""
_HELD = r"<lorelog-memory>.{0,4000}?</lorelog-memory>\s{0,20}Held once\."
_GUARDED = r"Blocked by lorelog guard [\w-]{1,80}:"
_STOPPED = re.compile(rf".{{0,300}}?(?:{_HELD}|{_GUARDED})", re.DOTALL)
_STOPPED_AT_START = re.compile(
    rf"\s*(?:Error: |Tool call blocked: |(?:[\w ]{{1,40}} )?blocked by PreToolUse hook: |PreToolUse[^\n]{{0,80}}: )?(?:{_HELD}|{_GUARDED})",
    re.DOTALL | re.IGNORECASE,
)


def strip_shown_memory(text: str) -> str:
    """Return a tool's result, or a request, without the memories that lorelog added to it."""
    return _BLOCK.sub("", text).strip("\n") if "<lorelog-memory>" in text.lower() else text


def is_stopped_call(text: str, *, failed: bool) -> bool:
    """Return whether a result says that lorelog stopped the call, and not that it ran.

    Hosts put a few words in front of the reason. If the host does not mark the result as failed, the reason must be at
    its beginning: a command may print such a text.
    """
    return bool((_STOPPED if failed else _STOPPED_AT_START).match(text))
