"""Imports records and journal memories.

An import is someone else's statement: an unsigned record is stored with the origin `import`, so it is tainted and
supports nothing, unless a person restores their own backup. A signed record keeps its origin if its key is trusted here
and its signature is valid. If it is a reply, its parent must be proven too: a signature names the parent's id but
cannot show that the parent was changed on the way. Secrets are always removed, which invalidates a signature.

Memories of a file are passed on; `services/imports` writes them.

A record that was redacted here stays redacted: an older copy of it is refused. A record that was redacted in the other
ledger is imported without its texts and always counts as imported; that ledger's redaction records are left out, since
they are about its lines.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import starmap
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from lorelog.core.errors import LorelogError, StoreBusy, UsageError
from lorelog.core.ports import batches_of
from lorelog.core.processes import FileLock
from lorelog.core.record import REDACTION_KIND, UNTRUSTED_ORIGINS, Record, RecordDraft, signed_bytes
from lorelog.ingest.importers.source import ImportedEntry
from lorelog.ingest.redaction.redact import redact
from lorelog.ingest.transcripts.json_files import open_stream, read_file_head
from lorelog.records.chain import GENESIS_HASH, encode_line
from lorelog.records.kinds import check_draft
from lorelog.services.records import exports
from lorelog.services.records.keyring import Keyring, SignatureState
from lorelog.services.records.store import RecordStore
from lorelog.services.records.writer import redact_draft

_BATCH_SIZE = 500
_MAX_BATCH_BYTES = 8 * 1024 * 1024
_MAX_PROBLEMS = 100
_LOCK_WAIT_S = 10.0
_REFERENCE_ATTRIBUTES = ("id", "task", "reply_to", "supersedes", "project")
_REFERENCE_FIELDS = ("related_artifact_ids", "parent_task_id")
_OMF_START = re.compile(rb'\{\s*($|"(omf|exported_at|source|memories)"\s*:)')


class ImportProblem(Struct, frozen=True):
    """A record or memory that was changed on import, or rejected."""

    place: int
    id: str
    message: str


class ImportOptions(Struct, frozen=True):
    restore: bool = False
    """Trust the file as one's own backup: records keep their origin."""
    dry_run: bool = False
    project: str | None = None
    """Project for the records that have one."""
    archived: bool = False
    """Import archived memories as well."""
    patterns: tuple[str, ...] = ()
    """Regular expressions of additional text to redact."""


class ImportReport(Struct):
    """Counts and problems of an import."""

    read: int = 0
    written: int = 0
    already_present: int = 0
    """Identical records that existed."""
    refused: int = 0
    tainted: int = 0
    """Written records with an untrusted origin."""
    unsigned: int = 0
    """Written records that lost a signature, because it proves nothing here."""
    redacted: int = 0
    """Written records from which secrets were removed."""
    dangling: int = 0
    """Written records that name a task or record that is neither here nor in the file."""
    memories: int = 0
    """Memories passed on."""
    archived: int = 0
    """Archived memories that were skipped."""
    problems: list[ImportProblem] = field(default_factory=list)
    """The first problems."""

    def add_problem(self, place: int, identity: str, message: str) -> None:
        """Add a problem, up to the limit."""
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(ImportProblem(place, identity, message))


def detect_format(path: str) -> str:
    """Return a file's format, from its beginning."""
    head = read_file_head(path)[:65_536].lstrip(b"\xef\xbb\xbf \t\r\n")
    return "omf" if _OMF_START.match(head.partition(b"\n")[0].strip()) else "jsonl"


def read_import_file(path: str, format_: str) -> Iterator[exports.ImportItem]:
    """Yield the items of a file without loading it whole."""
    if format_ == "omf":
        yield from exports.read_omf(path)
        return
    with open_stream(path) as stream:
        yield from exports.read_jsonl(stream)


class _KnownRecord(Struct, frozen=True):
    """Facts about a record that others refer to."""

    digest: bytes
    foreign: bool
    proven: bool
    redacted: bool = False


