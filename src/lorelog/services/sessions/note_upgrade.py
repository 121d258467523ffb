"""Decides whether a captured note may be replaced by the note that this version would write.

A journal is the user's file: an entry that somebody edited is never replaced. What an older version wrote is not stored,
so an entry counts as unedited if every word of it comes from the turn: then nothing is lost, because the old entry stays
in the journal and is only superseded. A note worded by a model has words of its own, and is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from lorelog.core.session import TurnDigest

_WORD = re.compile(r"\w+")
_LABEL = re.compile(r"^\s*- (?:User asked|Went on with|Outcome|Files|Commands|Errors|Ended):", re.MULTILINE)
_REQUEST = re.compile(r"^\s*- (?:User asked|Went on with):", re.MULTILINE)
_OWN_WORDS = frozenset({"and", "more", "failed", "interrupted", "rejected", "by", "the", "user", "image", "characters"})
"""Words that the note itself adds."""


def is_outdated(
    entries: Sequence[tuple[Path, str]], text: str, digest: TurnDigest, clean: Callable[[str], str]
) -> bool:
    """Return True if the entries of a turn are unedited notes, and this version words them differently.

    `entries` are journals and memory ids, `text` is the new note.
    """
    bodies = [read_entry_body(path, memory) for path, memory in entries]
    if not text or not all(bodies):
        return False
    old = "\n".join(bodies)
    if old.split() == text.split():
        return False
    return _is_extract(old, digest, clean)


def read_entry_body(journal: Path, memory: str) -> str:
    """Return the text of an entry below its anchor; empty if the journal does not have it."""
    try:
        lines = [] if journal.is_symlink() else journal.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    marker = re.compile(rf"\bmemory:{re.escape(memory)}(?![\w-])")
    start = next((number for number, line in enumerate(lines) if line.startswith("<!--") and marker.search(line)), None)
    if start is None:
        return ""
    body: list[str] = []
    for line in lines[start + 1 :]:
        if line.startswith("#"):
            break
        if not line.startswith("<!--"):
            body.append(line)
    return "\n".join(body).strip()


def _is_extract(note: str, digest: TurnDigest, clean: Callable[[str], str]) -> bool:
    """Return True if a note has the form of an extract, and only words of the turn."""
    if not _LABEL.search(note) or (digest.request.strip() and not _REQUEST.search(note)):
        return False
    words = {word.lower() for text in _texts(digest) for word in _WORD.findall(f"{text} {clean(text)}")}
    found = [word.lower() for word in _WORD.findall(_LABEL.sub("", note))]
    # The last word of a shortened text may be cut.
    cut = {word.lower() for word in re.findall(r"(\w+)…", note)}
    return all(word in words or word in _OWN_WORDS or word in cut for word in found)


def _texts(digest: TurnDigest) -> Iterator[str]:
    yield digest.request
    yield from digest.assistant_texts
    for action in digest.actions:
        yield from (action.tool, action.command, action.error, *action.files)
