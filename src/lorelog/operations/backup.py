"""Operations on backups and exports: `backup.*` and `memory.export`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from lorelog.core.atomic_file import Writing, write_atomic
from lorelog.core.errors import NotFound, StoreBusy, StoreDamaged, StoreUnwritable, UsageError
from lorelog.core.paths import is_folder, join_path, leads_out
from lorelog.core.query import Filters
from lorelog.engine import Engine
from lorelog.operations.operation import OperationFamily, OperationReply, RequestContext, ShellCommand, reply_from
from lorelog.operations.requests import FilePath, OperationRequest, Since, about, parse_past_day
from lorelog.services.backup.archive import BackupManifest, BackupWriter, read_backup
from lorelog.services.backup.restore import Restorer, RestoreReport, undo_restore, write_whole_file
from lorelog.services.places.root_selection import IndexTargets

OPERATIONS = OperationFamily()
ExportFormat = Literal["markdown", "jsonl", "omf", "ledger", "rules"]


class BackupFileRequest(OperationRequest, frozen=True, kw_only=True):
    """A backup."""

    file: Annotated[FilePath, about("Path of the backup, usually NAME.tar.gz, relative to the caller's directory.")]


class BackupRequest(BackupFileRequest, frozen=True, kw_only=True):
    """Where to write a backup, and what is in it."""

    with_keys: Annotated[bool, about("Include the private keys that sign records.")] = False
    dry_run: Annotated[bool, about("List what would be in it, and write nothing.")] = False


class RestoreRequest(OperationRequest, frozen=True, kw_only=True):
    """A backup to restore, or the last restore to undo."""

    file: Annotated[FilePath | None, about("Path of the backup; relative to the caller's directory.")] = None
    project_map: Annotated[
        Mapping[str, str], about("Where projects of the backup are now: old directory to new one.")
    ] = {}
    dry_run: Annotated[bool, about("Report what would be done, and change nothing.")] = False
    undo: Annotated[
        bool, about("Put back the files that the last restore changed, unless they were changed again.")
    ] = False


class ExportRequest(OperationRequest, frozen=True):
    """What to export, and how."""

    out: Annotated[
        FilePath | None, about("File to write, or an existing directory. Without it, the reply has the text.")
    ] = None
    format: Annotated[
        ExportFormat,
        about(
            "markdown: memories; jsonl, omf: memories and records, as JSON Lines or Open Memory Format; ledger: records, "
            "as in the ledger; rules: your standing rules of this project, added to `.lorelog/rules.md`."
        ),
    ] = "markdown"
    all_projects: Annotated[bool, about("Export the memories of all projects, and global ones.")] = False
    with_global: Annotated[bool, about("Also export global memories, which belong to no project.")] = False
    since: Since = None


class BackupReply(OperationReply, frozen=True, kw_only=True):
    """What a backup holds."""

    file: str
    created_at: str
    lorelog: str
    """The version that wrote it."""
    home: str
    dry_run: bool
    with_keys: bool
    keys_left_out: int
    """Private keys of this home that are not in it."""
    tenants: tuple[str, ...]
    projects: tuple[str, ...]
    files: tuple[str, ...]
    journals: int
    bytes: int
    """Sum of the files, uncompressed; 0 for a dry run."""
    problems: tuple[str, ...]
    """Files that could not be read, and are not in it."""


class ExportReply(OperationReply, frozen=True, kw_only=True):
    """What was exported."""

    path: str
    """The file; empty if the text is in the reply."""
    format: ExportFormat
    memories: int
    records: int
    text: str


_MAX_MEMORIES = 1_000_000


@OPERATIONS.declare(
    "backup.create", ShellCommand("backup", ("file",)), errors=(StoreUnwritable, StoreBusy), needs="maintain"
)
def create(engine: Engine, request: BackupRequest, call: RequestContext) -> BackupReply:
    """Write a backup: journals of all known projects, ledger, settings, feedback and all else that cannot be rebuilt.

    It covers all tenants of the home, and is consistent while the daemon works. The index is left out. Private keys are
    included only on request. An existing file is not overwritten.
    """
    file = _resolve_path(request.file, call)
    projects = (engine.place.project.id,) if engine.place.journals.is_dir() else ()
    writer = BackupWriter(engine.place.home, with_keys=request.with_keys, projects=projects)
    manifest = writer.preview() if request.dry_run else writer.write(file)
    return _backup_reply(file, manifest, dry_run=request.dry_run)


@OPERATIONS.declare("backup.verify", errors=(NotFound, StoreDamaged), needs="maintain")
def verify(engine: Engine, request: BackupFileRequest, call: RequestContext) -> BackupReply:
    """Check that a backup is complete: every file in it against the SHA-256 in its manifest."""
    file = _resolve_path(request.file, call)
    return _backup_reply(file, read_backup(file), dry_run=False)


@OPERATIONS.declare("backup.restore", errors=(NotFound, StoreDamaged), writes=True, once=True, needs="restore_archive")
def restore(engine: Engine, request: RestoreRequest, call: RequestContext) -> RestoreReport:
    """Restore a backup into this home, empty or not: what is missing is added, and what is here stays.

    Memories are merged by their ids, and what was forgotten here does not come back. Files that are changed are copied
    first; `undo` puts them back. A restore that was interrupted is completed by running it again.
    """
    if request.undo == (request.file is not None):
        raise UsageError("name a file, or undo", hint="lorelog restore FILE, or lorelog restore --undo")
    if request.file is None:
        return undo_restore(engine.place.home)
    file = _resolve_path(request.file, call)
    moved = {old: str(Path(call.directory, new).resolve()) for old, new in request.project_map.items()}
    for new in moved.values():
        if not is_folder(new):
            raise UsageError(f"{new} is not a directory", hint="--project-map OLD=NEW takes the directory of a project")
    restorer = Restorer(
        engine.place.home, moved, dry_run=request.dry_run, patterns=tuple(engine.defaults.capture.patterns)
    )
    return restorer.run(file)


@OPERATIONS.declare(
    "memory.export",
    ShellCommand(
        "export",
        options={"out": "--output"},
        helps={
            "out": "file to write, or an existing directory; never overwritten",
            "format": "markdown, jsonl, omf, ledger, rules",
        },
    ),
    errors=(StoreUnwritable,),
    needs="maintain",
)
def export(engine: Engine, request: ExportRequest, call: RequestContext) -> ExportReply:
    """Export memories as Markdown, or memories and records in other formats: of this project, or of all."""
    from lorelog.services.records import exports
    from lorelog.services.records.projection import records_folder

    form = request.format
    if form == "rules":
        return _export_rules(engine, request)
    if request.since and form not in {"markdown", "jsonl"}:
        raise UsageError("--since is for memories only", hint="leave it out, or choose --format jsonl or markdown")
    scope, service = engine.records(), engine.memories()
    projects = exports.exported_projects(
        (*(scope.projects or ()), scope.workspace.project.id),
        all_projects=request.all_projects,
        with_global=request.with_global,
    )
    filters = Filters(projects=projects, since=parse_past_day(request.since))
    listed = service.list(filters, limit=_MAX_MEMORIES, all_projects=request.all_projects).memories
    if form == "omf":
        listed = exports.journal_memories(listed, records_folder(engine.place.tenant_folder))
    read = exports.read_memories(listed, lambda identity: service.expand(identity).content)
    memories = list(read if form != "ledger" else ())
    records = [
        record
        for record in (scope.records.ledger.read() if form != "markdown" else ())
        if (projects is None or record.project in projects) and record.at >= filters.since
    ]
    pieces = {
        "markdown": exports.export_markdown(memories),
        "jsonl": exports.export_jsonl(memories, records),
        "omf": exports.write_omf(records, memories),
        "ledger": exports.write_jsonl(records),
    }[form]
    text = "".join(pieces)
    path = "" if request.out is None else _write_export(_resolve_path(request.out, call), request, text)
    return ExportReply(path=path, format=form, memories=len(memories), records=len(records), text="" if path else text)


def _export_rules(engine: Engine, request: ExportRequest) -> ExportReply:
    """Add the user's rules of this project to the file of the team's rules, which Git may have from then on."""
    from lorelog.light.delivery_files import RULE_TYPES
    from lorelog.services.places.workspace import GITIGNORE_TEXT, SHARED_RULES_TEXT, create_project_folder
    from lorelog.services.standing.rules import add_team_rules

    if request.out is not None or request.since or request.all_projects or request.with_global:
        raise UsageError("rules go to .lorelog/rules.md of this project", hint="leave out the other options")
    place = engine.place
    project, file = place.project.id, place.team_rules
    rules = [rule for rule in engine.standing_rules() if rule.is_users and rule.project == project]
    create_project_folder(project)
    if leads_out(file, project):
        raise StoreUnwritable(f"{file} is a link out of the project", hint="replace it with a file")
    text, added = add_team_rules(
        file.read_text("utf-8") if file.exists() else "",
        [rule for rule in rules if rule.type in RULE_TYPES],
        engine.redact,
    )
    with Writing(file, hint="make the project writable"):
        write_atomic(file, text.encode("utf-8", "replace"))
        ignore = file.with_name(".gitignore")
        if ignore.exists() and ignore.read_text("utf-8") == GITIGNORE_TEXT:
            write_atomic(ignore, (GITIGNORE_TEXT + SHARED_RULES_TEXT).encode())
    engine.maintenance().index(IndexTargets((str(file),), project))
    return ExportReply(path=str(file), format="rules", memories=added, records=0, text="")


def _write_export(path: Path, request: ExportRequest, text: str) -> str:
    if path.is_dir():
        stem = "records" if request.format == "ledger" else "memories"
        path /= f"{stem}.{ {'markdown': 'md', 'omf': 'json'}.get(request.format, 'jsonl') }"
    if os.path.lexists(path):
        raise UsageError(f"{path} exists", hint="choose another name: an export is never written over a file")
    if not path.parent.is_dir():
        raise StoreUnwritable(f"there is no directory {path.parent}", hint="create it, or choose another file")
    with Writing(path, hint="choose another file"):
        write_whole_file(path, text.encode("utf-8", "replace"), replaces=False)
    return str(path)


def _resolve_path(path: str | os.PathLike[str], call: RequestContext) -> Path:
    return Path(join_path(call.directory, path))


def _backup_reply(file: Path, manifest: BackupManifest, *, dry_run: bool) -> BackupReply:
    return reply_from(
        manifest,
        BackupReply,
        file=str(file),
        dry_run=dry_run,
        keys_left_out=manifest.counts.get("keys_left_out", 0),
        files=tuple(entry.name for entry in manifest.files),
        journals=manifest.counts.get("journals", 0),
        bytes=manifest.counts.get("bytes", 0),
    )
