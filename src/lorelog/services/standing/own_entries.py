"""Lists the entries of a project's journals that are the user's own, for the hook at session start.

A hook cannot read the registry, so this writes a digest per entry of the newest journals to `<key>.own`, in the home. A
digest covers all that is shown of an entry: text that somebody changes, or adds to a journal (with `git pull`, for
example), is not in the list, and is shown as a quotation that came with the repository.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.atomic_file import write_atomic
from lorelog.core.document import Anchor, short_hash
from lorelog.core.paths import is_below
from lorelog.light.delivery_files import (
    MAX_JOURNALS,
    RecentEntry,
    entry_digest,
    list_journal_days,
    parse_entries,
    read_tail,
)
from lorelog.services.memory_state.authored import AuthoredMemories
from lorelog.services.places.workspace import MEMSEARCH_FOLDER

_FORMAT = "1"
"""Increase this when the same journals give another list."""
_MAX_SCANNED = 1_000
"""Newest journals of a folder that are searched for own entries."""
_MAX_ID_CHARS = 200


class _Journal(Struct, frozen=True):
    """A journal, its state, and the digests of its own entries."""

    path: str
    stamp: str
    digests: tuple[str, ...] = ()
    is_whole: bool = False
    """True if all entries are own."""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def entries(self, text: str) -> list[RecentEntry]:
        return parse_entries(text, self.name[:10])


def write_own_entries(file: Path, project: str, folders: Sequence[str], authored: AuthoredMemories) -> bool:
    """Bring the list of a project's own entries up to date; return True if it changed.

    `folders` hold journals of lorelog. Those of memsearch are in the project. Journals that did not change are not
    read again.
    """
    known_stamp, known = _read_list(file)
    registered = [journal for folder in folders for journal in _list_journals(project, folder)]
    others = list(_list_journals(project, f"{project}/{MEMSEARCH_FOLDER}"))
    states = "\n".join(f"{journal.path} {journal.stamp}" for journal in (*registered, *others))
    stamp = f"{_FORMAT} {authored.token} {short_hash(states)}"
    if stamp == known_stamp:
        return False
    found = _own_journals(registered, known, authored)
    if others:
        untracked = untracked_files(project, [journal.path for journal in others])
        for journal in [journal for journal in others if journal.path in untracked][:MAX_JOURNALS]:
            digests = tuple(map(entry_digest, journal.entries(read_tail(journal.path))))
            found.append(replace(journal, digests=digests))
    lines = [stamp]
    for journal in found:
        lines += [f"{journal.path}\t{journal.stamp}\t{'all' if journal.is_whole else 'some'}", *journal.digests]
    write_atomic(file, "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"), durable=False)
    return True


def _own_journals(
    journals: Sequence[_Journal], known: Mapping[str, _Journal], authored: AuthoredMemories
) -> list[_Journal]:
    """Return the newest journals with own entries. A repository may contain any number of others."""
    found: list[_Journal] = []
    for journal in sorted(journals, key=lambda journal: journal.name, reverse=True):
        before = known.get(journal.path)
        if before is not None and before.is_whole and before.stamp == journal.stamp:
            found.append(before)
        else:
            text = read_tail(journal.path)
            if any(map(authored.knows, _memory_ids(text))):
                entries = journal.entries(text)
                own = [entry for entry in entries if authored.wrote_all(_to_anchor(entry), "\n".join(entry.raw))]
                digests = tuple(map(entry_digest, own))
                found += [replace(journal, digests=digests, is_whole=len(own) == len(entries))] if own else []
        if len(found) == MAX_JOURNALS:
            break
    return found


def _memory_ids(text: str) -> Iterator[str]:
    """Yield the ids in the comments of a journal. Without a pattern: a thousand journals would take half a second."""
    for after in text.split("memory:")[1:]:
        yield from after[:_MAX_ID_CHARS].split(maxsplit=1)[:1]


def _to_anchor(entry: RecentEntry) -> Anchor:
    from urllib.parse import unquote

    memory, type_, origin, supersedes, expires = (
        entry.anchor.get(name, "") for name in ("memory", "type", "origin", "supersedes", "expires")
    )
    cues = tuple(unquote(cue) for cue in entry.anchor.get("cues", "").split(",") if cue)
    return Anchor(memory=memory, type=type_, origin=origin, supersedes=supersedes, expires=expires, cues=cues)


def _list_journals(project: str, folder: str) -> Iterator[_Journal]:
    """Yield the newest journals of a folder with their state."""
    for name in list_journal_days(project, folder)[:_MAX_SCANNED]:
        path = f"{os.path.realpath(folder)}/{name}"
        try:
            status = Path(path).lstat()
        except OSError:
            continue
        if "\n" not in path and "\t" not in path:
            yield _Journal(path, f"{status.st_size}.{status.st_mtime_ns}.{status.st_ino}")


def _read_list(file: Path) -> tuple[str, dict[str, _Journal]]:
    """Return the stamp and the journals of the last list; nothing if there is none."""
    try:
        lines = file.read_bytes().decode("utf-8", "surrogateescape").split("\n")[:-1]
    except OSError:
        lines = []
    journals: dict[str, _Journal] = {}
    path = ""
    for line in lines[1:]:
        if line.startswith("/"):
            path, _, rest = line.partition("\t")
            stamp, _, extent = rest.partition("\t")
            journals[path] = _Journal(path, stamp, (), extent == "all")
        elif path:
            journals[path] = replace(journals[path], digests=(*journals[path].digests, line))
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
