"""Exchange the chosen projects of a machine with a Git remote: fetch, merge, apply here, check for secrets, push.

What others wrote is applied before anything is pushed, and every step can be repeated: a sync that is killed or offline loses
nothing, and the next one continues. There is no queue: what the exchange does not have is sent whenever it can be reached.
A text with a secret stops the push, not the rest.

Every file here is replaced as a whole, under the lock that other writers honour. Adding an entry twice changes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from lorelog.core.atomic_file import Writing
from lorelog.core.document import GLOBAL_PROJECT
from lorelog.core.errors import StoreBusy, StoreUnreachable, UsageError
from lorelog.core.record import REDACTION_KIND, Record
from lorelog.core.serializable import Serializable, utc_now
from lorelog.ingest.redaction.redact import redact
from lorelog.records.ledger import Ledger
from lorelog.services.backup.archive import project_workspace, read_consistently
from lorelog.services.backup.restore import ForgottenMemories, forgotten_lines, open_locked, write_whole_file
from lorelog.services.forget.scrub import iter_texts
from lorelog.services.memories.journal import anchor_field, entry_digest, split_journal
from lorelog.services.memory_state.authored import AuthoredMemories
from lorelog.services.memory_state.tombstones import Tombstone, Tombstones, memory_key
from lorelog.services.places.roots import Root
from lorelog.services.places.workspace import SYNC_COPIES, Workspace, create_project_folder
from lorelog.services.records.exports import record_to_json
from lorelog.services.records.keyring import sign_bytes
from lorelog.services.records.record_importer import ImportOptions, ImportReport, import_lines
from lorelog.services.standing.ownership import known_writers
from lorelog.services.sync import exchange, exchange_plan, merge

_SHARED_TAG = "shared"
_PERSONAL_TYPES = ("correction", "preference")
_JOURNAL_FILE = re.compile(r"[\w][\w.-]{0,100}\.md")
_LEFT_OUT_FIELDS = ("address",)
_BLANK_FIELDS: Mapping[str, Mapping[str, Any]] = {"tombstones": {"source": "", "ids": []}}
"""Fields that are paths of this machine, or derived from one."""


class LocalFiles(Struct):
    """The files of one tenant. `projects` maps the directories of chosen projects to their names across machines."""

    workspace: Workspace
    projects: Mapping[str, str]

    @property
    def directories(self) -> dict[str, str]:
        """The directories of the chosen projects by their names across machines."""
        return {name: directory for directory, name in self.projects.items()}

    @property
    def folder(self) -> Path:
        """The tenant's folder."""
        return self.workspace.tenant_folder

    def root(self, project: str) -> Root:
        """Return the folder of a project's journals. Raise StoreUnwritable if a link leads out of the project."""
        if project == GLOBAL_PROJECT:
            return self.workspace.journal_root(to_global=True)
        return project_workspace(self.workspace.home, self.workspace.tenant, project).journal_root(to_global=False)

    def journals(self, project: str) -> dict[str, str]:
        """Return the texts of a project's journals by name."""
        paths = self.journal_paths(project)
        return {path.name: read_consistently(path).decode("utf-8", "replace") for path in paths}

    def journal_paths(self, project: str) -> list[Path]:
        """Return the paths of a project's journals."""
        paths = sorted(Path(self.root(project).path).glob("*.md"))
        return [
            path for path in paths if _JOURNAL_FILE.fullmatch(path.name) and path.is_file() and not path.is_symlink()
        ]

    def entries(self, project: str) -> dict[str, merge.SyncEntry]:
        """Return the entries of a project by key."""
        return merge.by_key(
            entry for file, text in self.journals(project).items() for entry in merge.read_journal(file, text)
        )

    def write_entries(
        self, project: str, added: Mapping[str, merge.SyncEntry], replaced: Mapping[str, merge.SyncEntry]
    ) -> None:
        """Add entries that are still missing, and replace those that still have the text they had."""
        root = self.root(project)
        if project != GLOBAL_PROJECT:
            create_project_folder(project)  # with a .gitignore: what came from other machines is not for the repository
        known = self.entries(project) if added else {}
        missing = {key: entry for key, entry in added.items() if key not in known}
        files = {entry.file for entry in missing.values() if _JOURNAL_FILE.fullmatch(entry.file)}
        if replaced:
            files |= self.journals(project).keys()
        for file in sorted(files):

            def add_missing(text: str, file: str = file) -> str:
                own = merge.by_key(merge.read_journal(file, text))
                fresh = [entry for entry in missing.values() if entry.file == file and entry.key not in own]
                return merge.add_to_journal(text, file, fresh, replaced)

            self._edit(Path(root.path) / file, add_missing)

    def cut_entries(self, project: str, keys: Collection[str]) -> None:
        """Erase entries in the journals of a project."""
        for path in self.journal_paths(project):
            self._edit(path, partial(merge.cut_from_journal, keys=keys))

    def _edit(self, path: Path, edit: Callable[[str], str]) -> None:
        """Replace a journal by its edited text, while others are kept from appending to it."""
        with Writing(path, hint="free some space, and sync again"), open_locked(path) as content:
            before = (content or b"").decode("utf-8", "surrogateescape")  # bytes that are not UTF-8 stay
            after = edit(before)
            if after != before:
                write_whole_file(path, after.encode("utf-8", "surrogateescape"), replaces=content is not None)

    def locate(self, project: str, key: str) -> tuple[str, int]:
        """Return the journal of an entry and its first line; empty if it is gone."""
        folder = Path(self.root(project).path)
        for file, text in self.journals(project).items():
            for part in split_journal(text):
                if part.is_entry and key in (part.memory, entry_digest(part.text)):
                    return str(folder / file), part.first_line
        return "", 0

    def log_lines(self, log: str, content: bytes | None = None) -> list[tuple[str, exchange_plan.SyncLogLine]]:
        """Return the lines of a log: as they are here, and as they are exchanged."""
        path = self.folder / f"{log}.jsonl"
        if content is None:
            content = read_consistently(path) if path.exists() else b""
        rows = content.decode("utf-8", "replace").split("\n")[:-1]
        lines = [(raw, merge.json_object(raw)) for raw in rows if raw.strip()]
        guards = {str(line.get("id")): str(line.get("project", "")) for _, line in lines if line.get("event") == "add"}
        found = []
        for raw, values in lines:
            if not values:  # it cannot be read, and stays as it is
                line = exchange_plan.SyncLogLine(raw, in_scope=False)
            elif log == "guards":
                project = values.get("project")
                named = {"project": self.projects[project]} if project and project in self.projects else {}
                line = exchange_plan.SyncLogLine(
                    _dump(values | named), in_scope=guards.get(str(values.get("id")), "") in self.projects
                )
            else:
                fields = {name: value for name, value in values.items() if name not in _LEFT_OUT_FIELDS}
                memory = str(values.get("memory") or "")
                in_scope = bool(memory) and not values.get("forgotten")
                line = exchange_plan.SyncLogLine(
                    _dump({**fields, **_BLANK_FIELDS.get(log, {})}), memory, in_scope=in_scope
                )
            found.append((raw, line))
        return found

    def write_log(self, log: str, lines: Sequence[str]) -> None:
        """Write a log with exchanged lines. A line that is here already stays as it is here."""
        path = self.folder / f"{log}.jsonl"
        with open_locked(path) as content:
            here = self.log_lines(log, content or b"")
            raw = {line.text: own for own, line in here}
            texts = []
            for line in lines:
                values, project = merge.json_object(line), str(merge.json_object(line).get("project", ""))
                named = {"project": self.directories[project]} if project in self.directories else None
                texts.append(raw.get(line) or (_dump(values | named) if named else line))
            wanted = set(lines)
            texts += [own for own, line in here if line.text not in wanted]  # appended meanwhile
            data = "".join(f"{text}\n" for text in texts).encode("utf-8", "replace")
            write_whole_file(path, data, replaces=content is not None)

    def records(self) -> tuple[dict[str, dict[str, Any]], set[str]]:
        """Return the records of chosen projects as they are exchanged, by id and in order, and the ids of all records."""
        found: dict[str, dict[str, Any]] = {}
        ids: set[str] = set()
        for record in self._ledger():
            ids.add(record.id)
            if record.project in self.projects and record.kind != REDACTION_KIND and record.verified:
                values = record_to_json(record)
                found[record.id] = {**values, "project": self.projects[record.project]} if record.project else values
        return found, ids

    def _ledger(self) -> Iterable[Record]:
        return Ledger(self.folder).read() if self.folder.is_dir() else ()

    def add_records(
        self, records: Iterable[Mapping[str, Any]], *, restore: bool, patterns: tuple[str, ...]
    ) -> ImportReport:
        """Append records of other machines to the ledger. Without `restore` they count as imported, unless signed."""
        lines = []
        for values in records:
            project = self.directories.get(str(values.get("project", "")), "")
            moved = {**values, "project": project} if project else {k: v for k, v in values.items() if k != "project"}
            lines.append(json.dumps(moved, ensure_ascii=False, sort_keys=True).encode("utf-8", "replace"))
        if not lines:
            return ImportReport()
        return import_lines(
            self.folder, self.workspace.home, lambda: lines, ImportOptions(restore=restore, patterns=patterns)
        )

    def forgotten(self, there: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        """Return what was forgotten here, with the time: ids of memories and records, digests of texts without an id.

        `there` are the journals of the exchange, by project name and file: sections without an id are looked for in them.
        """
        stones = [stone for stone in self._tombstones().all() if stone.forgotten]
        found = {stone.memory: stone.at for stone in stones if stone.memory}
        found |= {record.id: record.at for record in self._ledger() if record.redacted}
        without_id = {stone.key: stone.at for stone in stones if not stone.memory}
        if without_id:
            gone = ForgottenMemories(frozenset(without_id), frozenset())
            for project, name in self.projects.items():
                for file, text in there.get(name, {}).items():
                    lines = forgotten_lines(text, file, (project,), gone)
                    for part in split_journal(text):
                        numbers = range(part.first_line, part.last_line + 1)
                        if part.is_entry and not part.memory and not lines.isdisjoint(numbers):
                            found[part.key] = max(without_id.values())
        return found

    def note_forgotten(self, keys: Mapping[str, str]) -> None:
        """Register memories as forgotten that were forgotten elsewhere: an older backup must not bring them back."""
        known = {stone.memory for stone in self._tombstones().all() if stone.forgotten}
        stones = [
            Tombstone(memory_key(key), key, "", (), at, forgotten=True) for key, at in keys.items() if key not in known
        ]
        if stones:
            self._tombstones().append(stones)

    def _tombstones(self) -> Tombstones:
        return Tombstones(self.folder / "tombstones.jsonl")


def _dump(values: Mapping[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False)


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
    guards: tuple[str, ...] = ()
    """Guards that came from other machines: id and message."""
    new_writers: tuple[exchange_plan.NewWriter, ...] = ()
    """Writers of a personal exchange that a person has not accepted here: nothing of theirs counts as the user's."""
    accepted: tuple[str, ...] = ()
    """Writers that were accepted now."""
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
    check_guard: Callable[[Mapping[str, Any]], str] = lambda _: ""
    """Returns why a guard from another machine is not taken over; empty if it is."""
    accept: Collection[str] = ()
    """Ids or fingerprints of writers that the user accepts as machines of their own."""


class Syncer:
    """Exchanges the projects of one exchange."""

    def __init__(self, deps: SyncDeps, settings: exchange.SyncSettings) -> None:
        self._deps, self._settings = deps, settings
        self._projects = {path: name for path, name in settings.projects.items() if not path or Path(path).is_dir()}
        """The chosen projects that are there. One that was moved or deleted is not created again."""
        self._folder = exchange.SyncFolder(deps.workspace.tenant_folder)
        self._exchange = exchange.Exchange(
            deps.workspace.cache_folder / SYNC_COPIES / f"{settings.name}.git", settings.url, settings.branch
        )
        self._problems: list[str] = []
        self._accepted: list[str] = []

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
                report = failed_report(self._settings, error.message, dry_run=dry_run)
                return replace(report, is_offline=True, sent=self.waiting())
            except exchange.ExchangeMoved:
                continue
        raise StoreBusy(f"other machines keep pushing to {self._settings.url}", hint="nothing is lost; sync again")

    def waiting(self) -> int:
        """Return the number of entries that were written or edited since the last exchange."""
        local, count = LocalFiles(self._deps.workspace, self._projects), 0
        for project, name in self._projects.items():
            base = self._settings.base.get(name, {})
            entries = self._shared(name, local.entries(project))
            count += sum(base.get(key) != entry.digest for key, entry in entries.items())
        return count

    def _run(self, *, dry_run: bool) -> SyncReport:
        self._problems = [
            f"{path} is gone, and {name} is not exchanged: run 'lorelog sync {self._settings.name}' where it is now"
            for path, name in self._settings.projects.items()
            if path not in self._projects
        ]
        before = self._exchange.fetch()
        self._problems += before.problems
        local = LocalFiles(self._deps.workspace, self._projects)
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
        machine, files = self._folder.writer(), dict(plan.files)
        if not self._settings.team:
            files = exchange_plan.sign_files(files, machine, self._folder.key())
        is_changed = files != dict(before.files)
        refusal = ""
        if not secrets and is_changed:
            message = f"lorelog sync: {sum(map(len, plan.sent.values()))} entries, {plan.sent_records} records\n"
            try:
                self._exchange.push(before, files, message, user=self._deps.user, machine=machine)
            except exchange.PushRefused as error:
                refusal = str(error)
        if plan.erases:
            self._exchange.drop()  # its objects hold the forgotten text
        is_complete = not secrets and not refusal
        if is_complete:
            self._remember(plan, is_complete=True)
        report = replace(self._report(plan, dry_run=False, secrets=secrets), reason=refusal)
        return replace(report, pushed=is_changed and is_complete, records_received=records, forgotten=len(forget))

    def _plan(self, local: LocalFiles, before: exchange.ExchangeState) -> exchange_plan.ExchangePlan:
        checked = self._check_writers(before.files)
        plan = exchange_plan.plan_exchange(self._state(local, checked, self._folder.writer()), checked.files)
        if plan.is_fork:
            self._settings.seen.pop(self._folder.writer(), None)
            plan = exchange_plan.plan_exchange(self._state(local, checked, self._folder.new_writer()), checked.files)
        files, problems = {**checked.left_out, **plan.files}, (*checked.problems, *plan.problems)
        return replace(plan, files=files, problems=problems, new_writers=checked.new)

    def _check_writers(self, files: Mapping[str, bytes]) -> exchange_plan.CheckedWriters:
        """Return the files that count, once the writers were accepted that the user names. In a team all of them do."""
        if self._settings.team:
            return exchange_plan.CheckedWriters(files=files, left_out={})
        own, accepted = self._folder.writer(), self._settings.accepted
        keys = {"": sign_bytes(self._folder.key(), b"")[0]}
        checked = exchange_plan.check_writers(files, own, accepted | keys)
        chosen = {new.id: new.key for new in checked.new if {new.id, new.fingerprint} & set(self._deps.accept)}
        if not chosen:
            return checked
        accepted |= chosen
        self._accepted += chosen
        return exchange_plan.check_writers(files, own, accepted | keys)

    def _shared(self, name: str, entries: Mapping[str, merge.SyncEntry]) -> dict[str, merge.SyncEntry]:
        """Return the entries that others may have: not too long; in a team, without corrections and preferences of this user.

        Those that are tagged as shared, or came as they are from the exchange, are not personal.
        """
        base = self._settings.base.get(name, {})
        self._problems += [
            f"{text} and is not sent" for entry in entries.values() if (text := exchange_plan.long_entry(entry))
        ]
        return {
            key: entry
            for key, entry in entries.items()
            if not exchange_plan.long_entry(entry)
            and (
                not self._settings.team
                or base.get(key) == entry.digest
                or anchor_field(entry.text, "type") not in _PERSONAL_TYPES
                or _SHARED_TAG in anchor_field(entry.text, "tags").split(",")
            )
        }

    def _state(
        self, local: LocalFiles, checked: exchange_plan.CheckedWriters, writer: str
    ) -> exchange_plan.MachineState:
        settings = self._settings
        records, ids = local.records()
        journals_there = {name: exchange_plan.read_journals(checked.files, name) for name in self._projects.values()}
        return exchange_plan.MachineState(
            writer=writer,
            user=self._deps.user,
            team=settings.team,
            entries={name: self._shared(name, local.entries(project)) for project, name in self._projects.items()},
            logs={log: tuple(line for _, line in local.log_lines(log)) for log in exchange_plan.LOGS},
            records=records,
            record_ids=ids,
            forgotten=local.forgotten(journals_there),
            authored=frozenset(AuthoredMemories(local.folder).all()),
            base=settings.base,
            pending=settings.pending,
            seen=settings.seen,
            vouched=checked.vouched,
            check_guard=self._deps.check_guard,
        )

    def _apply(self, local: LocalFiles, plan: exchange_plan.ExchangePlan) -> int:
        """Write what others have to the files here, and return the number of records that were added."""
        if self._settings.team:
            known_writers(self._deps.workspace.cache_folder / "delivery", exchange_plan.find_writers(plan.files))
        for log, lines in plan.logs.items():  # first: an entry that is not registered is taken for a stranger's
            local.write_log(log, lines)
        for project, name in self._projects.items():
            added, replaced = plan.added.get(name, {}), plan.replaced.get(name, {})
            if added or replaced:
                local.write_entries(project, added, replaced)
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

    def _forget(self, local: LocalFiles, plan: exchange_plan.ExchangePlan) -> None:
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
        local.note_forgotten({key: plan.forgotten.get(key, utc_now()) for key in plan.forget if key not in records})

    def _find_secrets(
        self, local: LocalFiles, plan: exchange_plan.ExchangePlan, before: exchange.ExchangeState
    ) -> tuple[SecretFinding, ...]:
        """Return the secrets in everything that the exchange does not have yet."""
        found: list[SecretFinding] = []

        def check(texts: Iterable[str], identity: str, source: str) -> None:
            kinds = {kind for text in texts for kind in redact(text, self._deps.patterns).kinds}
            if kinds:
                found.append(SecretFinding(id=identity, source=source, line=0, kinds=tuple(sorted(kinds))))

        for name, entries in plan.sent.items():
            for key, entry in entries.items():
                result = redact(entry.text, self._deps.patterns)
                if result.kinds:
                    source, first = local.locate(local.directories[name], key)
                    pairs = zip(entry.text.split("\n"), result.text.split("\n"), strict=False)
                    offset = next((number for number, (line, clean) in enumerate(pairs) if line != clean), 0)
                    kinds = tuple(sorted(result.kinds))
                    found.append(SecretFinding(id=redact(key).text, source=source, line=first + offset, kinds=kinds))
        for path, content in plan.files.items():
            file = path.rpartition("/")[2]
            known = set(before.files.get(path, b"").split(b"\n"))
            names = [] if path in before.files else [file]
            for row in content.split(b"\n") if before.files.get(path) != content and not file.endswith(".md") else ():
                values = merge.json_object(row) if row not in known else {}
                record = values.get("record", values)
                named = record if isinstance(record, dict) else {}
                if identity := str(named.get("memory") or named.get("id") or ""):
                    check(iter_texts(values), identity, str(local.folder / file))
                else:  # of a project, or of the user
                    names += iter_texts(values)
            for name in names:
                check([name], f"the name {redact(name, self._deps.patterns).text}", redact(path).text)
        return tuple(found)

    def _remember(self, plan: exchange_plan.ExchangePlan, *, is_complete: bool) -> None:
        settings = self._settings
        base = plan.base if is_complete else plan.received_base
        settings.base = {**settings.base, **{name: dict(digests) for name, digests in base.items()}}
        settings.pending = {}
        own = self._folder.writer()
        settings.seen = {writer: seen for writer, seen in plan.seen.items() if is_complete or writer != own}
        settings.last = utc_now() if is_complete else settings.last
        self._folder.write(settings)

    def _report(
        self, plan: exchange_plan.ExchangePlan, *, dry_run: bool, secrets: tuple[SecretFinding, ...]
    ) -> SyncReport:
        return replace(
            failed_report(self._settings, "", dry_run=dry_run),
            other_projects=plan.other_projects,
            writers=plan.users,
            received=sum(map(len, plan.added.values())),
            updated=sum(map(len, plan.replaced.values())),
            sent=sum(map(len, plan.sent.values())),
            records_received=len(plan.records),
            records_sent=plan.sent_records,
            forgotten=len(plan.forget),
            conflicts=plan.conflicts,
            guards=plan.guards,
            new_writers=plan.new_writers,
            accepted=tuple(self._accepted),
            secrets=secrets,
            problems=tuple(dict.fromkeys((*plan.problems, *self._problems))),
        )


def failed_report(settings: exchange.SyncSettings, reason: str, *, dry_run: bool) -> SyncReport:
    """Return the report of an exchange that did not take place."""
    return SyncReport(
        name=settings.name,
        url=settings.url,
        team=settings.team,
        dry_run=dry_run,
        reason=reason,
        projects=tuple(settings.projects.values()),
        last=settings.last,
    )
