"""Tells the user's own memories from those that came with a repository.

A memory is the user's own if the registry in the home has its id with the same text and anchor. The folder of global
journals is in the home too: no repository contains it. Journals of memsearch have no ids; they are own if Git does not
track them.

The hook at session start cannot read the registry, so a digest per own entry of the newest journals is written to
`<key>.own`, in the home. A digest covers all that is shown of an entry: text that somebody changes, or adds to a journal
(with `git pull`, for example), is not in the list, or marked as changed, and is shown as a quotation. The list has the state of
each journal, so that a hook knows whether it is older than the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.atomic_file import write_atomic
from lorelog.core.document import Anchor, Chunk, StoredChunk, short_hash
from lorelog.core.errors import StoreError
from lorelog.core.paths import is_below
from lorelog.core.ports import Store
from lorelog.core.query import Hit
from lorelog.core.record import CHANGED_ORIGIN, REPOSITORY_ORIGIN, UNTRUSTED_ORIGINS
from lorelog.light import delivery_files
from lorelog.light.prompt_match import stands_in
from lorelog.services.memory_state.authored import AuthoredMemories, AuthoredText, authored_digests
from lorelog.services.places.workspace import MEMSEARCH_FOLDER, TEAM_RULES, Workspace

OwnClaim = bool | tuple[str, str]
"""Whether a memory is the user's own, or the digests that the registry must confirm."""
FindChunks = Callable[[], Mapping[str, StoredChunk]]
"""Returns chunks by id, as this machine's index has them."""
_OWN_FORMAT = "2"
"""Increase this when the same journals give another list."""
_ALL = "all"
"""Line of a journal whose entries are all own."""
_MAX_JOURNALS_SCANNED = 1_000
"""Newest journals of a folder that are searched for own entries."""
_MAX_ID_CHARS = 200
_WRITERS_FILE, _UNCOMMITTED, _TEAM = "writers.json", "Not Committed Yet", "the team"
_MAX_BLAMED = 20
"""Memories whose writers Git is asked about at once."""


def is_confirmed(claim: OwnClaim, known: AuthoredText | None) -> bool:
    """Return True if a claim needs no registry, or the registry confirms it."""
    return claim if isinstance(claim, bool) else known is not None and known.confirms(claim)


