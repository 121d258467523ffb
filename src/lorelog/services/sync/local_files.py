"""The side of this machine in a sync: read and apply journals, logs and records of the chosen projects.

Every file is replaced as a whole, under the lock that other writers honour. Adding an entry twice changes nothing, so an exchange
that was killed is completed by the next one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from lorelog.core.document import GLOBAL_PROJECT
from lorelog.core.errors import StoreUnwritable
from lorelog.core.record import REDACTION_KIND, Record
from lorelog.records.ledger import Ledger
from lorelog.services.backup.archive import project_workspace, read_consistently
from lorelog.services.backup.restore import ForgottenMemories, forgotten_lines, open_locked, write_whole_file
from lorelog.services.memory_state.authored import AuthoredMemories
from lorelog.services.memory_state.tombstones import Tombstone, Tombstones, memory_key
from lorelog.services.places.roots import Root
from lorelog.services.places.workspace import Workspace, create_project_folder
from lorelog.services.records.exports import parse_import_line, record_to_json
from lorelog.services.records.keyring import Keyring
from lorelog.services.records.record_importer import ImportOptions, ImportReport, RecordImporter
from lorelog.services.records.store import RecordStore
from lorelog.services.sync.exchange_plan import SyncLogLine
from lorelog.services.sync.merge import (
    SyncEntry,
    add_to_journal,
    anchor_field,
    by_key,
    cut_from_journal,
    entry_digest,
    json_object,
    read_journal,
    split_journal,
)

_SHARED_TAG = "shared"
_PERSONAL_TYPES = ("correction", "preference")
_JOURNAL_FILE = re.compile(r"[\w][\w.-]{0,100}\.md")
_LEFT_OUT_FIELDS = ("address",)
_BLANK_FIELDS: Mapping[str, Mapping[str, Any]] = {"tombstones": {"source": "", "ids": []}}
"""Fields that are paths of this machine, or derived from one."""


def is_personal(text: str) -> bool:
    """Return True for a user's correction or preference that is not tagged as shared: a team does not get it."""
    tags = anchor_field(text, "tags").split(",")
    return anchor_field(text, "type") in _PERSONAL_TYPES and _SHARED_TAG not in tags


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

    # -- journals ----------------------------------------------------------------------------------------------------

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

    def entries(self, project: str) -> dict[str, SyncEntry]:
        """Return the entries of a project by key."""
        return by_key(entry for file, text in self.journals(project).items() for entry in read_journal(file, text))

    def write_entries(self, project: str, added: Mapping[str, SyncEntry], replaced: Mapping[str, SyncEntry]) -> None:
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
            own = [entry for entry in missing.values() if entry.file == file]
            self._edit(Path(root.path) / file, partial(_add_missing, file=file, added=own, replaced=replaced))

    def cut_entries(self, project: str, keys: Collection[str]) -> None:
        """Erase entries in the journals of a project."""
        folder = Path(self.root(project).path)
        for file, text in self.journals(project).items():
            if cut_from_journal(text, keys) != text:
                self._edit(folder / file, partial(cut_from_journal, keys=keys))

    def _edit(self, path: Path, edit: Callable[[str], str]) -> None:
        """Replace a journal by its edited text, while others are kept from appending to it."""
        try:
            with open_locked(path) as content:
                before = (content or b"").decode("utf-8", "surrogateescape")  # bytes that are not UTF-8 stay
                after = edit(before)
                if after != before:
                    write_whole_file(path, after.encode("utf-8", "surrogateescape"), replaces=content is not None)
        except OSError as error:
            raise StoreUnwritable(
                f"{path} cannot be written: {error.strerror or error}", hint="free some space, and sync again"
            ) from error

    def locate(self, project: str, key: str) -> tuple[str, int]:
        """Return the journal of an entry and its first line; empty if it is gone."""
        folder = Path(self.root(project).path)
        for file, text in self.journals(project).items():
            line = 1
            for part in split_journal(text):
                if part.is_entry and key in (anchor_field(part.text, "memory"), entry_digest(part.text)):
                    return str(folder / file), line
                line += part.text.count("\n") + 1
        return "", 0

    # -- logs --------------------------------------------------------------------------------------------------------

    def log_lines(self, log: str, content: bytes | None = None) -> list[tuple[str, SyncLogLine]]:
        """Return the lines of a log: as they are here, and as they are exchanged."""
        lines = self._raw_lines(log, content)
        guards = {str(line.get("id")): str(line.get("project", "")) for _, line in lines if line.get("event") == "add"}
        found = []
        for raw, values in lines:
            if not values:  # it cannot be read, and stays as it is
                line = SyncLogLine(raw, in_scope=False)
            elif log == "guards":
                project = values.get("project")
                named = (
                    {**values, "project": self.projects[project]} if project and project in self.projects else values
                )
                line = SyncLogLine(_dump(named), in_scope=guards.get(str(values.get("id")), "") in self.projects)
            else:
                fields = {name: value for name, value in values.items() if name not in _LEFT_OUT_FIELDS}
                memory = str(values.get("memory") or "")
                in_scope = bool(memory) and not values.get("forgotten")
                line = SyncLogLine(_dump({**fields, **_BLANK_FIELDS.get(log, {})}), memory, in_scope=in_scope)
            found.append((raw, line))
        return found

    def write_log(self, log: str, lines: Sequence[str]) -> None:
        """Write a log with exchanged lines. A line that is here already stays as it is here."""
        path = self.folder / f"{log}.jsonl"
        directories = self.directories
        with open_locked(path) as content:
            here = self.log_lines(log, content or b"")
            raw = {line.text: own for own, line in here}
            wanted = set(lines)
            texts = [raw.get(line) or _localized(line, directories) for line in lines]
            texts += [own for own, line in here if line.text not in wanted]  # appended meanwhile
            data = "".join(f"{text}\n" for text in texts).encode("utf-8", "replace")
            write_whole_file(path, data, replaces=content is not None)

    def _raw_lines(self, log: str, content: bytes | None) -> list[tuple[str, dict[str, Any]]]:
        if content is None:
            path = self.folder / f"{log}.jsonl"
            content = read_consistently(path) if path.exists() else b""
        lines = content.decode("utf-8", "replace").split("\n")[:-1]
        return [(raw, json_object(raw)) for raw in lines if raw.strip()]

    # -- records -----------------------------------------------------------------------------------------------------

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
        directories = self.directories
        lines = []
        for values in records:
            project = directories.get(str(values.get("project", "")), "")
            moved = {**values, "project": project} if project else {k: v for k, v in values.items() if k != "project"}
            lines.append(json.dumps(moved, ensure_ascii=False, sort_keys=True).encode("utf-8", "replace"))
        if not lines:
            return ImportReport()
        keyring = Keyring(self.workspace.home / "identities")
        store = RecordStore(self.folder, keyring.signing_key)
        try:
            options = ImportOptions(restore=restore, patterns=patterns)
            importer = RecordImporter(store, keyring, options, lambda _: None)
            return importer.run(lambda: (parse_import_line(number, line) for number, line in enumerate(lines, 1)))
        finally:
            store.close()

    # -- forgotten ---------------------------------------------------------------------------------------------------

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
                    found |= dict.fromkeys(
                        _sections_at(text, forgotten_lines(text, file, (project,), gone)), max(without_id.values())
                    )
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

    def ensure_registry(self) -> None:
        """Create the registry of the user's own memories if there is none."""
        registry = AuthoredMemories(self.folder)
        if not registry.exists():
            registry.record(())

    def authored(self) -> frozenset[str]:
        """Return the ids of memories that were written on this machine."""
        return frozenset(AuthoredMemories(self.folder).all())


def _add_missing(text: str, file: str, added: Sequence[SyncEntry], replaced: Mapping[str, SyncEntry]) -> str:
    known = by_key(read_journal(file, text))
    return add_to_journal(text, file, [entry for entry in added if entry.key not in known], replaced)


def _sections_at(text: str, lines: Collection[int]) -> list[str]:
    """Return the digests of the entries without an id that have one of these lines."""
    found, line = [], 1
    for part in split_journal(text):
        end = line + part.text.count("\n") + 1
        if part.is_entry and not anchor_field(part.text, "memory") and not set(range(line, end)).isdisjoint(lines):
            found.append(entry_digest(part.text))
        line = end
    return found


def _localized(line: str, directories: Mapping[str, str]) -> str:
    """Return an exchanged line with the directory that its project has here."""
    values = json_object(line)
    project = str(values.get("project", ""))
    return _dump({**values, "project": directories[project]}) if project in directories else line


def _dump(values: Mapping[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False)
