"""Commands that write copies: export and backup."""

from __future__ import annotations

import os
import sys

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import expand_path
from lorelog.surfaces.cli.client import call_command, call_operation, print_reply
from lorelog.surfaces.cli.render import one_line, plural, print_json, print_note, short_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator
    from typing import Any

    from lorelog.core.record import Record
    from lorelog.engine import Engine
    from lorelog.operations.operation import Json
    from lorelog.services.records.exports import ExportedMemory

_FORMATS = ("markdown", "jsonl", "omf", "okf", "ledger")
_FILE_NAMES = {"markdown": "records.md", "jsonl": "records.jsonl", "omf": "memories.json", "ledger": "records.jsonl"}
_MAX_MEMORIES = 100_000


def configure_export(parser: argparse.ArgumentParser) -> None:
    """Declare the formats of the shell."""
    parser.add_argument(
        "--format", choices=_FORMATS, default="markdown", help="markdown (default), jsonl, omf, okf, ledger"
    )
    parser.add_argument("--records", action="store_true", help="only the records of tasks and decisions")


def run_export(args: argparse.Namespace) -> int:
    """Export memories and records, for people and other programs.

    markdown: the memories, under headings for project and day. jsonl: memories and records, one per line. omf: the same as OMF 1.0
    (Open Memory Format), for memd and other programs. okf: a folder of Markdown files (Open Knowledge Format 0.2), with who wrote and
    who verified each. ledger: the records alone, as they are in the ledger. 'lorelog import' reads them all, except the memories
    in Markdown, which are notes to index. Use 'lorelog backup' for a copy of everything that can be restored.

    The memories of this project are exported. Global memories are your own notes for every project: --with-global adds them.
    Without --output the text is printed.

    examples:
      lorelog export --output memories.md
      lorelog export --format jsonl --since 7d | jq .text
      lorelog export --format omf --all-projects --output all.json
      lorelog export --format okf --output knowledge
    """
    args.warm = "off"  # in this process: the text may be larger than what the daemon sends
    if args.format == "okf":
        reply = _export_bundle(args)
    elif args.records or args.format in {"omf", "ledger"}:
        reply = _export_records(args)
    else:
        reply = call_command(args, format=args.format)
    if args.json:
        print_json(reply)
    elif args.out:
        counts = [plural(reply[name], noun) for name, noun in (("memories", "memory"), ("records", "record"))]
        shown = [text for text in counts if not text.startswith("0 ")] or counts[:1]
        print(f"Wrote {' and '.join(shown)} to {short_path(reply['path'])}.")
    else:
        sys.stdout.write(reply["text"])
    if not (reply["memories"] or reply["records"] or args.with_global or args.all_projects):
        print_note("nothing of this project was found; --with-global exports the global memories")
    return 0


def _export_records(args: argparse.Namespace) -> dict[str, Any]:
    """Export the records; as OMF also the memories, unless only records are wanted."""
    from lorelog.services.records.record_importer import export_records

    if args.since:
        raise UsageError("--since is for memories only", hint="leave it out, or choose --format jsonl or markdown")
    path = _output_path(args)
    with open_own_engine(args) as engine:
        scope = engine.records()
        visible = _projects(args, engine)
        counts = {"memories": 0, "records": 0}

        def counted(records: Iterable[Record]) -> Iterator[Record]:
            for record in records:
                if visible is None or record.project in visible:
                    counts["records"] += 1
                    yield record

        memories = None
        if args.format == "omf" and not args.records:
            memories = list(_collect_memories(engine, visible))
            counts["memories"] = len(memories)
        form = "jsonl" if args.format == "ledger" else args.format
        pieces = export_records(counted(scope.records.ledger.read()), form, memories)
        text = "" if path else "".join(pieces)
        if path:
            _write_new(path, pieces)
    return {"path": path, "format": args.format, **counts, "text": text}


def _output_path(args: argparse.Namespace) -> str:
    if not args.out:
        return ""
    path = expand_path(args.out)
    if os.path.isdir(path):
        path = os.path.join(path, _FILE_NAMES[args.format])
    if os.path.lexists(path):
        raise UsageError(f"{path} exists", hint="choose another name: an export is never written over a file")
    return os.path.abspath(path)