class RecordImporter(Struct):
    """Imports a file into a ledger. `add_memories` receives the memories in batches, also in a dry run."""

    _store: RecordStore
    _keyring: Keyring
    _options: ImportOptions
    _add_memories: Callable[[Sequence[ImportedEntry]], None] = lambda _: None
    _report: ImportReport = field(default_factory=ImportReport)
    _file_ids: set[str] = field(default_factory=set)
    """Ids of the records and tasks in the file."""
    _planned: dict[str, _KnownRecord] = field(default_factory=dict)
    """Records that a dry run would have written."""

    def run(self, read: Callable[[], Iterator[exports.ImportItem]]) -> ImportReport:
        """Import a file. It is read twice: first for its ids, so that records may refer to each other in any order."""
        for item in read():
            if item.draft is not None:
                self._file_ids.add(item.draft.id)
                if item.draft.kind == "task_start":
                    self._file_ids.add(item.draft.task)
        with self._import_lock():
            for batch in batches_of(read(), _text_size, _BATCH_SIZE, _MAX_BATCH_BYTES):
                self._import_batch(batch)
        return self._report

    def _import_batch(self, batch: Sequence[exports.ImportItem]) -> None:
        report = self._report
        report.read += len(batch)
        named = {
            name
            for draft in (item.draft for item in batch if item.draft is not None)
            for name in (draft.id, draft.reply_to, draft.supersedes)
            if name
        }
        known = {name: self._planned[name] for name in named if name in self._planned}
        for record in self._store.tables().by_ids(named):
            known.setdefault(record.id, self._known_record(record))
        drafts: list[RecordDraft] = []
        memories: list[ImportedEntry] = []
        for item in batch:
            if item.memory is None:
                draft = self._select_draft(item, known)
                if draft is not None:
                    drafts.append(draft)
                    known[draft.id] = self._known_record(draft)
            elif item.archived and not self._options.archived:
                report.archived += 1
            else:
                memories.append(item.memory)
        report.written += len(drafts)
        report.memories += len(memories)
        if self._options.dry_run:
            self._planned |= {draft.id: known[draft.id] for draft in drafts}
        elif drafts:
            self._store.append(drafts)
        if memories:
            self._add_memories(memories)

    def _known_record(self, record: RecordDraft | Record) -> _KnownRecord:
        return _KnownRecord(
            _record_digest(record),
            foreign=record.origin in UNTRUSTED_ORIGINS,
            proven=self._is_proven(record),
            redacted=isinstance(record, Record) and record.redacted,
        )

    def _select_draft(self, item: exports.ImportItem, known: Mapping[str, _KnownRecord]) -> RecordDraft | None:
        """Return the draft to write; None if the item is present already or rejected."""
        report, draft = self._report, item.draft
        if draft is not None and draft.kind == REDACTION_KIND:
            return None
        name = draft.id if draft is not None else ""
        try:
            if draft is None:
                raise UsageError(item.problem)
            check_draft(draft)
            clean, secrets = redact_draft(draft, self._options.patterns)
            references = {name: getattr(draft, name) for name in _REFERENCE_ATTRIBUTES}
            references |= {name: draft.fields.get(name) for name in _REFERENCE_FIELDS}
            for field_name, value in references.items():
                texts = filter(lambda text: isinstance(text, str), value if isinstance(value, list) else [value])
                if any(redact(str(text), self._options.patterns).kinds for text in texts):
                    raise UsageError(f"its {field_name!r} contains a secret")  # without it, it refers to something else
            prepared = self._prepare_draft(item, clean, known, changed=bool(secrets))
            encode_line(prepared, 1, GENESIS_HASH)
            before = known.get(draft.id)
            if before is not None:
                if before.redacted and not item.redacted:
                    raise UsageError("its text was redacted here")
                if not before.redacted and before.digest not in {_record_digest(draft), _record_digest(prepared)}:
                    raise UsageError("a record with this id exists and differs")
                report.already_present += 1
                return None
            replaced = known.get(prepared.supersedes)
            if prepared.origin == "import" and replaced is not None and not replaced.foreign:
                raise UsageError(
                    f"it would supersede {prepared.supersedes}, which was written here; imported records cannot"
                )
        except LorelogError as error:
            report.refused += 1
            report.add_problem(item.place, name, error.message)
            return None
        report.redacted += bool(secrets)
        report.tainted += prepared.origin in UNTRUSTED_ORIGINS
        report.unsigned += bool(draft.signature and not prepared.signature)
        missing = [
            f"the record {name}"
            for name in dict.fromkeys((prepared.reply_to, prepared.supersedes))
            if name and name not in known and name not in self._file_ids
        ]
        if prepared.task and prepared.task not in self._file_ids and self._store.tables().task(prepared.task) is None:
            missing.append(f"the task {prepared.task}")
        if missing:
            report.dangling += 1
            message = f"imported, but {' and '.join(missing)} is neither here nor in the file"
            report.add_problem(item.place, prepared.id, message)
        return prepared

    def _prepare_draft(
        self, item: exports.ImportItem, draft: RecordDraft, known: Mapping[str, _KnownRecord], *, changed: bool
    ) -> RecordDraft:
        """Return the draft with its project and origin here."""
        project = self._options.project
        moved = project is not None and bool(draft.project) and draft.project != project
        prepared = replace(draft, project=project or "") if moved else draft
        if self._options.restore and not item.unverified and not item.redacted:
            return replace(prepared, signature="") if moved or changed else prepared
        parent = known.get(draft.reply_to)
        # The parent must be the one the writer saw, as far as that can be proven.
        if not moved and self._is_proven(draft) and (parent is None or parent.proven or not parent.foreign):
            return prepared
        return replace(prepared, origin="import", signature="")

    def _is_proven(self, record: RecordDraft | Record) -> bool:
        return bool(record.signature) and self._keyring.signature_status(record)[0] is SignatureState.VALID

    @contextmanager
    def _import_lock(self) -> Iterator[None]:
        """Exclude another import, which might bring the same ids."""
        if self._options.dry_run:
            yield
            return
        folder = self._store.ledger.folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        busy = StoreBusy("another import into this ledger is running", hint="nothing was written; try again")
        with FileLock(folder / "ledger.import", busy, _LOCK_WAIT_S):
            yield


def import_lines(
    folder: Path, home: Path, lines: Callable[[], Iterable[bytes]], options: ImportOptions
) -> ImportReport:
    """Import records as JSON lines into a tenant's ledger, with the keys of a home. Memories are ignored."""
    keyring = Keyring(home / "identities")
    store = RecordStore(folder, keyring.signing_key)
    try:
        return RecordImporter(store, keyring, options).run(
            lambda: starmap(exports.parse_import_line, enumerate(lines(), 1))
        )
    finally:
        store.close()


def _text_size(item: exports.ImportItem) -> int:
    texts = [item.memory.text] if item.memory else map(str, item.draft.fields.values()) if item.draft else ()
    return sum(map(len, texts))


def _record_digest(record: RecordDraft | Record) -> bytes:
    """Return a hash that identical records share."""
    return hashlib.sha256(signed_bytes(record) + record.signature.encode()).digest()
