"""Select the sections of files and the records to forget, and erase sections from the files that are ours to edit.

A section is identified as for `delete`: by the id of its memory, or by its project, headings and text. Sections that were
deleted, and so are in a file but not in the index, are selected, too. Erasing leaves every other byte of a file as it is.
Places that hold the text and are not ours to change are named, so that a person can deal with them.
"""

from __future__ import annotations

import json
import os
import re
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field

from lorelog.code.git import Git
from lorelog.core.document import GLOBAL_PROJECT, TURN_TYPE, Anchor, Chunk, Document, FileStamp, SourceFile
from lorelog.core.errors import NotFound, SourceError, UsageError, plural
from lorelog.core.options import ChunkOptions
from lorelog.core.paths import is_below, join_path
from lorelog.core.ports import Store, group_by
from lorelog.core.query import Filters
from lorelog.core.record import Record
from lorelog.ingest.files import read_text
from lorelog.ingest.markdown import chunk_markdown
from lorelog.ingest.outline import read_outline, read_sections
from lorelog.light.git_location import find_worktree
from lorelog.records.kinds import USUAL_STATUSES
from lorelog.services.backup.archive import written_backups
from lorelog.services.forget.forget_plan import ForgottenEntry
from lorelog.services.forget.scrub import iter_texts
from lorelog.services.memories.edit import deletion_key_of, find_memory
from lorelog.services.memory_state.authored import AuthoredMemories
from lorelog.services.memory_state.tombstones import Tombstones, deletion_keys, omitted_keys
from lorelog.services.places.workspace import DEFAULT_TENANT, JOURNALS, SYNC_COPIES, TENANTS, Workspace

_GIT_DEADLINE_S = 8.0
_MAX_COMMITS_NAMED = 10
_REWRITE = "'git filter-repo --replace-text FILE', with the text in FILE, rewrites history without it"
_MAX_SESSION_CHUNKS = 100_000
_MIN_ID_CHARS = 4
_PREVIEW_CHARS = 100
_MIN_HEADING_WORDS = 3
"""A shorter heading is a title such as `Open questions`, which other files have, too."""


class ForgetQuery(Struct, frozen=True, kw_only=True):
    """What to forget. All conditions except ids must hold."""

    ids: tuple[str, ...] = ()
    match: str = ""
    """A part of the text, in any case."""
    session: str = ""
    since: str = ""
    """ISO day."""
    until: str = ""
    projects: tuple[str, ...] | None = ()
    """Restricts everything but ids; None for all projects, empty for those visible from the current one."""
    receipt: str = ""
    """Given alone: the conversations of hosts that this receipt names."""

    def check(self) -> None:
        """Raise UsageError unless something is named."""
        if self.receipt and (self.ids or self.has_conditions):
            raise UsageError("a receipt is given without ids and conditions", hint="what it is about was forgotten")
        if not (self.receipt or self.ids or self.match.strip() or self.session or self.since or self.until):
            raise UsageError("nothing is named", hint="give ids, --match TEXT, --session ID or --since DAY")
        if self.match and len("".join(self.match.split())) < _MIN_ID_CHARS:
            raise UsageError(
                f"{self.match!r} is too short",
                hint=f"at least {_MIN_ID_CHARS} characters, so that not everything matches",
            )

    @property
    def has_conditions(self) -> bool:
        """True if entries are selected by what they contain, and not by ids alone."""
        return bool(self.match or self.session or self.since or self.until)

    def admits(self, *, texts: Iterable[str], session: str, day: str, project: str) -> bool:
        """Return True if an entry with these properties is selected."""
        if self.projects is not None and project not in self.projects:
            return False
        wanted = self.match.casefold()
        return (
            self.has_conditions
            and (not wanted or any(wanted in text.casefold() for text in texts))
            and (not self.session or session == self.session)
            and (not self.since or day[:10] >= self.since)
            and (not self.until or "" < day[:10] <= self.until)
        )


