"""Forget: select, plan, erase the text everywhere, and prove that it is gone.

The plan is on disk before anything changes. Each step can be repeated, so an interrupted forget is completed by the next
command that writes. The order matters: tombstones first, so that neither an index run nor a capture brings the text back
while it is being erased.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import asdict, force_setattr, replace

from lorelog.core.atomic_file import Writing
from lorelog.core.document import FileStamp, SourceFile
from lorelog.core.errors import LorelogError, StoreBusy, StoreUnwritable, UsageError
from lorelog.core.ids import new_id
from lorelog.core.options import ChunkOptions
from lorelog.core.paths import is_below
from lorelog.core.ports import Store
from lorelog.core.record import Record
from lorelog.core.serializable import Serializable, utc_now
from lorelog.services.backup.archive import remove_partial_backups
from lorelog.services.forget import entries as forget_entries
from lorelog.services.forget import forget_plan, scrub
from lorelog.services.forget import residues as residue_search
from lorelog.services.indexing import IndexJob
from lorelog.services.indexing.run import IndexRun
from lorelog.services.memories.edit import edit_file
from lorelog.services.memory_state.tombstones import Tombstone, Tombstones, apply_missed_deletions
from lorelog.services.places.roots import Root
from lorelog.services.places.workspace import PLAN_SUFFIX, RECEIPT_FOLDER, SYNC_COPIES, Workspace
from lorelog.services.sessions.capture_db import open_captures

if TYPE_CHECKING:
    from lorelog.services.memory_state.authored import AuthoredMemories
    from lorelog.services.pipeline.scope import OpenRecords
    from lorelog.services.records.pages import RecordPages

_WRITER_WAIT_S = 30.0
_MAX_ALSO_IN = 20
_MAX_SEARCHES, _SEARCH_PAUSE_S = 3, 0.5
_REASON = "forgotten"
_NOT_OURS = ("models", "ollama", "run")
"""Folders of the home that hold no text of memories, and may be large."""
_KEPT_FILES = ("catalog.db", "records.db", "captures.db", "tombstones.jsonl", "roots.json", "config.toml", "ledger")
"""Files with a step of their own, or without text of memories: they are never edited by what is found in them."""


class ForgetReply(Serializable, Struct, frozen=True, kw_only=True, rename={"proof": "message"}):
    """What a forget would erase, or erased, and the proof."""

    dry_run: bool
    entries: tuple[forget_plan.ForgottenSection, ...] = ()
    records: tuple[str, ...] = ()
    selected: Mapping[str, int] = field(default_factory=dict)
    """Counts by kind."""
    references: Mapping[str, int] = field(default_factory=dict)
    """Lines and rows that name or quote it, by file; counted for a dry run."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Files that must not be edited, with the reason."""
    unreached: Mapping[str, str] = field(default_factory=dict)
    """Places that hold the text and stay as they are, with the reason."""
    transcripts: tuple[str, ...] = ()
    """Conversations of hosts that are deleted with it."""
    also_in: tuple[str, ...] = ()
    """Other memories that repeat parts of it, and are not forgotten."""
    proof: str = ""
    """Result of the search for it, in one line."""
    receipt: str = ""
    """Path of the receipt."""
    searched_files: int = 0
    residues: tuple[residue_search.Residue, ...] = ()
    unreadable: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    ok: bool = True
    """True if nothing is left."""

    def __post_init__(self) -> None:
        force_setattr(self, "ok", not self.residues and not self.unreadable)


def reached(step: str) -> None:
    """Do nothing; a test replaces it to interrupt a forget after a step."""


