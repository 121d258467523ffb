"""Handlers of `backup.*` and `memory.export`.

A handler's docstring is the help text of its operation on every surface.
"""

from __future__ import annotations

import os
from pathlib import Path

from lorelog.core.errors import StoreUnwritable, UsageError
from lorelog.core.query import Filters
from lorelog.engine import Engine
from lorelog.operations.arguments import parse_past_day
from lorelog.operations.backup import schema
from lorelog.operations.operation import RequestContext
from lorelog.services.backup.archive import BackupManifest, BackupWriter, read_backup
from lorelog.services.backup.restore import Restorer, RestoreReport, undo_restore, write_whole_file

_MAX_MEMORIES = 1_000_000


def create(engine: Engine, request: schema.BackupRequest, call: RequestContext) -> schema.BackupReply:
    """Write a backup: journals of all known projects, ledger, settings, feedback and all else that cannot be rebuilt.

    It covers all tenants of the home, and is consistent while the daemon works. The index is left out. Private keys are
    included only on request. An existing file is not overwritten.
    """
    file = _resolve_path(request.file, call)
    writer = BackupWriter(engine.place.home, with_keys=request.with_keys, projects=_own_project(engine))
    manifest = writer.preview() if request.dry_run else writer.write(file)
    return _backup_reply(file, manifest, dry_run=request.dry_run)


def verify(engine: Engine, request: schema.BackupFileRequest, call: RequestContext) -> schema.BackupReply:
    """Check that a backup is complete: every file in it against the SHA-256 in its manifest."""
    file = _resolve_path(request.file, call)
    return _backup_reply(file, read_backup(file), dry_run=False)


def restore(engine: Engine, request: schema.RestoreRequest, call: RequestContext) -> RestoreReport:
    """Restore a backup into this home, empty or not: what is missing is added, and what is here stays.

    Memories are merged by their ids, and what was forgotten here does not come back. Files that are changed are copied
    first; `undo` puts them back. A restore that was interrupted is completed by running it again.
    """
    if request.undo == (request.file is not None):
        raise UsageError("name a file, or undo", hint="lorelog restore FILE, or lorelog restore --undo")
    _check_own(call)
    if request.file is None:
        return undo_restore(engine.place.home)
    file = _resolve_path(request.file, call)
    moved = {old: os.path.realpath(os.path.join(call.directory, new)) for old, new in request.project_map.items()}  # noqa: PTH118
    for new in moved.values():
        if not os.path.isdir(new):  # noqa: PTH112
            raise UsageError(f"{new} is not a directory", hint="--project-map OLD=NEW takes the directory of a project")
    restorer = Restorer(
        engine.place.home, moved, dry_run=request.dry_run, patterns=tuple(engine.defaults.capture.patterns)
    )
    return restorer.run(file)


def export(engine: Engine, request: schema.ExportRequest, call: RequestContext) -> schema.ExportReply:
    """Export memories as Markdown, or memories and records as JSON Lines: of this project, or of all."""
    from lorelog.services.records.exports import ExportCounts, export_jsonl, export_markdown, exported_projects

    _check_own(call)
    scope = engine.records()
    projects = exported_projects(
        (*(scope.projects or ()), scope.workspace.project.id),
        all_projects=request.all_projects,
        with_global=request.with_global,
    )
    filters = Filters(projects=projects, since=parse_past_day(request.since) if request.since else "")
    memories = engine.memories().list(filters, limit=_MAX_MEMORIES, all_projects=request.all_projects).memories
    counts = ExportCounts()

    def read_text(identity: str) -> str:
        return engine.memories().expand(identity).content

    if request.format == "markdown":
        text = "".join(export_markdown(memories, read_text, counts))
    else:
        records = (
            record
            for record in scope.records.ledger.read()
            if (projects is None or record.project in projects) and record.at >= filters.since
        )
        text = "".join(export_jsonl(memories, records, read_text, counts))
    path = "" if request.out is None else _write_export(_resolve_path(request.out, call), request.format, text)
    return schema.ExportReply(
        path=path,
        format=request.format,
        memories=counts.memories,
        records=counts.records,
        text="" if path else text,
    )


def _write_export(path: Path, format_: str, text: str) -> str:
    if path.is_dir():
        path = path / ("memories.md" if format_ == "markdown" else "memories.jsonl")
    if os.path.lexists(path):
        raise UsageError(f"{path} exists", hint="choose another name: an export is never written over a file")
    try:
        write_whole_file(path, text.encode("utf-8", "replace"), replaces=False)
    except OSError as error:
        raise StoreUnwritable(
            f"{path} cannot be written: {error.strerror or error}", hint="choose another file"
        ) from error
    return str(path)


def _own_project(engine: Engine) -> tuple[str, ...]:
    return (engine.place.project.id,) if engine.place.journals.is_dir() else ()


def _resolve_path(path: str, call: RequestContext) -> Path:
    _check_own(call)
    return Path(os.path.join(call.directory, os.path.expanduser(path)))  # noqa: PTH111, PTH118


def _check_own(call: RequestContext) -> None:
    if not call.own:
        raise UsageError("files of this machine cannot be named from elsewhere", hint="run the command on that machine")


def _backup_reply(file: Path, manifest: BackupManifest, *, dry_run: bool) -> schema.BackupReply:
    return schema.BackupReply(
        file=str(file),
        created_at=manifest.created_at,
        lorelog=manifest.lorelog,
        home=manifest.home,
        dry_run=dry_run,
        with_keys=manifest.with_keys,
        keys_left_out=manifest.counts.get("keys_left_out", 0),
        tenants=manifest.tenants,
        projects=manifest.projects,
        files=tuple(entry.name for entry in manifest.files),
        journals=manifest.counts.get("journals", 0),
        bytes=manifest.counts.get("bytes", 0),
        problems=manifest.problems,
    )