class FileSection(Struct, frozen=True):
    key: str
    """From `deletion_keys`."""
    document: Document
    chunks: tuple[Chunk, ...]
    ids: tuple[str, ...] = ()
    """Chunk ids, if it is indexed."""

    @property
    def anchor(self) -> Anchor:
        """The anchor of its first chunk; an empty one for a section without an id."""
        return self.chunks[0].anchor or Anchor()

    @property
    def memory(self) -> str:
        """The memory's id; empty for a section without one."""
        return self.anchor.memory

    @property
    def turn(self) -> tuple[str, str]:
        """Session and turn, if it is the note of a turn; else empty."""
        anchor = self.anchor
        return (anchor.session, anchor.turn) if anchor.turn and anchor.type == TURN_TYPE else ("", "")

    @property
    def place(self) -> tuple[str, str]:
        """Its key and its file."""
        return self.key, self.document.source

    @property
    def label(self) -> str:
        """Its id and place, to show."""
        line = f"{self.document.source}:{self.chunks[0].start_line}"
        return f"{self.memory} ({line})" if self.memory else line

    @property
    def texts(self) -> tuple[str, ...]:
        """The visible texts of its chunks, without the heading: in the file an anchor may be between both."""
        bodies = (chunk.text.partition("\n")[2] if chunk.text.startswith("#") else chunk.text for chunk in self.chunks)
        heading = self.chunks[0].heading
        return (*bodies, *([heading] if len(heading.split()) >= _MIN_HEADING_WORDS else []))

    def entry(self, action: str = "cut", match: str = "") -> ForgottenEntry:
        """Return what the plan and the reply say about it; the reply shows the first line that matches."""
        first, last, wanted = self.chunks[0], self.chunks[-1], match.casefold()
        texts = (line for chunk in self.chunks for line in chunk.text.splitlines() if not line.startswith("#"))
        lines = [line.strip() for line in texts if line.strip()] or [first.heading]
        return ForgottenEntry(
            key=self.key,
            memory=self.memory,
            source=self.document.source,
            project=self.document.project,
            root=self.document.root,
            action=action,
            ids=self.ids,
            contents=tuple(chunk.content_hash for chunk in self.chunks),
            session=self.anchor.session,
            transcript=self.anchor.transcript,
            start_line=first.start_line,
            end_line=last.end_line,
            day=first.date[:10],
            preview=next((line for line in lines if wanted in line.casefold()), lines[0])[:_PREVIEW_CHARS],
        )


class Selection(Struct):
    """What a query selects."""

    sections: dict[tuple[str, str], FileSection] = field(default_factory=dict)
    """By key and file."""
    summaries: dict[tuple[str, str], FileSection] = field(default_factory=dict)
    """Sections that summarize a selected one."""
    records: dict[str, Record] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.sections or self.records)

    @property
    def contents(self) -> frozenset[str]:
        """Content hashes of the selected chunks."""
        return frozenset(chunk.content_hash for section in self.sections.values() for chunk in section.chunks)


