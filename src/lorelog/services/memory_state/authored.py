"""Registry of the memories that were written on this machine: by capture, `lorelog add`, MCP, HTTP or Python.

A journal may come with a cloned repository, and anyone can write one. So a memory counts as the user's own only if its
id is in `authored.jsonl`, in the home, and its text, type, origin, expiry, cues and replaced memories are still those that were
registered. Everything else is labelled as coming with the repository, and never counts as a correction or preference of
the user.

A memory is registered before its journal is written. A process that is killed in between leaves an id without an entry,
which does no harm, and which the same text gets when it is added again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from lorelog.core.document import Anchor, short_hash
from lorelog.core.serializable import utc_now
from lorelog.light.delivery_files import bare_text
from lorelog.services.memory_state.append_log import AppendLog, FileStamp

if TYPE_CHECKING:
    from lorelog.core.memory import NewMemory


AUTHORED_FILE = "authored.jsonl"
_MAX_COMPARED_CHARS = 400
"""Letters and digits of a text that are compared if only its beginning is known: no less than a hook shows.

A long memory is split into chunks; the first is longer than this.
"""
_MAX_SINGLE_LOOKUPS = 100
_TRANSCRIPT_FIELDS = ("transcript", "rollout", "db")
COMMENT = r"(?s)<!--.*?-->"


class AuthoredText(Struct, frozen=True):
    """What the registry knows of a memory: digests of its text and of its anchor."""

    text: str
    """Digest of the beginning."""
    whole: str
    """Digest of the whole text."""
    kind: str
    """Digest of type, origin, expiry, cues and replaced memories."""
    address: str = ""
    """Digest of its project, session and transcript; without one, of the folder that it was added to, and of its tags."""
    supersedes: tuple[str, ...] = ()
    """The memories that it replaces."""
    before: tuple[str, ...] = ()
    """Both digests of the text that an edit replaces, until the file is known to hold the new one."""
    at: str = ""
    """ISO time of registration."""

    def confirms(self, digests: tuple[str, str]) -> bool:
        """Return True if these are the digests of the same text and anchor; see `authored_digests`."""
        return digests[0] in (self.text, *self.before[:1]) and digests[1] == self.kind


def authored_digests(anchor: Anchor, text: str) -> tuple[str, str]:
    """Return the digests of a text's beginning and of its anchor, as the registry keeps them."""
    return author_digest(text), _anchor_digest(anchor)