class Ownership:
    """Answers for the memories of one tenant, seen from one project."""

    def __init__(self, workspace: Workspace, authored: AuthoredMemories) -> None:
        self._workspace, self._authored = workspace, authored
        self._memsearch: dict[str, str] = {}
        """Real paths of memsearch's folders, by project."""

    _home = cached_property[str](lambda self: os.path.realpath(self._workspace.home))
    _global_journals = cached_property[str](lambda self: os.path.realpath(self._workspace.global_journals))
    _journals = cached_property[str](lambda self: os.path.realpath(self._workspace.journals))
    _is_ignored = cached_property[bool](lambda self: _is_ignored(self._journals))

    def claim_of(self, chunk: Chunk | Hit, body: str) -> OwnClaim:
        """Return the claim of a memory: its first chunk, and the text of that without the heading."""
        anchor = chunk.anchor
        if anchor is None or anchor.origin in UNTRUSTED_ORIGINS:
            return False
        if is_below(chunk.source, self._global_journals):
            return True
        if not anchor.memory or (chunk.type in delivery_files.STANDING_TYPES and anchor.type != chunk.type):
            return False  # without an id, or with a type for the whole file
        return authored_digests(anchor, body)

    def is_own(self, chunk: Chunk | Hit, body: str) -> bool:
        """Return True if a memory was written on this machine, and was not changed since; see `claim_of`."""
        claim = self.claim_of(chunk, body)
        known = self._authored.find(chunk.anchor.memory) if chunk.anchor and not isinstance(claim, bool) else None
        return is_confirmed(claim, known)

    def shown_anchor(self, chunk: Chunk | Hit, identity: str, store: Store, find: FindChunks) -> Anchor | None:
        """Return a chunk's anchor as it is shown: with the origin `repository` or `changed` if the text is not the user's own.

        `find` is asked only for the few chunks that must be looked up. Text that is said to be from a tool or an import keeps that
        origin, which is trusted less.
        """
        anchor = chunk.anchor
        if anchor is not None and anchor.origin in UNTRUSTED_ORIGINS:
            return anchor
        try:
            origin = self._foreign_origin(chunk) if self._is_foreign(chunk, identity, store, find) else ""
        except StoreError:  # a registry that cannot be read proves nothing, and must not end a search
            is_foreign = anchor is not None and bool(anchor.memory) and not is_below(chunk.source, self._home)
            origin = REPOSITORY_ORIGIN if is_foreign else ""
        return replace(anchor or Anchor(), origin=origin) if origin else anchor

    def _foreign_origin(self, chunk: Chunk | Hit) -> str:
        """Return the origin of text that is not own: changed, if its id was given here, or if Git ignores the journals."""
        if memory := chunk.anchor.memory if chunk.anchor else "":
            is_ours = self._authored.knows(memory)
        else:
            is_ours = is_below(chunk.source, self._journals) and self._is_ignored
        return CHANGED_ORIGIN if is_ours else REPOSITORY_ORIGIN

    def with_shown_anchor(self, stored: StoredChunk, store: Store) -> StoredChunk:
        anchor = self.shown_anchor(
            stored.chunk, stored.id, store, lambda: {} if stored.machine else {stored.id: stored}
        )
        return stored if anchor is stored.chunk.anchor else replace(stored, chunk=replace(stored.chunk, anchor=anchor))

    def standing_check(self) -> Callable[[StoredChunk, str], bool | None] | None:
        """Return what tells if a memory is a rule or decision of the user that stands, and is named in a query, as with a prompt.

        By the file that hooks read; None if there are none.
        """
        files = delivery_files.DeliveryFiles(str(self._workspace.tenant_folder), self._workspace.project.id).standing
        phrases = _read_own_standing(files, tuple(map(delivery_files.file_state, files)))

        def stands(stored: StoredChunk, query: str) -> bool | None:
            memory = stored.chunk.memory
            with suppress(StoreError):  # as in `shown_anchor`
                if memory in phrases and self.is_own(stored.chunk, memory_body(stored)):
                    return any(stands_in(phrase, query.casefold()) for phrase in phrases[memory])
            return None

        return stands if phrases else None

    def repeats_own(self, text: str) -> bool:
        """Return True if a standing memory of the user has these words."""
        files = delivery_files.DeliveryFiles(str(self._workspace.tenant_folder), self._workspace.project.id).standing
        return delivery_files.text_key(text) in {
            delivery_files.text_key(memory["text"])
            for memory in filter(delivery_files.is_users_word, delivery_files.read_standing(files))
        }

    def team_rules(self, store: Store) -> list[StoredChunk]:
        """Return the team's rules as they are indexed."""
        return store.chunks_of(os.path.realpath(self._workspace.team_rules))

    def _is_foreign(self, chunk: Chunk | Hit, identity: str, store: Store, find: FindChunks) -> bool:
        """Return True if a chunk is part of a journal and not the user's own. Other documents are not memories."""
        has_id = bool(chunk.anchor and chunk.anchor.memory)
        is_journal = has_id or f"/{MEMSEARCH_FOLDER}/" in chunk.source or is_below(chunk.source, self._journals)
        # The home has global journals and the pages of records.
        if not is_journal or is_below(chunk.source, self._home):
            return False
        # Foreign text, and pieces that do not begin their section, are looked up.
        body = without_heading(chunk.content) if has_id else ""
        if self.is_own(chunk, body) or (stored := find().get(identity)) is None:
            return False
        project = stored.project or self._workspace.project.id
        if project not in self._memsearch:
            self._memsearch[project] = os.path.realpath(f"{project}/{MEMSEARCH_FOLDER}")
        if is_below(chunk.source, self._memsearch[project]):
            own = delivery_files.DeliveryFiles(str(self._workspace.tenant_folder), project).own
            return chunk.source not in delivery_files.read_own_entries(own)
        if not has_id and not is_below(chunk.source, self._journals):
            return False
        first = _first_piece(stored, store)
        return not self.is_own(first.chunk, memory_body(first))