class Selector(Struct, frozen=True):
    """Selects from one tenant's files and records."""

    store: Store
    tombstones: Tombstones
    chunking: ChunkOptions
    is_page: Callable[[str], bool]
    records: Callable[[], Iterable[Record]]

    def select(self, query: ForgetQuery) -> Selection:
        """Return everything that a query selects. Raise NotFound if an id is unknown, or if nothing matches."""
        query.check()
        selection = Selection()
        wanted: set[str] = set()
        for identity in query.ids:
            wanted |= self._find(identity, selection)
        for section in self.sections():
            if section.key in wanted or (
                (section.memory or query.match)
                and query.admits(
                    texts=(*section.texts, section.chunks[0].heading),
                    session=section.anchor.session,
                    day=section.chunks[0].date,
                    project=section.document.project,
                )
            ):
                selection.sections[section.place] = section
        for record in self.records() if query.has_conditions else ():
            if query.admits(texts=record_texts(record), session=record.session, day=record.at, project=record.project):
                selection.records[record.id] = record
        if not selection:
            raise NotFound(
                "nothing that is indexed matches",
                hint="'lorelog index' reads what is not indexed yet, such as after a reset; 'lorelog list' shows what there is",
            )
        # The other parts and versions of selected notes of turns: they repeat each other.
        turns = {section.turn for section in selection.sections.values()} - {("", "")}
        sources = {
            stored.chunk.source
            for session in {session for session, _ in turns}
            for stored in self.store.recent(Filters(), _MAX_SESSION_CHUNKS, session=session)
        }
        for section in self.sections(sources) if turns else ():
            if section.turn in turns:
                selection.sections[section.place] = section
        self._add_summaries(selection, wanted)
        return selection

    def kept_texts(self, selection: Selection) -> Iterator[tuple[str, FileSection | None]]:
        """Yield the texts that stay, each with its section unless it is of a record."""
        for section in self.sections():
            if section.place not in selection.sections and section.place not in selection.summaries:
                yield from ((text, section) for text in section.texts)
        for record in self.records():
            if record.id not in selection.records:
                yield from ((text, None) for text in record_texts(record))

    def sections(self, sources: Iterable[str] | None = None) -> Iterator[FileSection]:
        """Yield the sections of all indexed files, or of some, without record pages."""
        wanted = None if sources is None else frozenset(sources)
        for document in self.store.documents():
            if (wanted is not None and document.source not in wanted) or self.is_page(document.source):
                continue
            stored = self.store.chunks_of(document.source)
            ids = {(entry.chunk.start_line, entry.chunk.content_hash): entry.id for entry in stored}
            chunks = tuple(entry.chunk for entry in stored)
            if omitted_keys(document):
                chunks = read_chunks(document.source, self.chunking) or chunks
            grouped: dict[str, list[Chunk]] = {}
            for chunk, key in zip(chunks, deletion_keys(chunks, document.project), strict=True):
                grouped.setdefault(key, []).append(chunk)
            for key, group in grouped.items():
                found = (ids.get((chunk.start_line, chunk.content_hash), "") for chunk in group)
                yield FileSection(key, document, tuple(group), tuple(filter(None, found)))

    def _find(self, identity: str, selection: Selection) -> set[str]:
        """Return the deletion key of an id, or select the record with it."""
        try:
            chunk = find_memory(identity, self.store)
        except NotFound as error:
            stones = [stone for stone in self.tombstones.find(identity) if not stone.forgotten]
            if stones and len(identity) >= _MIN_ID_CHARS:
                return {stone.key for stone in stones[:1]}
            self._find_record(identity, selection, error)
            return set()
        if self.is_page(chunk.chunk.source):
            from lorelog.services.records.projection import decode_anchor_id

            self._find_record(decode_anchor_id(chunk.chunk.memory) or identity, selection, None)
            return set()
        return {deletion_key_of(chunk, self.store)}

    def _find_record(self, identity: str, selection: Selection, error: NotFound | None) -> None:
        prefix = identity.strip()
        known = self.records() if len(prefix) >= _MIN_ID_CHARS else ()
        found = [record for record in known if record.id.startswith(prefix)]
        found = [record for record in found if record.id == prefix] or found
        if len({record.id for record in found}) > 1:
            raise UsageError(f"{len(found)} records have an id that starts with {prefix!r}", hint="give more of the id")
        if not found:
            raise error or NotFound(f"there is no record {prefix!r}")
        selection.records[found[0].id] = found[0]

    def _add_summaries(self, selection: Selection, named: Collection[str]) -> None:
        """Select the summaries of selected sections. One that is selected only because it repeats them may be reworded."""
        covered = {
            (chunk.content_hash, section.document.project)
            for section in selection.sections.values()
            for chunk in section.chunks
        }
        summaries = {
            link.summary
            for link in self.store.summary_links()
            for content, project in covered
            if content in link.covers and link.project in (project, GLOBAL_PROJECT)
        }
        sources = {stored.chunk.source for summary in summaries for stored in self.store.find(summary)}
        for section in self.sections(sources) if summaries else ():
            if section.memory in summaries and section.key not in named:
                selection.sections.pop(section.place, None)
                selection.summaries[section.place] = section


