"""Records out of a ledger and into another, in three formats.

What comes in is somebody else's word: an unsigned record is filed as imported text, which is tainted and speaks for nothing,
unless a person says that it is their own backup. A signed one keeps what it says where its key is known here and its signature
holds; and where it replies to another, that one must be proven too: a signature names what it replies to, and cannot tell
whether that was changed on the way. Secrets are taken out, whoever sends them: then a signature does not fit any more.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from lorelog.core.errors import LorelogError, StoreBusy, UsageError
from lorelog.core.locking import locks_within
from lorelog.core.record import FOREIGN, Draft, Json, Record, signed_bytes
from lorelog.ingest.redact import redact
from lorelog.ingest.transcripts.lines import open_stream, read_head
from lorelog.records.kinds import check_draft
from lorelog.records.line import NOTHING_BEFORE, encode
from lorelog.services.records.book import Book
from lorelog.services.records.exchange_lines import Foreign, Incoming, Kept, read_lines, write_lines
from lorelog.services.records.exchange_markdown import HEAD, read_markdown, write_markdown
from lorelog.services.records.exchange_omf import read_omf, write_omf
from lorelog.services.records.keys import Keyring, State
from lorelog.services.records.redacting import redacted

FORMATS = ("jsonl", "markdown", "omf")
_AT_ONCE = 500
_MOST_BYTES = 8 * 1024 * 1024
_MOST_TOLD = 100
_WAIT_S = 10.0
_REFERENCES = ("id", "task", "reply_to", "supersedes", "project")
_DOCUMENT = re.compile(rb'\{\s*($|"(omf|exported_at|source|memories)"\s*:)')


@dataclass(frozen=True, slots=True)
class Fault:
    """Something of a file that was not taken as it stands, or not at all."""

    place: int
    id: str
    what: str


@dataclass(frozen=True, slots=True)
class Choices:
    """How a file is taken in."""

    restore: bool = False
    """It is a person's own backup: records keep what they say."""
    dry_run: bool = False
    project: str | None = None
    """Records that have a project get this one."""
    archived: bool = False
    """Also memories that whoever kept them had put aside."""
    patterns: tuple[str, ...] = ()
    """Regular expressions of texts that no record may hold, beside those that are always taken out."""


@dataclass(slots=True)
class Taken:
    """What came of a file."""

    read: int = 0
    written: int = 0
    there: int = 0
    """Records that were there before, as they are."""
    refused: int = 0
    tainted: int = 0
    """Of those written, how many count as imported text."""
    unsigned: int = 0
    """Of those written, how many lost a signature that proves nothing here."""
    redacted: int = 0
    """Of those written, how many held secrets, which were taken out."""
    dangling: int = 0
    """Of those written, how many name a task or a record that is neither here nor in the file."""
    memories: int = 0
    """Memories that were handed on."""
    archived: int = 0
    """Memories that were left out."""
    faults: list[Fault] = field(default_factory=list)
    """The first of them."""

    def tell(self, place: int, identity: str, what: str) -> None:
        """Note a fault."""
        if len(self.faults) < _MOST_TOLD:
            self.faults.append(Fault(place, identity, what))


def export(
    book: Book, form: str, *, project: str | None = None, memories: Iterable[Kept] | None = None
) -> Iterator[str]:
    """Yield a tenant's records as a file, piece by piece; those of one project where it is given."""
    records = (one for one in book.ledger.read() if project is None or one.project == project)
    if form == "omf":
        return write_omf(records, memories or ())
    if memories is not None:
        raise UsageError("memories are exported as OMF only", hint="--format omf; journals are Markdown files already")
    return write_markdown(records) if form == "markdown" else write_lines(records)


def detect(path: str) -> str:
    """Return the format of a file, by how it begins."""
    head = read_head(path)[:65_536].lstrip(b"\xef\xbb\xbf \t\r\n")
    if HEAD.encode() in head or head.startswith((b"#", b"---")):
        return "markdown"
    return "omf" if _DOCUMENT.match(head.partition(b"\n")[0].strip()) else "jsonl"


