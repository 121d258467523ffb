"""Exchange the chosen projects of a machine with a Git remote: fetch, merge, apply here, check for secrets, push.

What others wrote is applied before anything is pushed, and every step can be repeated: a sync that is killed or offline loses
nothing, and the next one continues. There is no queue: what the exchange does not have is sent whenever it can be reached.
A text with a secret stops the push, not the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from lorelog.core.errors import LorelogError, StoreBusy, StoreUnreachable, UsageError
from lorelog.core.serializable import Serializable
from lorelog.ingest.redaction.redact import redact
from lorelog.services.places.roots import Root
from lorelog.services.places.workspace import SYNC_COPIES, Workspace
from lorelog.services.sync.exchange import (
    CommitAuthor,
    Exchange,
    ExchangeMoved,
    ExchangeState,
    PushRefused,
    SyncFolder,
    SyncSettings,
)
from lorelog.services.sync.exchange_plan import (
    LOGS,
    ExchangePlan,
    MachineState,
    plan_exchange,
    read_journals,
    writer_file,
)
from lorelog.services.sync.local_files import LocalFiles, is_personal
from lorelog.services.sync.merge import SyncEntry, json_object

_MAX_TRIES = 8


class SecretFinding(Serializable, Struct, frozen=True, kw_only=True):
    """A text that is not pushed because it holds a secret."""

    id: str
    """Id of the memory, record or guard."""
    source: str
    """Its file."""
    line: int
    """Line in the file, from 1; 0 if it is not in a journal."""
    kinds: tuple[str, ...]


class SyncReport(Serializable, Struct, frozen=True, kw_only=True):
    """What one exchange did, or would do."""

    name: str
    url: str
    team: bool
    dry_run: bool
    is_offline: bool = False
    reason: str = ""
    """Why it is offline, or why nothing was sent although it was reached."""
    pushed: bool = False
    projects: tuple[str, ...] = ()
    """Names of the exchanged projects."""
    other_projects: tuple[str, ...] = ()
    """Names of projects that are in the exchange and not chosen here."""
    writers: Mapping[str, str] = field(default_factory=dict)
    """Ids of the machines, with the names of their users."""
    received: int = 0
    """Entries that were added here."""
    updated: int = 0
    """Entries that were edited elsewhere."""
    sent: int = 0
    """Entries that the exchange did not have; while it is offline, those that wait."""
    records_received: int = 0
    records_sent: int = 0
    forgotten: int = 0
    """Entries and records that were forgotten here because another machine forgot them."""
    conflicts: tuple[str, ...] = ()
    """Memories that were edited on two machines; both texts are kept."""
    secrets: tuple[SecretFinding, ...] = ()
    problems: tuple[str, ...] = ()
    last: str = ""
    """Time of the last complete exchange."""


class SyncDeps(Struct, frozen=True, kw_only=True):
    """What a sync needs of an engine."""

    workspace: Workspace
    user: str
    """Name of the user, as others see it."""
    index: Callable[[Sequence[Path], Root], Sequence[str]]
    """Indexes journals; returns problems."""
    forget: Callable[[Sequence[str]], Sequence[str]]
    """Takes memories and records out for good; returns problems."""
    chunks_at: Callable[[str, int, int], Sequence[str]]
    """Returns the ids of the indexed chunks that begin in some lines of a file: from the first one up to the last."""
    refresh: Callable[[], None]
    """Called after logs have changed."""
    patterns: tuple[str, ...] = ()
    """Regular expressions of additional secrets."""


class Syncer:
    """Exchanges the projects of one exchange."""

    def __init__(self, deps: SyncDeps, settings: SyncSettings) -> None:
        self._deps, self._settings = deps, settings
        self._projects = {path: name for path, name in settings.projects.items() if not path or Path(path).is_dir()}
        """The chosen projects that are there. One that was moved or deleted is not created again."""
        self._folder = SyncFolder(deps.workspace.tenant_folder)
        self._exchange = Exchange(
            deps.workspace.cache_folder / SYNC_COPIES / f"{settings.name}.git",
            settings.url,
            settings.branch,
        )
        self._problems: list[str] = []

    def run(self, *, dry_run: bool = False) -> SyncReport:
        """Exchange; the caller holds the lock of syncs. Raise StoreBusy, and StoreDamaged if the remote holds something else."""
        if not self._projects:
            gone = f"; gone: {', '.join(self._settings.projects)}" if self._settings.projects else ""
            raise UsageError(
                f"no project is exchanged with {self._settings.url}{gone}", hint="lorelog sync REMOTE, in a project"
            )
        for _ in range(_MAX_TRIES):
            try:
                return self._run(dry_run=dry_run)
            except StoreUnreachable as error:
                return self._offline_report(error, dry_run=dry_run)
            except ExchangeMoved:
                continue
        raise StoreBusy(f"other machines keep pushing to {self._settings.url}", hint="nothing is lost; sync again")

    def waiting(self) -> int:
        """Return the number of entries that were written or edited since the last exchange."""
        local = self._local()
        count = 0
        for project, name in self._projects.items():
            base = self._settings.base.get(name, {})
            entries = self._shared(local.entries(project))
            count += sum(base.get(key) != entry.digest for key, entry in entries.items())
        return count

    def _run(self, *, dry_run: bool) -> SyncReport:
        self._problems = [
            f"{path} is gone, and {name} is not exchanged: run 'lorelog sync {self._settings.name}' where it is now"
            for path, name in self._settings.projects.items()
            if path not in self._projects
        ]
        before = self._exchange.fetch()
        local = self._local()
        plan = self._plan(local, before)
        if dry_run:
            return self._report(plan, dry_run=True, secrets=self._find_secrets(local, plan, before))
        forget = plan.forget
        if forget:
            self._forget(local, plan)
            before = self._exchange.fetch()  # our copy of the exchange is gone, too
            plan = self._plan(local, before)
        self._settings.pending = {name: dict(digests) for name, digests in plan.pending.items()}
        self._folder.write(self._settings)
        records = self._apply(local, plan)
        self._remember(plan, is_complete=False)
        secrets = self._find_secrets(local, plan, before)
        is_changed = dict(plan.files) != dict(before.files)
        refusal = ""
        if not secrets and is_changed:
            author = CommitAuthor(self._deps.user, self._folder.writer())
            try:
                self._exchange.push(before, plan.files, author, _commit_message(plan))
            except PushRefused as error:
                refusal = str(error)
        if plan.erases:
            self._exchange.drop()  # its objects hold the forgotten text
        is_complete = not secrets and not refusal
        if is_complete:
            self._remember(plan, is_complete=True)
        report = replace(self._report(plan, dry_run=False, secrets=secrets), reason=refusal)
        return replace(report, pushed=is_changed and is_complete, records_received=records, forgotten=len(forget))

    def _plan(self, local: LocalFiles, before: ExchangeState) -> ExchangePlan:
        plan = plan_exchange(self._state(local, before, self._folder.writer()), before.files)
        if plan.is_fork:
            self._settings.seen.pop(self._folder.writer(), None)
            plan = plan_exchange(self._state(local, before, self._folder.new_writer()), before.files)
        return plan

    def _local(self) -> LocalFiles:
        return LocalFiles(self._deps.workspace, self._projects)

    def _shared(self, entries: Mapping[str, SyncEntry]) -> dict[str, SyncEntry]:
        """Return the entries that others may have: in a team, without the user's corrections and preferences."""
        return {key: entry for key, entry in entries.items() if not (self._settings.team and is_personal(entry.text))}

    def _state(self, local: LocalFiles, before: ExchangeState, writer: str) -> MachineState:
        settings = self._settings
        records, ids = local.records()
        journals_there = {name: read_journals(before.files, name) for name in self._projects.values()}
        return MachineState(
            writer=writer,
            user=self._deps.user,
            team=settings.team,
            entries={name: self._shared(local.entries(project)) for project, name in self._projects.items()},
            logs={log: tuple(line for _, line in local.log_lines(log)) for log in LOGS},
            records=records,
            record_ids=ids,
            forgotten=local.forgotten(journals_there),
            authored=local.authored(),
            base=settings.base,
            pending=settings.pending,
            seen=settings.seen,
        )

    # -- apply -------------------------------------------------------------------------------------------------------

    def _apply(self, local: LocalFiles, plan: ExchangePlan) -> int:
        """Write what others have to the files here, and return the number of records that were added."""
        if self._settings.team:  # a home without a registry would adopt what others wrote as the user's own
            self._deps.refresh()
            local.ensure_registry()
        for project, name in self._projects.items():
            added, replaced = plan.added.get(name, {}), plan.replaced.get(name, {})
            if added or replaced:
                local.write_entries(project, added, replaced)
        for log, lines in plan.logs.items():
            local.write_log(log, lines)
        report = local.add_records(plan.records, restore=not self._settings.team, patterns=self._deps.patterns)
        self._problems += [f"record {problem.id}: {problem.message}" for problem in report.problems]
        self._index(local)
        if plan.logs or report.written:
            self._deps.refresh()
        return report.written

    def _index(self, local: LocalFiles) -> None:
        """Index all journals: one may have been written by a sync that was killed, and deletions change none."""
        for project in self._projects:
            if paths := local.journal_paths(project):
                self._problems += self._deps.index(paths, local.root(project))

    def _forget(self, local: LocalFiles, plan: ExchangePlan) -> None:
        """Forget what another machine forgot: everywhere, as `lorelog forget` does, and in any case in the journals."""
        self._index(local)  # a journal that was never indexed must be found
        without_id = {
            key: (project, entry)
            for project in self._projects
            for key, entry in local.entries(project).items()
            if not entry.memory
        }
        for key in plan.forget:
            names: Sequence[str] = (key,)
            if key in without_id:  # the index knows it by its chunks only, whose ids change with the file
                project, entry = without_id[key]
                source, line = local.locate(project, key)
                names = self._deps.chunks_at(source, line, line + entry.text.count("\n"))
            self._problems += self._deps.forget(names)
        for project in self._projects:
            left = [key for key in plan.forget if key in local.entries(project)]
            if left:
                local.cut_entries(project, left)
        records, _ = local.records()
        local.note_forgotten({key: plan.forgotten.get(key, _now()) for key in plan.forget if key not in records})

    # -- secrets -----------------------------------------------------------------------------------------------------

    def _find_secrets(self, local: LocalFiles, plan: ExchangePlan, before: ExchangeState) -> tuple[SecretFinding, ...]:
        """Return the secrets in everything that the exchange does not have yet."""
        found: list[SecretFinding] = []
        for name, entries in plan.sent.items():
            for key, entry in entries.items():
                result = redact(entry.text, self._deps.patterns)
                if result.kinds:
                    source, first = local.locate(local.directories[name], key)
                    line = first + _first_difference(entry.text, result.text)
                    kinds = tuple(sorted(result.kinds))
                    found.append(SecretFinding(id=redact(key).text, source=source, line=line, kinds=kinds))
        found += self._secret_names(plan, before)
        writer = self._folder.writer()
        for log in ("ledger", *LOGS):
            path = writer_file(writer, log)
            known = set(before.files.get(path, b"").split(b"\n"))
            for row in plan.files.get(path, b"").split(b"\n"):
                kinds = self._secret_kinds(row) if row and row not in known else ()
                if kinds:
                    found.append(
                        SecretFinding(id=_line_id(row), source=str(local.folder / f"{log}.jsonl"), line=0, kinds=kinds)
                    )
        return tuple(found)

    def _secret_names(self, plan: ExchangePlan, before: ExchangeState) -> list[SecretFinding]:
        """Return the secrets in names of files, projects and the user, which the exchange does not have yet."""
        found = []
        for path, content in plan.files.items():
            if before.files.get(path) == content:
                continue
            name = path.rpartition("/")[2]
            names = [name] if path not in before.files else []
            names += _texts(json_object(content)) if path.endswith(".json") else []
            for text in names:
                result = redact(text, self._deps.patterns)
                if result.kinds:
                    what = f"the name {result.text}"
                    kinds = tuple(sorted(result.kinds))
                    found.append(SecretFinding(id=what, source=redact(path).text, line=0, kinds=kinds))
        return found

    def _secret_kinds(self, line: bytes) -> tuple[str, ...]:
        texts = _texts(json_object(line))
        return tuple(sorted({kind for text in texts for kind in redact(text, self._deps.patterns).kinds}))

    # -- state and report --------------------------------------------------------------------------------------------

    def _remember(self, plan: ExchangePlan, *, is_complete: bool) -> None:
        settings = self._settings
        base = plan.base if is_complete else plan.received_base
        settings.base = {**settings.base, **{name: dict(digests) for name, digests in base.items()}}
        settings.pending = {}
        own = self._folder.writer()
        settings.seen = {writer: seen for writer, seen in plan.seen.items() if is_complete or writer != own}
        settings.last = _now() if is_complete else settings.last
        self._folder.write(settings)

    def _report(self, plan: ExchangePlan, *, dry_run: bool, secrets: tuple[SecretFinding, ...]) -> SyncReport:
        return replace(
            _empty_report(self._settings, dry_run=dry_run),
            other_projects=plan.other_projects,
            writers=plan.users,
            received=sum(map(len, plan.added.values())),
            updated=sum(map(len, plan.replaced.values())),
            sent=sum(map(len, plan.sent.values())),
            records_received=len(plan.records),
            records_sent=plan.sent_records,
            forgotten=len(plan.forget),
            conflicts=plan.conflicts,
            secrets=secrets,
            problems=tuple(dict.fromkeys((*plan.problems, *self._problems))),
        )

    def _offline_report(self, error: LorelogError, *, dry_run: bool) -> SyncReport:
        report = failed_report(self._settings, error.message, dry_run=dry_run)
        return replace(report, is_offline=True, sent=self.waiting())


def failed_report(settings: SyncSettings, reason: str, *, dry_run: bool) -> SyncReport:
    """Return the report of an exchange that did not take place."""
    return replace(_empty_report(settings, dry_run=dry_run), reason=reason)


def _empty_report(settings: SyncSettings, *, dry_run: bool) -> SyncReport:
    return SyncReport(
        name=settings.name,
        url=settings.url,
        team=settings.team,
        dry_run=dry_run,
        projects=tuple(settings.projects.values()),
        last=settings.last,
    )


def _first_difference(text: str, redacted: str) -> int:
    """Return the index of the first line that redaction changes."""
    pairs = zip(text.split("\n"), redacted.split("\n"), strict=False)
    return next((number for number, (line, clean) in enumerate(pairs) if line != clean), 0)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _line_id(line: bytes) -> str:
    values = json_object(line)
    record = values.get("record", values)
    return str(record.get("memory") or record.get("id") or "") if isinstance(record, dict) else ""


def _commit_message(plan: ExchangePlan) -> str:
    entries = sum(map(len, plan.sent.values()))
    return f"lorelog sync: {entries} entries, {plan.sent_records} records\n"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