def read_chunks(source: str, chunking: ChunkOptions) -> tuple[Chunk, ...]:
    """Return the chunks of a file as it is now, deleted ones included; none if it cannot be read."""
    try:
        stamp = FileStamp.from_stat(Path(source).stat())
        text = read_text(SourceFile(source, str(Path(source).parent), stamp)).text
    except (OSError, SourceError):
        return ()
    return chunk_markdown(text, source, chunking).chunks


def record_texts(record: Record) -> list[str]:
    """Return the texts that the author of a record wrote."""
    return [*iter_texts(record.fields), *([] if record.status in USUAL_STATUSES else [record.status])]


def count_kinds(selection: Selection) -> dict[str, int]:
    """Return how many of each kind are selected, for the receipt."""
    sections = selection.sections.values()
    counts = {
        "memories": sum(bool(section.memory) for section in sections),
        "sections": sum(not section.memory for section in sections),
        "turns": len({section.turn for section in sections} - {("", "")}),
        "summaries": len(selection.summaries),
        "records": len(selection.records),
    }
    return {name: count for name, count in counts.items() if count}


_BOM = b"\xef\xbb\xbf"
_CITATION = re.compile(r"\[([0-9a-f]{8,64}(?:, [0-9a-f]{8,64})*)\]\s*$")
_EXTRACTED = re.compile(r"^(Summary of )(?:1 chunk|[\d,]+ chunks)(\b.*, in their own sentences\.)$", re.MULTILINE)
"""First line of a summary whose lines are sentences of one source each."""
_COVERS = re.compile(r"\s*covers:(\S*)")


def erase_sections(
    data: bytes, entries: Sequence[ForgottenEntry], contents: Collection[str], chunking: ChunkOptions
) -> bytes:
    """Return the content of a file without some sections, and with some summaries reworded.

    Sections that the file no longer contains are ignored. `contents` are the hashes that summaries must not cover.
    """
    lines = data.split(b"\n")
    kept: list[bytes] = []
    position = 0
    for start, end, entry in _find_sections(data, entries, chunking):
        first = max(start, position)  # chunks of several sections may share one
        kept += lines[position:first]
        text = b"\n".join(lines[first:end]).decode("utf-8", "replace")
        if new := reword_summary(text, contents) if entry.action == "reword" else "":
            kept += new.encode().split(b"\n")
        elif end == len(lines):
            kept.append(b"")  # the line before keeps its end
        position = end
    result = b"\n".join([*kept, *lines[position:]])
    return _BOM + result if data.startswith(_BOM) and not result.startswith(_BOM) else result


def section_texts(data: bytes, entries: Sequence[ForgottenEntry], chunking: ChunkOptions) -> dict[str, str]:
    """Return the lines of sections, as they are in the file, by their keys."""
    lines = data.split(b"\n")
    return {
        entry.key: b"\n".join(lines[first:end]).decode("utf-8", "replace")
        for first, end, entry in _find_sections(data, entries, chunking)
    }


def _find_sections(
    data: bytes, entries: Sequence[ForgottenEntry], chunking: ChunkOptions
) -> list[tuple[int, int, ForgottenEntry]]:
    """Return the first line and the line after the end of sections, in order.

    A chunk beyond the limit of headings may consist of several sections.
    """
    keys = {entry.key: entry for entry in entries}
    text = data.removeprefix(_BOM).decode("utf-8", "replace").replace("\r\n", "\n")
    firsts = [section.first for section in read_sections(read_outline(text))]
    chunks = chunk_markdown(text, entries[0].source, chunking).chunks
    found: dict[int, tuple[int, int, ForgottenEntry]] = {}
    count = data.count(b"\n") + 1
    for chunk, key in zip(chunks, deletion_keys(chunks, entries[0].project), strict=True):
        if key in keys:
            index = bisect_right(firsts, chunk.start_line - 1) - 1
            following = bisect_right(firsts, chunk.end_line - 1)
            end = firsts[following] if following < len(firsts) else count
            found[firsts[index]] = (firsts[index], max(end, found.get(firsts[index], (0, 0))[1]), keys[key])
    return [found[first] for first in sorted(found)]