def read_file(path: str, form: str) -> Iterator[Incoming]:
    """Yield what a file brings, a piece of it in memory at a time."""
    if form == "omf":
        yield from read_omf(path)
        return
    with open_stream(path) as stream:
        yield from (read_markdown if form == "markdown" else read_lines)(stream)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What must be known of a record that another one names."""

    digest: bytes
    foreign: bool
    proven: bool


class Importer:
    """Takes a file into a ledger. `remember` is given memories, some at a time."""

    def __init__(
        self, book: Book, keyring: Keyring, choices: Choices, remember: Callable[[Sequence[Foreign]], None]
    ) -> None:
        self._book = book
        self._keyring = keyring
        self._choices = choices
        self._remember = remember
        self._taken = Taken()
        self._brought: set[str] = set()
        """Ids of the records and tasks that the file brings."""
        self._planned: dict[str, _Seen] = {}
        """What a dry run would have written."""
        self._tables = book.tables()

    def take(self, read: Callable[[], Iterator[Incoming]]) -> Taken:
        """Read a file twice: what it brings, so that it may refer to itself in any order; then what it says."""
        for one in read():
            if one.draft is not None:
                self._brought.add(one.draft.id)
                if one.draft.kind == "task_start":
                    self._brought.add(one.draft.task)
        with self._alone():
            for batch in _batches(read()):
                self._take(batch)
        return self._taken

    def _take(self, batch: Sequence[Incoming]) -> None:
        taken = self._taken
        taken.read += len(batch)
        here = self._here([one.draft for one in batch if one.draft is not None])
        chosen: list[Draft] = []
        memories: list[Foreign] = []
        for one in batch:
            if one.memory is None:
                draft = self._chosen(one, here)
                if draft is not None:
                    chosen.append(draft)
                    here[draft.id] = self._seen(draft)
            elif one.archived and not self._choices.archived:
                taken.archived += 1
            else:
                memories.append(one.memory)
        taken.written += len(chosen)
        taken.memories += len(memories)
        if self._choices.dry_run:
            self._planned |= {one.id: here[one.id] for one in chosen}
            return
        if chosen:
            self._book.append(chosen)
        if memories:
            self._remember(memories)

    def _here(self, drafts: Sequence[Draft]) -> dict[str, _Seen]:
        """Return what is known of the records that some name, by id."""
        named = {name for one in drafts for name in (one.id, one.reply_to, one.supersedes) if name}
        here = {name: self._planned[name] for name in named if name in self._planned}
        self._tables = self._book.tables()
        for record in self._tables.of_ids(named):
            here.setdefault(record.id, self._seen(record))
        return here

    def _seen(self, said: Draft | Record) -> _Seen:
        return _Seen(_digest(said), foreign=said.origin in FOREIGN, proven=self._is_proven(said))

    def _chosen(self, one: Incoming, here: Mapping[str, _Seen]) -> Draft | None:
        """Return what is to be written of one thing; None when nothing is."""
        taken, draft = self._taken, one.draft
        name = draft.id if draft is not None else ""
        try:
            if draft is None:
                raise UsageError(one.problem)
            check_draft(draft)
            clean, secrets = redacted(draft, self._choices.patterns)
            _check_references(draft, self._choices.patterns)
            filed = self._filed(one, clean, here, changed=bool(secrets))
            encode(filed, 1, NOTHING_BEFORE)
            before = here.get(draft.id)
            if before is not None:
                if before.digest not in {_digest(draft), _digest(filed)}:
                    raise UsageError("a record with this id is there, and says something else")
                taken.there += 1
                return None
            _check_superseded(filed, here)
        except LorelogError as error:
            taken.refused += 1
            taken.tell(one.place, name, error.message)
            return None
        taken.redacted += bool(secrets)
        taken.tainted += filed.origin in FOREIGN
        taken.unsigned += bool(draft.signature and not filed.signature)
        self._look_for(one.place, filed, here)
        return filed

    def _filed(self, one: Incoming, draft: Draft, here: Mapping[str, _Seen], *, changed: bool) -> Draft:
        """Return a draft as it is filed here: under its project, and for what it is worth."""
        project = self._choices.project
        moved = project is not None and bool(draft.project) and draft.project != project
        filed = replace(draft, project=project or "") if moved else draft
        if self._choices.restore and not one.unverified:
            return replace(filed, signature="") if moved or changed else filed
        parent = here.get(draft.reply_to)
        # What it replies to must be what its writer saw, as far as that can be known.
        if not moved and self._is_proven(draft) and (parent is None or parent.proven or not parent.foreign):
            return filed
        return replace(filed, origin="import", signature="")

    def _is_proven(self, said: Draft | Record) -> bool:
        return bool(said.signature) and self._keyring.standing(said).state is State.VALID

    def _look_for(self, place: int, draft: Draft, here: Mapping[str, _Seen]) -> None:
        missing = [
            f"the record {name}"
            for name in dict.fromkeys((draft.reply_to, draft.supersedes))
            if name and name not in here and name not in self._brought
        ]
        if draft.task and draft.task not in self._brought and self._tables.task(draft.task) is None:
            missing.append(f"the task {draft.task}")
        if missing:
            self._taken.dangling += 1
            self._taken.tell(place, draft.id, f"taken, but {' and '.join(missing)} is neither here nor in the file")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep out another import, which might bring the same ids."""
        if self._choices.dry_run:
            yield
            return
        folder = self._book.ledger.folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(folder / "ledger.import", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if not locks_within(descriptor, _WAIT_S):
                raise StoreBusy("another import into this ledger is at work", hint="nothing was written; try again")
            yield
        finally:
            os.close(descriptor)


def _batches(brought: Iterator[Incoming]) -> Iterator[list[Incoming]]:
    """Yield a few at a time, fewer where they are long."""
    batch: list[Incoming] = []
    size = 0
    for one in brought:
        batch.append(one)
        size += _size(one)
        if len(batch) >= _AT_ONCE or size >= _MOST_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _size(one: Incoming) -> int:
    if one.memory is not None:
        return len(one.memory.text)
    return sum(len(str(value)) for value in one.draft.fields.values()) if one.draft is not None else 0


def _digest(said: Draft | Record) -> bytes:
    """Return what two records are the same by."""
    return hashlib.sha256(signed_bytes(said) + said.signature.encode()).digest()


def _check_references(draft: Draft, patterns: Sequence[str]) -> None:
    """Raise UsageError for a secret in what names other things: it cannot be taken out, or it would name something else."""
    for name in _REFERENCES:
        if redact(getattr(draft, name), patterns).kinds:
            raise UsageError(f"its {name!r} holds a secret")
    for name in ("related_artifact_ids", "parent_task_id"):
        if any(redact(text, patterns).kinds for text in _texts_of(draft.fields.get(name))):
            raise UsageError(f"its {name!r} holds a secret")


def _texts_of(value: Json) -> Iterator[str]:
    yield from (str(one) for one in (value if isinstance(value, list) else [value]) if isinstance(one, str))


def _check_superseded(filed: Draft, here: Mapping[str, _Seen]) -> None:
    """Raise UsageError when imported text would put aside what was said here."""
    before = here.get(filed.supersedes)
    if filed.origin == "import" and before is not None and not before.foreign:
        raise UsageError(f"it would supersede {filed.supersedes}, which was said here; imported text cannot")