def known_writers(folder: Path, names: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return who wrote memories that are not own, by memory id, and keep further names. `folder` is that of the delivery files."""
    file = folder / _WRITERS_FILE
    try:
        known = msgspec.json.decode(file.read_bytes(), type=dict[str, str])
    except (OSError, ValueError):
        known = {}
    if not names.items() <= known.items():
        known |= names
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(file, msgspec.json.encode(known), durable=False)
    return known


def find_writers(folder: Path, memories: Iterable[StoredChunk]) -> dict[str, str]:
    """Return the known writers, with those of foreign memories whose lines Git knows: all who committed a line of one.

    What stands in the file of the team's rules was merged by the team, whoever committed it.
    """
    from lorelog.code.git import Git

    known, names = known_writers(folder), dict[str, str]()
    unknown = [stored for stored in memories if stored.project and stored.chunk.memory not in known]
    names |= {each.chunk.memory: _TEAM for each in unknown if each.chunk.source.endswith(f"/{TEAM_RULES}")}
    for stored in [stored for stored in unknown if stored.chunk.memory not in names][:_MAX_BLAMED]:
        lines = f"-L{stored.chunk.start_line},{stored.chunk.end_line}"
        words = ("blame", "--line-porcelain", "--no-textconv", lines, "--", stored.chunk.source)
        output = (Git(stored.project).run(*words) or b"").decode("utf-8", "replace")
        found = [line.removeprefix("author ") for line in output.split("\n") if line.startswith("author ")]
        if found and _UNCOMMITTED not in found:
            names[stored.chunk.memory] = " and ".join(dict.fromkeys(found))
    return known_writers(folder, names) if names else known


def without_heading(text: str) -> str:
    """Return a text without its first line if that is a heading."""
    rest = text.lstrip("#")
    is_heading = 1 <= len(text) - len(rest) <= 6 and rest.startswith((" ", "\t"))
    return rest.partition("\n")[2] if is_heading else text


def memory_body(stored: StoredChunk) -> str:
    """Return the text of a memory's first chunk without the heading."""
    return without_heading(stored.chunk.text)


def _first_piece(stored: StoredChunk, store: Store) -> StoredChunk:
    """Return the chunk that begins the section of a chunk."""
    if not stored.chunk.piece:
        return stored
    before = (
        other
        for other in store.chunks_of(stored.chunk.source)
        if not other.chunk.piece and other.chunk.start_line <= stored.chunk.start_line
    )
    return max(before, key=lambda other: other.chunk.start_line, default=stored)


@lru_cache(maxsize=4)
def _read_own_standing(files: tuple[str, ...], states: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return the phrases of the user's own standing memories; a process keeps them as long as the files stay as they are."""
    del states
    own = filter(delivery_files.is_users_word, delivery_files.read_standing(files))
    return {
        memory["id"]: tuple(memory.get("named", ()) if memory.get("type") in delivery_files.RULE_TYPES else ())
        for memory in own
    }


def _is_ignored(journals: str) -> bool:
    """Return True if Git ignores a project's journals: then nobody else can have changed them."""
    return Path(journals).with_name(".gitignore").exists()


class _Journal(Struct, frozen=True):
    """A journal, its state, and its lines in the list: its path, and the digests of entries; none if no entry is own or changed."""

    path: str
    stamp: str
    lines: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def entries(self, text: str) -> list[delivery_files.RecentEntry]:
        return delivery_files.parse_entries(text, self.name[:10])


def write_own_entries(file: Path, project: str, folders: Sequence[str], authored: AuthoredMemories) -> bool:
    """Bring the list of a project's own entries up to date; return True if it changed.

    `folders` hold journals of lorelog. Those of memsearch are in the project. Journals that did not change are not
    read again.
    """
    known_stamp, known = _read_list(file)
    registered = [journal for folder in folders for journal in _list_journals(project, folder)]
    others = list(_list_journals(project, f"{project}/{MEMSEARCH_FOLDER}"))
    states = "\n".join(f"{journal.path} {journal.stamp}" for journal in (*registered, *others))
    stamp = f"{_OWN_FORMAT} {authored.token} {short_hash(states)}"
    if stamp == known_stamp:
        return False
    found = _own_journals(registered, known, authored)
    if others:
        untracked = untracked_files(project, [journal.path for journal in others])
        found += [journal for journal in others if journal.path not in untracked][: delivery_files.MAX_JOURNALS]
        for journal in [journal for journal in others if journal.path in untracked][: delivery_files.MAX_JOURNALS]:
            digests = tuple(map(delivery_files.entry_digest, journal.entries(delivery_files.read_tail(journal.path))))
            found.append(replace(journal, lines=(journal.path, *digests)))
    lines = [stamp, *(line for each in found for line in (f"{each.path}\t{each.stamp}", *each.lines))]
    for folder in (file.parent.parent, file.parent):  # the mode is not that of parents that are made on the way
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomic(file, "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"), durable=False)
    return True


def _own_journals(
    journals: Sequence[_Journal], known: Mapping[str, _Journal], authored: AuthoredMemories
) -> list[_Journal]:
    """Return the newest journals with own entries, and the newest others. A repository may contain any number of them."""
    own, others = list[_Journal](), list[_Journal]()
    for journal in sorted(journals, key=lambda journal: journal.name, reverse=True):
        before = known.get(journal.path)
        if before is not None and _ALL in before.lines and before.stamp == journal.stamp:
            own.append(before)
        else:
            text = delivery_files.read_tail(journal.path)
            # Without a pattern: a thousand journals would take half a second.
            ids = (word for after in text.split("memory:")[1:] for word in after[:_MAX_ID_CHARS].split(maxsplit=1)[:1])
            is_ignored = _is_ignored(journal.path.rpartition("/")[0])
            entries = journal.entries(text) if is_ignored or any(map(authored.knows, ids)) else []
            digests: list[str] = []
            for entry in entries:
                if authored.wrote_all(entry_anchor(entry), "\n".join(entry.raw)):
                    digests.append(delivery_files.entry_digest(entry))
                elif authored.knows(entry.memory) if entry.memory else is_ignored:
                    digests.append(delivery_files.CHANGED_MARK + delivery_files.entry_digest(entry))
            is_whole = len(digests) == len(entries) and delivery_files.CHANGED_MARK not in "".join(digests)
            lines = (journal.path, *digests, *([_ALL] if is_whole else [])) if digests else ()
            (own if lines else others).append(replace(journal, lines=lines))
        if len(own) == delivery_files.MAX_JOURNALS:
            break
    return own + others[: delivery_files.MAX_JOURNALS]


def entry_anchor(entry: delivery_files.RecentEntry) -> Anchor:
    """Return the anchor of a journal entry."""
    from urllib.parse import unquote

    names = ("memory", "type", "origin", "supersedes", "expires")
    fields: dict[str, Any] = {name: entry.anchor.get(name, "") for name in names}
    return Anchor(**fields, cues=tuple(unquote(cue) for cue in entry.anchor.get("cues", "").split(",") if cue))


def _list_journals(project: str, folder: str) -> Iterator[_Journal]:
    """Yield the newest journals of a folder with their state."""
    for name in delivery_files.list_journal_days(project, folder)[:_MAX_JOURNALS_SCANNED]:
        path = f"{os.path.realpath(folder)}/{name}"
        if (state := delivery_files.file_state(path)) and "\n" not in path and "\t" not in path:
            yield _Journal(path, state)


def _read_list(file: Path) -> tuple[str, dict[str, _Journal]]:
    """Return the stamp and the journals of the last list; nothing if there is none."""
    try:
        lines = file.read_bytes().decode("utf-8", "surrogateescape").split("\n")[:-1]
    except OSError:
        lines = []
    journals: dict[str, _Journal] = {}
    path = ""
    for line in lines[1:]:
        name, tab, stamp = line.partition("\t")
        if tab:
            path, journals[name] = name, _Journal(name, stamp)
        elif path:
            journals[path] = replace(journals[path], lines=(*journals[path].lines, line))
    return (lines[0] if lines else ""), journals


def untracked_files(project: str, sources: Sequence[str]) -> frozenset[str]:
    """Return the files of a Git project that its repository does not contain; none without Git.

    A file in a submodule, or below a link that the repository contains, came with it too.
    """
    from lorelog.code.git import Git

    root = os.path.realpath(project)
    names = {os.path.relpath(source, root): source for source in sources if is_below(source, root)}
    parents = {name: {str(parent) for parent in Path(name).parents} - {"."} for name in names}
    folders = sorted({parent for found in parents.values() for parent in found})
    output = Git(root).run("ls-files", "-z", "--cached", "--", *names, *folders) if names else None
    if output is None:
        return frozenset()
    tracked = {os.fsdecode(name) for name in output.split(b"\0")}
    return frozenset(source for name, source in names.items() if tracked.isdisjoint({name, *parents[name]}))