class AuthoredMemories(AppendLog[tuple[str, AuthoredText]]):
    """The memories of one tenant that were written on this machine."""

    @staticmethod
    @lru_cache(maxsize=4)
    def of_tenant(folder: Path) -> AuthoredMemories:
        """Return the registry of a tenant. A process keeps it, because reading a long one takes time."""
        return AuthoredMemories(folder)

    def __init__(self, folder: Path) -> None:
        self._lock = Lock()
        super().__init__(folder / AUTHORED_FILE, _parse_line, is_long=True, is_optional=True)
        self._lookups = 0
        self._content: tuple[FileStamp | None, bytes] = (None, b"")

    def record(
        self, memories: Iterable[NewMemory], project: str = "", *, folder: str = "", before: str | None = None
    ) -> None:
        """Register memories of a project, which have ids; they are on disk when this returns.

        `folder` is that which they are added to, `before` the text that an edit is about to replace.
        """
        at, lines = utc_now(), []
        for memory in memories:
            source = dict(memory.source)
            transcript = next((source[dialect] for dialect in _TRANSCRIPT_FIELDS if dialect in source), "")
            place = place_digest(folder, memory) if folder else ""
            optional = {
                "address": _address_digest(project, source.get("session", ""), transcript) if transcript else place,
                "supersedes": memory.supersedes,
                "before": () if before is None else (author_digest(before), _whole_digest(before)),
            }
            kind, whole = _anchor_digest(_to_anchor(memory)), _whole_digest(memory.text)
            line = {"memory": memory.id, "text": author_digest(memory.text), "whole": whole, "kind": kind, "at": at}
            lines.append(line | {name: value for name, value in optional.items() if value})
        if lines:
            self.append(lines)

    def find_same(self, memory: NewMemory) -> dict[str, AuthoredText]:
        """Return the memories written here with the same letters and digits and the same anchor, by id, oldest first."""
        whole, same = _whole_digest(memory.text), (_whole_digest(memory.text), _anchor_digest(_to_anchor(memory)), ())
        try:
            if whole.encode() not in self.path.read_bytes():  # parsing a long registry takes time
                return {}
        except OSError:
            return {}
        return {id_: known for id_, known in self.all().items() if (known.whole, known.kind, known.before) == same}

    def has_anchor(self, anchor: Anchor) -> bool:
        """Return False if a memory was written here with another anchor: a repository dates nothing of the user's."""
        known = self.find(anchor.memory)
        return known is None or known.kind == _anchor_digest(anchor)

    def wrote(self, anchor: Anchor, text: str) -> bool:
        """Return True if a memory was written here with this anchor, and its text begins like this one."""
        known = self.find(anchor.memory)
        return known is not None and known.confirms(authored_digests(anchor, text))

    def wrote_all(self, anchor: Anchor, text: str) -> bool:
        """Return True if a memory was written here with this anchor and exactly this text, markup aside."""
        known = self.find(anchor.memory)
        is_whole = known is not None and _whole_digest(text) in (known.whole, *known.before[1:])
        return is_whole and self.wrote(anchor, text)

    def wrote_transcript(self, memory: str, project: str, session: str, transcript: str) -> bool:
        """Return True if a memory was written here, in this project, with this session and transcript."""
        known = self.find(memory)
        return known is not None and known.address == _address_digest(project, session, transcript)

    def lets_replace(self, old: str, new: str) -> bool:
        """Return False if a memory was written here, and what claims to replace it was not: a repository hides nothing of the user's."""
        known = self.find(new)
        return (known is not None and old in known.supersedes) or not self.knows(old)

    def knows(self, memory: str) -> bool:
        """Return True if a memory with this id was written here, whatever its text is now."""
        return self.find(memory) is not None

    def find(self, memory: str) -> AuthoredText | None:
        """Return what is registered of a memory.

        The first lookups of a process read single lines: a command asks for a few memories of very many.
        """
        self._lookups += 1
        if self._lookups > _MAX_SINGLE_LOOKUPS or not memory:
            return self.all().get(memory)
        stamp, (known_stamp, data) = self.stamp(), self._content
        if known_stamp != stamp:
            try:
                data = self.path.read_bytes()
            except OSError:
                return self.all().get(memory)
            self._content = (stamp, data)
        start = data.rfind(b'{"memory": %b,' % json.dumps(memory, ensure_ascii=False).encode("utf-8", "replace"))
        end = data.find(b"\n", start)
        if start < 0 or end < 0:  # text after the last newline is torn
            return None
        try:
            return _parse_line(json.loads(data[start:end]))[1]
        except (ValueError, KeyError, TypeError):
            return self.all().get(memory)

    def all(self) -> Mapping[str, AuthoredText]:
        """Return everything that is registered, by memory id."""
        with self._lock:
            self._content = (None, b"")
            return self.folded(dict)


def author_digest(text: str) -> str:
    """Return a digest of the letters and digits at the beginning of a text: a journal may change its markup."""
    return short_hash(bare_text(re.sub(COMMENT, "", text) if "<!--" in text else text)[:_MAX_COMPARED_CHARS])


def _whole_digest(text: str) -> str:
    """Return a digest of all letters and digits of a text, also of those in comments, which a hook may show."""
    return short_hash(bare_text(text))


def _anchor_digest(anchor: Anchor) -> str:
    replaced = ",".join(sorted(set(anchor.superseded_ids)))
    return short_hash("\0".join((anchor.type, anchor.origin, anchor.expires, replaced, *sorted(set(anchor.cues)))))


def place_digest(folder: str, memory: NewMemory) -> str:
    """Return a digest of a folder and of the tags of a memory that is added to it."""
    return short_hash("\0".join(("", folder, *sorted(set(memory.tags)))))


def _address_digest(project: str, session: str, transcript: str) -> str:
    return short_hash(f"{project}\0{session}\0{transcript}")


def _to_anchor(memory: NewMemory) -> Anchor:
    return Anchor(
        memory=memory.id,
        type=memory.type,
        origin=memory.origin,
        supersedes=",".join(memory.supersedes),
        expires=memory.expires,
        cues=memory.cues,
    )


def _parse_line(entry: Any) -> tuple[str, AuthoredText]:
    text, whole, kind = (str(entry[name]) for name in ("text", "whole", "kind"))
    address, at = (str(entry.get(name, "")) for name in ("address", "at"))
    replaced, before = (tuple(map(str, entry.get(name, ()))) for name in ("supersedes", "before"))
    return str(entry["memory"]), AuthoredText(text, whole, kind, address, replaced, before, at)