class Forgetter(Struct, frozen=True, kw_only=True, dict=True):
    """Forgets text of one tenant."""

    store: Store
    workspace: Workspace
    tombstones: Tombstones
    authored: AuthoredMemories
    job: Callable[[tuple[Root, ...]], IndexJob]
    pages: RecordPages
    open_records: Callable[[], OpenRecords]
    drop_caches: Callable[[], None]
    refresh: Callable[[], None]
    words: Callable[[str], Iterable[str]]
    """Returns the words of a text as the index has them."""
    projects: tuple[str, ...] | None = None
    """Projects that conditions apply to, unless a query names others; None for all."""

    @property
    def _folder(self) -> Path:
        return self.workspace.tenant_folder

    @cached_property
    def _chunking(self) -> ChunkOptions:
        return self.job(()).chunking

    @cached_property
    def _selector(self) -> forget_entries.Selector:
        return forget_entries.Selector(self.store, self.tombstones, self._chunking, self.pages.holds, self._records)

    def preview(
        self, query: forget_entries.ForgetQuery, *, edit_files: bool = False, host_transcripts: bool = False
    ) -> ForgetReply:
        """Return what `forget` would erase. Nothing is changed."""
        if query.receipt:
            return self._delete_left_transcripts(query.receipt, dry_run=True)
        plan, also_in = self._make_plan(query, "last", host_transcripts=host_transcripts)
        guards = scrub.find_guards(self._folder, plan, query.match)
        return _make_reply(
            plan,
            dry_run=True,
            references=scrub.count_references(self._folder, plan),
            refused=forget_entries.refuse_edit(
                plan.entries, self.workspace, self.authored.knows, edit_files=edit_files
            ),
            also_in=also_in,
            notes=tuple(f"the guard {name} contains it and goes, too: {message}" for name, message in guards.items()),
        )

    def forget(
        self, query: forget_entries.ForgetQuery, *, edit_files: bool = False, host_transcripts: bool = False
    ) -> ForgetReply:
        """Erase everything that a query selects from every file of ours. Raise UsageError if a file is not ours to edit.

        With `host_transcripts` the conversations that our own capture read are deleted, whole.
        """
        if query.receipt:
            return self._delete_left_transcripts(query.receipt, dry_run=False)
        plan, also_in = self._make_plan(query, new_id(), host_transcripts=host_transcripts)
        refused = forget_entries.refuse_edit(plan.entries, self.workspace, self.authored.knows, edit_files=edit_files)
        if refused:
            path, reason = next(iter(refused.items()))
            more = f" (and {len(refused) - 1:,} other files)" if len(refused) > 1 else ""
            raise UsageError(
                f"{path} is not ours to edit: {reason}{more}",
                hint="--edit-files erases the text all the same; nothing was changed",
            )
        with forget_plan.plan_lock(self._folder, _WRITER_WAIT_S) as is_held:
            if not is_held:
                raise StoreBusy("another process is forgetting something", hint="nothing was changed; try again")
            plan_file = forget_plan.write_plan(self._folder, plan)
            reached("plan")
            return replace(self._run(plan, plan_file), also_in=also_in)

    def complete(self) -> list[ForgetReply]:
        """Complete interrupted forgets, unless another process is doing that."""
        with forget_plan.plan_lock(self._folder, 0.0) as is_held:
            plans = forget_plan.pending_plans(self._folder) if is_held else []
            return [self._run(forget_plan.read_plan(path), path) for path in plans]

    def receipts(self) -> list[forget_plan.Receipt]:
        """Return all receipts, newest first: their ids are in order of time."""
        found: list[forget_plan.Receipt] = []
        for path in sorted((self._folder / RECEIPT_FOLDER).glob("*.json"), reverse=True):
            with suppress(LorelogError):
                found.append(forget_plan.read_receipt(path))
        return found

    def verify(self, name: str) -> ForgetReply:
        """Search again for what a receipt is about; `last` is the newest receipt."""
        path = forget_plan.find_receipt(self._folder, name)
        receipt = forget_plan.read_receipt(path)
        places = [place for place in map(Path, receipt.places) if place.exists()]
        report = residue_search.find_residues(receipt.canaries, places, keep=self._searches)
        deleted = {transcript for transcript in receipt.left_transcripts if not Path(transcript).exists()}
        unreached = {place: reason for place, reason in receipt.unreached.items() if place not in deleted}
        text = forget_plan.format_report(report, short=receipt.canaries.short)
        return ForgetReply(selected=receipt.selected, unreached=unreached, **_describe_proof(report, path, text))

    def _delete_left_transcripts(self, name: str, *, dry_run: bool) -> ForgetReply:
        """Delete the conversations of hosts that a receipt names, whole."""
        receipt = forget_plan.read_receipt(forget_plan.find_receipt(self._folder, name))
        paths = tuple(filter(forget_entries.is_own_transcript, receipt.left_transcripts))
        notes = () if paths else (f"the receipt {receipt.id} names no conversation that lorelog can delete",)
        reply = ForgetReply(dry_run=dry_run, transcripts=paths, notes=notes)
        if not dry_run:
            self._delete_transcripts(reply)
        return reply

    def _records(self) -> Iterable[Record]:
        book = self.open_records().book
        return book.ledger.read() if book.exists() else ()

    def _entries(self, selection: forget_entries.Selection, match: str) -> tuple[forget_plan.ForgottenEntry, ...]:
        """Return the entries to erase; a summary keeps its other lines if it can be reworded."""
        entries = [section.entry(match=match) for section in selection.sections.values()]
        for section in selection.summaries.values():
            entry = section.entry("reword")
            text = self._read_texts([entry]).get(entry.key, "")
            entries.append(
                entry if forget_entries.reword_summary(text, selection.contents) else replace(entry, action="cut")
            )
        return tuple(entries)

    def _read_texts(self, entries: Iterable[forget_plan.ForgottenEntry]) -> dict[str, str]:
        """Return the texts of entries as they are in their files, by key."""
        texts: dict[str, str] = {}
        for source, own in forget_entries.group_by_file(list(entries)).items():
            with suppress(OSError):
                texts |= forget_entries.section_texts(Path(source).read_bytes(), own, self._chunking)
        return texts

    def _make_plan(
        self, query: forget_entries.ForgetQuery, identity: str, *, host_transcripts: bool
    ) -> tuple[forget_plan.ForgetPlan, tuple[str, ...]]:
        """Return the plan for a query, and other memories that repeat parts of the text and stay."""
        query = replace(query, projects=self.projects) if query.projects == () else query
        selection = self._selector.select(query)
        entries = self._entries(selection, query.match)
        cut = {entry.key for entry in entries if entry.action == "cut"}
        sections = [*selection.sections.values(), *selection.summaries.values()]
        texts = [text for section in sections if section.key in cut for text in section.texts]
        texts += [text for record in selection.records.values() for text in forget_entries.record_texts(record)]
        texts += [query.match] if query.match else []
        vector_keys = tuple(dict.fromkeys(chunk.vector_key for section in sections for chunk in section.chunks))
        repeats, kept, wanted = residue_search.find_repetitions(texts), [], query.match.casefold()
        also_in: dict[str, None] = {}
        shared_keys: set[str] = set()
        for text, other in self._selector.kept_texts(selection):
            kept.append(text)
            if other is not None:
                shared_keys.update(chunk.vector_key for chunk in other.chunks)
            if len(also_in) < _MAX_ALSO_IN and (repeats(text) or (wanted and wanted in text.casefold())):
                also_in[other.label if other is not None else "a record of the ledger"] = None
        vector_keys = tuple(key for key in vector_keys if key not in shared_keys)  # the same text stays elsewhere
        own = forget_entries.find_own_transcripts(entries, self.authored)
        transcripts, left = (own, ()) if host_transcripts else ((), own)
        unreached = forget_entries.find_unreached(entries, self.workspace.home, str(getattr(self.store, "place", "")))
        unreached |= forget_entries.find_sync_remotes(self._folder)
        deletes = f"'lorelog forget --verify {identity} --host-transcripts' deletes it"
        unreached |= dict.fromkeys(left, f"the host's own conversation; {deletes}")
        plan = forget_plan.ForgetPlan(
            id=identity,
            at=utc_now(),
            entries=entries,
            records=tuple(selection.records),
            sessions=(query.session,) if query.session and not query.match else (),
            vector_keys=vector_keys,
            quotes=residue_search.make_quotes(texts, kept),
            canaries=residue_search.make_canaries(
                texts, vector_keys, vectors=self._vectors(selection, vector_keys), kept=kept, analyse=self.words
            ),
            selected=forget_entries.count_kinds(selection),
            unreached={place: reason for place, reason in unreached.items() if place not in transcripts},
            transcripts=transcripts,
            left_transcripts=left,
        )
        return replace(plan, guards=tuple(scrub.find_guards(self._folder, plan, query.match))), tuple(also_in)

    def _vectors(self, selection: forget_entries.Selection, vector_keys: Collection[str]) -> list[bytes]:
        """Return the vectors of what is forgotten, as files hold them, without those of text that stays elsewhere."""
        ids = {identity for section in selection.sections.values() for identity in section.ids}
        sources = {section.document.source for section in selection.sections.values()}
        stored = (entry for source in sources for entry in self.store.chunks_of(source))
        keys = [entry.key for entry in stored if entry.id in ids and entry.chunk.vector_key in vector_keys]
        return [*self.store.vectors(keys).values(), *self.store.vector_records(keys)]

    def _run(self, plan: forget_plan.ForgetPlan, path: Path) -> ForgetReply:
        self._add_tombstones(plan)
        reached("_add_tombstones")
        with ExitStack() as locks:
            if (self._folder / "captures.db").exists():
                captures = locks.enter_context(open_captures(self._folder))
                locks.enter_context(captures.exclusive())
                captures.forget(plan.memories, plan.sessions)
            reached("_mark_captures")
            for step in (self._edit_files, self._delete_transcripts):
                step(plan)
                reached(step.__name__)
        for step in (
            self._redact_records,
            self._remove_from_index,
            self._scrub_databases,
            self._scrub_logs,
            self._refresh_derived,
        ):
            step(plan)
            reached(step.__name__)
        return self._prove(plan, path)

    def _add_tombstones(self, plan: forget_plan.ForgetPlan) -> None:
        known = {stone.key for stone in self.tombstones.all() if stone.forgotten}
        cut = {entry.key: entry for entry in plan.entries if entry.action == "cut" and entry.key not in known}
        if cut:
            self.tombstones.append(
                Tombstone(entry.key, entry.memory, entry.source, entry.ids, plan.at, forgotten=True)
                for entry in cut.values()
            )

    def _edit_files(self, plan: forget_plan.ForgetPlan) -> None:
        for source, entries in forget_entries.group_by_file(plan.entries).items():
            edit_file(
                Path(source),
                partial(
                    forget_entries.erase_sections, entries=entries, contents=plan.contents, chunking=self._chunking
                ),
            )

    def _delete_transcripts(self, plan: forget_plan.ForgetPlan | ForgetReply) -> None:
        for path in plan.transcripts:
            with Writing(path, "deleted", hint="'lorelog forget --complete' goes on"):
                Path(path).unlink(missing_ok=True)

    def _redact_records(self, plan: forget_plan.ForgetPlan) -> None:
        if not plan.records:
            return
        records = self.open_records()
        actor = records.keyring.name or records.agent or "lorelog"
        sign = records.keyring.sign if records.keyring.name else None
        records.book.redact(plan.records, actor=actor, reason=_REASON, sign=sign)

    def _remove_from_index(self, plan: forget_plan.ForgetPlan) -> None:
        store, job = self.store, self.job(())
        with store.writer(wait_s=_WRITER_WAIT_S) as writer:
            apply_missed_deletions(store, writer, self.tombstones)
        files, roots = [], {}
        for source, entries in forget_entries.group_by_file(plan.entries).items():
            with suppress(OSError):
                files.append(SourceFile(source, entries[0].root, FileStamp.from_stat(Path(source).lstat())))
                roots[entries[0].root] = Root(entries[0].root, entries[0].project)
        if files:
            IndexRun(store, None, replace(job, roots=tuple(roots.values()), force=True)).over_files(files)
        if plan.records:
            self.pages.catch_up()
        with store.writer(wait_s=_WRITER_WAIT_S) as writer:
            writer.purge(plan.vector_keys)

    def _scrub_databases(self, plan: forget_plan.ForgetPlan) -> None:
        """Delete rows of the traces, and empty the cache of mentions, whose rows do not say which memory they are of."""
        from lorelog.services.freshness.mentions import CACHE_FILE

        for database in sorted(self._folder.glob("traces*.db")):
            scrub.scrub_database(database, plan)
        scrub.scrub_database(self.workspace.cache_folder / CACHE_FILE, plan, every_row_of=("targets",))

    def _scrub_logs(self, plan: forget_plan.ForgetPlan) -> None:
        scrub.scrub_tenant_logs(self._folder, plan)
        for name in ("logs", "spool", "summaries"):
            scrub.scrub_folder(self.workspace.home / name, plan, "**/*", disposable=name != "logs")
        # Copies of exchanges with other machines hold what was fetched, compressed. The next sync fetches again.
        shutil.rmtree(self.workspace.cache_folder / SYNC_COPIES, ignore_errors=True)
        delivery = self.workspace.cache_folder / "delivery"
        for waiting in (*delivery.glob("*.handoff"), *delivery.glob("*.open")):
            waiting.unlink(missing_ok=True)  # it may quote the text, shortened
        for folder in self._project_folders():
            scrub.scrub_folder(folder, plan, "*", disposable=False)

    def _refresh_derived(self, plan: forget_plan.ForgetPlan) -> None:
        """Delete the delivery files that mention what is forgotten, write those of this project again, drop caches."""
        from lorelog.services.guards.guard_log import GuardLog

        names = [name.encode() for name in plan.names]
        for file in (self.workspace.cache_folder / "delivery").glob("*"):
            with suppress(OSError):
                data = file.read_bytes()
                if any(name in data for name in names) or plan.quotes.occur_in(data.decode("utf-8", "replace")):
                    file.unlink(missing_ok=True)
        guards = GuardLog(self._folder / "guards.jsonl")
        if guards.path.exists():
            guards.refresh_snapshot()
        self.drop_caches()
        self.refresh()

    def _scrub_found(self, plan: forget_plan.ForgetPlan, report: residue_search.ResidueReport) -> None:
        """Erase what a search still finds: in logs, waiting events, context files, backups, temporary files."""
        home = self.workspace.home
        disposable = [home / "spool", home / "summaries", home / "backups", self._folder / "compact"]
        disposable += [self.workspace.cache_folder, *(place / "wiki" for place in self._project_folders())]
        journals = {entry.project for entry in plan.entries}
        found = {Path(residue.path) for residue in report.residues}
        for path in {path if path.exists() else Path(str(path).partition("!")[0]) for path in found}:  # in an archive
            if path.name.startswith(_KEPT_FILES) and ".bad-" not in path.name:
                continue
            if any(forget_entries.is_journal(str(path), project, self.workspace) for project in journals):
                continue
            is_temporary = path.suffix in {".tmp", ".new", ".part"}
            is_disposable = is_temporary or any(is_below(str(path), str(folder)) for folder in disposable)
            with suppress(StoreUnwritable):  # it is reported as a residue
                scrub.scrub_file(path, plan, disposable=is_disposable)

    def _backups(self) -> set[str]:
        """Return the files below our own folder of backups, which are deleted if they hold the text."""
        return {str(path) for path in (self.workspace.home / "backups").rglob("*") if path.is_file()}

    def _places(self, plan: forget_plan.ForgetPlan) -> list[Path]:
        sources = [Path(source) for source in forget_entries.group_by_file(plan.entries)]
        folders = [self.workspace.home, *self._project_folders({entry.project for entry in plan.entries})]
        return [*folders, *(source for source in sources if not any(is_below(str(source), str(f)) for f in folders))]

    def _project_folders(self, projects: Iterable[str] = ()) -> list[Path]:
        roots = dict.fromkeys((self.workspace.project.id, self.workspace.project.root, *projects))
        return [folder for root in roots if root and (folder := Path(root) / ".lorelog").is_dir()]

    def _searches(self, path: Path) -> bool:
        """Return False for plans, which hold the keys of vectors until the forget is done, and for models."""
        home = str(self.workspace.home)
        return path.suffix != PLAN_SUFFIX and not any(is_below(str(path), f"{home}/{name}") for name in _NOT_OURS)

    def _prove(self, plan: forget_plan.ForgetPlan, path: Path) -> ForgetReply:
        places = self._places(plan)
        search = partial(residue_search.find_residues, plan.canaries, places, keep=self._searches)
        report, backups = search(), self._backups()
        for _ in range(_MAX_SEARCHES):
            if report.ok:
                break
            self._scrub_found(plan, report)
            reached("_scrub_found")
            time.sleep(_SEARCH_PAUSE_S if report.unreadable else 0.0)  # an index run may have replaced a file meanwhile
            report = search()
        notes = [f"the guard {name} contained it and was removed; 'lorelog guard add' adds one" for name in plan.guards]
        notes += [f"{path} held it and was deleted" for path in sorted(backups - self._backups())]
        notes += [f"{path}, an unfinished backup, was deleted" for path in remove_partial_backups(self.workspace.home)]
        receipt = forget_plan.Receipt(
            id=plan.id,
            at=plan.at,
            text=forget_plan.format_report(report, short=plan.canaries.short, unreachable=len(plan.unreached)),
            selected=plan.selected,
            places=tuple(map(str, places)),
            unreached=plan.unreached,
            left_transcripts=plan.left_transcripts,
            canaries=plan.canaries,
            **asdict(report),
        )
        written = forget_plan.write_receipt(self._folder, receipt)
        reached("receipt")
        path.unlink(missing_ok=True)
        return _make_reply(plan, notes=tuple(notes), **_describe_proof(report, written, receipt.text))


def _describe_proof(report: residue_search.ResidueReport, receipt: Path, text: str) -> dict[str, Any]:
    searched = {"searched_files": report.files, "residues": report.residues, "unreadable": report.unreadable}
    return {"dry_run": False, "proof": text, "receipt": str(receipt), **searched}


def _make_reply(plan: forget_plan.ForgetPlan, **more: Any) -> ForgetReply:
    same = {name: getattr(plan, name) for name in ("records", "selected", "unreached", "transcripts")}
    return ForgetReply(entries=tuple(entry.section() for entry in plan.entries), **(same | more))