def reword_summary(text: str, contents: Collection[str]) -> str:
    """Return a summary of extracted sentences without those of forgotten sources; empty if none is left.

    Each line of such a summary is a sentence of the sources that it cites, so what is left is the summary of the others.
    A summary that a model worded may mix its sources in every line and cannot be reworded: it gives an empty text, too.
    """
    if not _EXTRACTED.search(text):
        return ""
    kept: list[str] = []
    cited, covered = 0, set[str]()

    def keep_covers(match: re.Match[str]) -> str:
        hashes = [digest for digest in match[1].split(",") if digest and digest not in contents]
        covered.update(hashes)
        return f" covers:{','.join(hashes)}" if hashes else ""

    for line in text.split("\n"):
        match = _CITATION.search(line) if line.startswith("- ") else None
        labels = match[1].split(", ") if match else []
        if any(content.startswith(label) for label in labels for content in contents):
            continue
        cited += bool(labels)
        kept.append(_COVERS.sub(keep_covers, line) if line.startswith("<!--") else line)
    kept = [line for line in kept if line != "<!-- -->"]
    if not cited:
        return ""
    chunks = plural(len(covered), "chunk")
    return _EXTRACTED.sub(lambda match: f"{match[1]}{chunks}{match[2]}", "\n".join(kept))


def group_by_file(entries: Sequence[ForgottenEntry]) -> Mapping[str, list[ForgottenEntry]]:
    return group_by(entries, lambda entry: entry.source)


def refuse_edit(
    entries: Sequence[ForgottenEntry], workspace: Workspace, wrote: Callable[[str], bool], *, edit_files: bool
) -> dict[str, str]:
    """Return the files that must not be edited, each with the reason. `wrote` tells of memories written on this machine.

    With `edit_files` the user confirmed that these files are theirs; files that cannot be written stay refused.
    """
    refused: dict[str, str] = {}
    for source, own in group_by_file(entries).items():
        try:
            status = os.lstat(source)
        except FileNotFoundError:
            continue  # there is nothing to erase
        except OSError as error:
            refused[source] = f"it cannot be read: {error.strerror}"
            continue
        is_note = not is_journal(source, own[0].project, workspace)
        is_own = all(entry.memory and wrote(entry.memory) for entry in own)
        git = None if edit_files or is_note or is_own else Git(str(Path(source).parent))
        is_tracked = git is not None and git.run("ls-files", "--error-unmatch", "--", source) is not None
        reasons = {
            "it is now a link": os.path.realpath(source) != source,
            "it belongs to another user": status.st_uid != os.geteuid() and os.geteuid() != 0,
            "it is read-only": not status.st_mode & 0o222 or not os.access(source, os.W_OK),
            "its folder is read-only": not os.access(Path(source).parent, os.W_OK),
            "it is a note outside the journals, which lorelog only reads": is_note and not edit_files,
            "it came with the repository: Git tracks it, and the entry was not written on this machine": is_tracked,
        }
        if reason := next((reason for reason, holds in reasons.items() if holds), ""):
            refused[source] = reason
    return refused


def is_journal(source: str, project: str, workspace: Workspace) -> bool:
    """Return True for a journal of this tenant."""
    own = JOURNALS if workspace.tenant == DEFAULT_TENANT else Path(TENANTS) / workspace.tenant / "memory"
    folders = [workspace.global_journals, *([Path(project) / own] if project else [])]
    return any(is_below(source, os.path.realpath(folder)) for folder in folders)