def _projects(args: argparse.Namespace, engine: Engine) -> tuple[str, ...] | None:
    """Return the projects to export; None for all."""
    from lorelog.services.records.exports import exported_projects

    scope = engine.records()
    visible = (*(scope.projects or ()), scope.workspace.project.id)
    return exported_projects(visible, all_projects=args.all_projects, with_global=args.with_global)


def _export_bundle(args: argparse.Namespace) -> dict[str, Any]:
    """Export memories and records as a bundle of the Open Knowledge Format."""
    from lorelog.services.records.exports import write_bundle

    if not args.out:
        raise UsageError("an OKF bundle is a folder", hint="name a new one: --output knowledge")
    if args.since:
        raise UsageError("--since is not for okf", hint="leave it out, or choose --format jsonl or markdown")
    path = os.path.abspath(expand_path(args.out))
    with open_own_engine(args) as engine:
        scope = engine.records()
        projects = _projects(args, engine)
        memories = () if args.records else _collect_memories(engine, projects)
        counts = write_bundle(path, memories, scope.records, projects)
    return {"path": path, "format": "okf", **counts, "text": ""}


def _collect_memories(engine: Engine, projects: tuple[str, ...] | None) -> Iterable[ExportedMemory]:
    from lorelog.core.query import Filters
    from lorelog.services.records.projection import records_folder
    from lorelog.services.records.record_importer import iter_journal_memories

    filters = Filters(projects=projects)
    memories = engine.memories().list(filters, limit=_MAX_MEMORIES, all_projects=projects is None).memories
    return iter_journal_memories(
        memories, lambda memory: engine.memories().expand(memory).content, records_folder(engine.place.tenant_folder)
    )


def open_own_engine(args: argparse.Namespace) -> Engine:
    """Return an engine in this process: files are read and written with the user's permissions, not by a daemon."""
    from lorelog.wiring import open_engine, resolve_location

    location = resolve_location(project=args.project, tenant=args.tenant)
    return open_engine(location, {"scope.tenant": args.tenant})


def _write_new(path: str, pieces: Iterable[str]) -> None:
    from lorelog.core.atomic_file import AtomicFile

    with AtomicFile(path) as file:
        file.writelines(piece.encode() for piece in pieces)


def configure_backup(parser: argparse.ArgumentParser) -> None:
    """Declare the check."""
    parser.add_argument("--verify", action="store_true", help="check an existing backup instead of writing one")


def run_backup(args: argparse.Namespace) -> int:
    """Write a backup of everything that cannot be rebuilt, or check one.

    A backup is one .tar.gz file: the journals of all known projects, the ledger, settings, feedback and the other data of all
    tenants, with a manifest of SHA-256 sums. It may be written while agents and the daemon work. The index is left out, and so
    are private keys, unless --with-keys. 'lorelog restore FILE' restores it ('lorelog docs backup').

    examples:
      lorelog backup ~/lorelog-2026-03-05.tar.gz
      lorelog backup ~/lorelog.tar.gz --dry-run       list what would be in it
      lorelog backup --verify ~/lorelog.tar.gz        check every file in it
    """
    if not args.verify:
        return print_reply(args, call_command(args), _show_backup)
    if args.with_keys or args.dry_run:
        raise UsageError("--verify takes no other options", hint="lorelog backup --verify FILE")
    return print_reply(args, call_operation(args, "backup.verify", {"file": expand_path(args.file)}), _show_backup)


def _show_backup(reply: Json, args: argparse.Namespace) -> None:
    file = expand_path(args.file)
    if args.dry_run:
        for name in reply["files"]:
            print(one_line(name))
    projects = plural(len(reply["projects"]), "project")
    what = f"{plural(len(reply['files']), 'file')}, {plural(reply['journals'], 'journal')} of {projects}"
    if args.verify:
        print(f"{short_path(file)} is complete: {what}, written {reply['created_at']} by lorelog {reply['lorelog']}.")
    else:
        print(f"{'Would back up' if args.dry_run else f'Wrote {short_path(file)}:'} {what}.")
    for problem in reply["problems"]:
        print_note(f"not in the backup: {one_line(problem)}")
    if reply["keys_left_out"] and not args.verify:
        print_note(f"{plural(reply['keys_left_out'], 'private key')} left out; --with-keys includes them")
