"""Anchors: the comment under a heading that says where a memory comes from, in every dialect that is around.

    <!-- session:S turn:T transcript:PATH -->     Claude Code; OpenClaw, without a turn and with a path or a URL
    <!-- session:S rollout:PATH -->               Codex
    <!-- session:S turn:T db:PATH -->             OpenCode, DSH
    <!-- memory:ID type:decision tags:a,b … -->   our own
    <!-- covers:HASH,HASH,… -->                   below one of our own: more of what a summary sums up

A comment is an anchor when its first word reads `key:value` and it names a session or a memory; so prose that mentions
`session:x` is not one. Words with unknown keys are passed over. Addresses may hold spaces: they run to the next
`key:value` word, which is why a key is lower case and touches its value.
"""

from __future__ import annotations

import re

from lorelog.core.document import Anchor

_WORD = re.compile(r"(?:^|(?<=\s))([a-z][a-z_-]*):(?=\S)")
_ADDRESSES = ("transcript", "rollout", "db")
_RUNNING = frozenset((*_ADDRESSES, "tags"))
_SEPARATORS = re.compile(r"[,\s]+")
_COVERS = re.compile(r"\s*covers:([\s,0-9a-f]+)")
_HASH = re.compile(r"[0-9a-f]{16}")


def parse_anchor(comment: str) -> Anchor | None:
    """Return the anchor that a comment's inner text is, or None."""
    if "session:" not in comment and "memory:" not in comment:
        return None
    text = comment.strip()
    words = list(_WORD.finditer(text))
    if not words or words[0].start() != 0:
        return None
    values: dict[str, str] = {}
    for word, following in zip(words, [*words[1:], None], strict=True):
        value = text[word.end() : following.start() if following else len(text)].strip()
        values.setdefault(word[1], value if word[1] in _RUNNING else value.split(maxsplit=1)[0])
    if "session" not in values and "memory" not in values:
        return None
    dialect = next((name for name in _ADDRESSES if name in values), "")
    return Anchor(
        session=values.get("session", ""),
        turn=values.get("turn", ""),
        transcript=values.get(dialect, ""),
        dialect=dialect,
        memory=values.get("memory", ""),
        type=values.get("type", ""),
        tags=tuple(dict.fromkeys(tag for tag in _SEPARATORS.split(values.get("tags", "")) if tag)),
        origin=values.get("origin", ""),
        supersedes=values.get("supersedes", ""),
        expires=values.get("expires", ""),
        branch=values.get("branch", ""),
        commit=values.get("commit", ""),
        covers=_hashes(values.get("covers", "")),
    )


def parse_covers(comment: str) -> tuple[str, ...]:
    """Return what a comment below an anchor says to be summed up as well: an anchor's own line must not grow without end."""
    found = _COVERS.fullmatch(comment)
    return _hashes(found[1]) if found else ()


def _hashes(listed: str) -> tuple[str, ...]:
    """Return the content hashes of a list; whatever is none is passed over."""
    return tuple(dict.fromkeys(one for one in _SEPARATORS.split(listed) if _HASH.fullmatch(one)))