def find_own_transcripts(entries: Sequence[ForgottenEntry], authored: AuthoredMemories) -> tuple[str, ...]:
    """Return the files of conversations that our own capture read; not those that only an anchor names, which may lie."""
    found: dict[str, None] = {}
    for entry in entries:
        is_captured = authored.wrote_transcript(entry.memory, entry.project, entry.session, entry.transcript)
        if is_captured and _local_path(entry) == entry.transcript and is_own_transcript(entry.transcript):
            found[entry.transcript] = None
    return tuple(found)


def is_own_transcript(name: str) -> bool:
    """Return True for a file of a conversation that this user owns."""
    path = Path(name)
    is_file = path.suffix == ".jsonl" and not path.is_symlink() and path.is_file()
    return is_file and path.stat().st_uid == os.geteuid()


def find_unreached(entries: Sequence[ForgottenEntry], home: Path, store_place: str) -> dict[str, str]:
    """Return places that keep the text: conversations of hosts, backups, Git history, a remote store.

    Takes some seconds at most.
    """
    places: dict[str, str] = {}
    for entry in entries:
        transcript = _local_path(entry)
        if transcript and Path(transcript).exists():
            places[transcript] = "a conversation that the host keeps, or may keep: delete it there"
    for backup, written_at in written_backups(home).items():
        if not is_below(backup, str(home)):
            new = f"'lorelog backup FILE' writes a new one, 'rm {quote(backup)}' deletes this one"
            places[backup] = f"a backup of {written_at[:10]}, which may hold it: {new}"
    deadline = time.monotonic() + _GIT_DEADLINE_S
    for source, own in group_by_file(entries).items():
        places |= _git_history(source, own, deadline)
    if store_place:
        places[store_place] = (
            "the rows were deleted and flushed; the server's compaction decides when their bytes are gone, "
            "and other machines that share it may hold copies of their own"
        )
    return places


def find_sync_remotes(tenant_folder: Path) -> dict[str, str]:
    """Return the Git remotes that memories are exchanged with, if any."""
    found: dict[str, str] = {}
    for path in (tenant_folder / SYNC_COPIES).glob("*.json"):
        with suppress(OSError, ValueError, LookupError, TypeError):
            url = str(json.loads(path.read_text("utf-8"))["url"])
            found[url] = "'lorelog sync' erases it from the exchange; earlier commits keep it ('lorelog docs sync')"
    return found


def _local_path(entry: ForgottenEntry) -> str:
    if entry.transcript.startswith("file://"):
        return unquote(urlsplit(entry.transcript).path)
    if not entry.transcript or "://" in entry.transcript:
        return ""
    return os.path.normpath(join_path(Path(entry.source).parent, entry.transcript))


def _git_history(source: str, entries: Sequence[ForgottenEntry], deadline: float) -> Mapping[str, str]:
    root, _, has_git = find_worktree(source)
    if not has_git:
        return {}
    git = Git(str(Path(source).parent))
    commits: dict[str, None] = {}
    for entry in entries:
        left = deadline - time.monotonic()
        search = [f"-Smemory:{entry.memory}"] if entry.memory else []
        found = git.run_text("log", "--all", "--format=%h", *search, "--", source, timeout_s=left) if left > 0 else None
        if found is None:
            return {f"Git history of {root}": f"it could not be read in time; it may hold {Path(source).name}"}
        commits |= dict.fromkeys(found.split())
    if not commits:
        return {}
    names = ", ".join(list(commits)[:_MAX_COMMITS_NAMED]) + (" and others" if len(commits) > _MAX_COMMITS_NAMED else "")
    remotes = (git.run_text("remote") or "").split()
    shared = f"; it may have been pushed to {', '.join(remotes)}" if remotes else ""
    return {f"Git history of {root}": f"it is in {Path(source).name} of {names}; {_REWRITE}{shared}"}
