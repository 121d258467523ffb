"""Verify, export and import the ledger of records.

The ledger stores the records of tasks (docs/ledger.md). 'verify' reads all of it and reports every line that was changed since
it was written. 'export' and 'import' move records between homes, as JSON Lines, as Markdown for people, or as OMF 1.0
(Open Memory Format). Imported records that are not signed count as imported text, unless --restore declares the file your
own backup.

examples:
  lorelog ledger verify
  lorelog ledger export --output backup.jsonl
  lorelog ledger import backup.jsonl --restore    your own backup
  lorelog ledger import theirs.jsonl --dry-run    show what would be imported
  lorelog ledger export --format omf --memories   for memd and other programs
"""

from __future__ import annotations

import os
import sys

from lorelog.core.errors import NotFound, UsageError
from lorelog.surfaces.cli.arguments import add_common, add_tenant_option, expand_path
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import one_line, plural, print_json, print_note, short_path, stylize

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from typing import Any

    from lorelog.engine import Engine
    from lorelog.services.records.exchange.formats import ExportedMemory
    from lorelog.services.records.exchange.importer import ImportReport, MemoryImporter

_FORMATS = ("jsonl", "markdown", "omf")
_MAX_MEMORIES = 100_000
_PROJECT_HELP = "use the project of DIR instead of the current directory"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    verify = verbs.add_parser("verify", help="report every line that was changed", allow_abbrev=False)
    add_common(verify)
    export = verbs.add_parser("export", help="write records to a file, or to standard output", allow_abbrev=False)
    export.add_argument("--format", choices=_FORMATS, default="jsonl", help="jsonl (default), markdown or omf")
    export.add_argument("--output", metavar="FILE", help="output file; an existing file is replaced")
    export.add_argument("--project-only", action="store_true", help="only records of this project")
    export.add_argument("--memories", action="store_true", help="omf: also export the memories of journals")
    import_verb = verbs.add_parser("import", help="import records from a file", allow_abbrev=False)
    import_verb.add_argument(
        "file", metavar="FILE", help="a file written by 'lorelog ledger export', or OMF of another program"
    )
    import_verb.add_argument(
        "--format", choices=("auto", *_FORMATS), default="auto", help="auto (default) detects it from the file"
    )
    import_verb.add_argument(
        "--restore", action="store_true", help="the file is your own backup: records keep their origin"
    )
    import_verb.add_argument("--dry-run", action="store_true", help="show what would be imported, and write nothing")
    import_verb.add_argument(
        "--include-archived", action="store_true", help="omf: also import archived, expired and superseded memories"
    )
    for verb, project in (
        (export, _PROJECT_HELP),
        (import_verb, "assign the records of projects to the project of DIR"),
    ):
        verb.add_argument("--json", action="store_true", help="print JSON (docs/json.md) instead of text")
        verb.add_argument("--project", metavar="DIR", help=project)
        add_tenant_option(verb)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    return {"verify": _verify, "export": _export, "import": _import}[args.verb](args)


def _verify(args: argparse.Namespace) -> int:
    reply = call_operation(args, "ledger.verify", {})
    if args.json:
        print_json(reply)
    else:
        _show_verification(reply)
    return 0 if reply["ok"] else 1


def _show_verification(reply: dict[str, Any]) -> None:
    for fault in reply["faults"]:
        print(f"{stylize('error:', 'red')} {one_line(fault['file'])}:{fault['line']}: {one_line(fault['what'])}")
    if reply["fault_count"] > len(reply["faults"]):
        print(f"and {reply['fault_count'] - len(reply['faults']):,} more; --json lists them")
    for record in reply["unproven"]:
        name = one_line(f"{record['artifact_id']} of {record['agent_id']}")
        key = f" ({record['key'][:8]})" if record["key"] else ""
        print(f"{stylize('signature:', 'yellow')} {name}: {record['reason']}{key}")
    if not (reply["records"] or reply["faults"] or reply["torn_bytes"]):
        print("Nothing is recorded yet.")
        return
    signed = reply["signatures"]
    counts = f"{plural(reply['records'], 'record')}, {signed['signed']:,} signed, {signed['valid']:,} of them valid"
    counts += f", {reply['redacted']:,} redacted." if reply["redacted"] else "."
    if reply["first_unverified"]:
        print(f"{counts} Records from {reply['first_unverified']:,} on cannot be verified.")
    else:
        print(f"{counts} No line was changed.")
    if reply["torn_bytes"]:
        print_note(f"the last {reply['torn_bytes']:,} bytes are an interrupted write, which was never confirmed")


def _export(args: argparse.Namespace) -> int:
    from lorelog.services.records.exchange.importer import export_records

    if args.memories and args.format != "omf":
        raise UsageError("--memories requires --format omf", hint="the other formats contain records only")
    with _open_engine(args) as engine:
        scope = engine.records()
        project = scope.workspace.project.id if args.project_only else None
        memories = _collect_memories(engine, project) if args.memories else None
        pieces = export_records(scope.records, args.format, project=project, memories=memories)
        if not args.output:
            sys.stdout.writelines(pieces)
            return 0
        path = expand_path(args.output)
        size = _write_atomic(path, pieces)
    if args.json:
        print_json({"path": path, "format": args.format, "bytes": size})
    else:
        print(f"Wrote {short_path(path)} ({size:,} bytes).")
    return 0


def _import(args: argparse.Namespace) -> int:
    from lorelog.services.records.exchange.importer import (
        ImportOptions,
        MemoryImporter,
        RecordImporter,
        detect_format,
        read_import_file,
    )

    path = expand_path(args.file)
    if not os.path.exists(path):  # noqa: PTH110
        raise NotFound(f"there is no file {short_path(path)}", hint="'lorelog ledger export --output FILE' creates one")
    file_format = detect_format(path) if args.format == "auto" else args.format
    with _open_engine(args) as engine:
        scope = engine.records()
        importer = MemoryImporter(engine.add, lambda memory: engine.get(memory).exists)
        project = scope.workspace.project.id if args.project else None
        options = ImportOptions(args.restore, args.dry_run, project, args.include_archived, scope.patterns)
        report = RecordImporter(scope.records, scope.keyring, options, importer.add_new).run(
            lambda: read_import_file(path, file_format)
        )
    reply = _import_json(file_format, report, importer, dry_run=args.dry_run)
    if args.json:
        print_json(reply)
    else:
        _show_import(reply, restored=args.restore)
    return 1 if reply["refused"] else 0


def _import_json(file_format: str, report: ImportReport, importer: MemoryImporter, *, dry_run: bool) -> dict[str, Any]:
    return {
        "format": file_format,
        "dry_run": dry_run,
        "read": report.read,
        "written": report.written,
        "there": report.already_present,
        "refused": report.refused + importer.refused,
        "tainted": report.tainted,
        "unsigned": report.unsigned,
        "redacted": report.redacted,
        "dangling": report.dangling,
        "memories": {
            "found": report.memories,
            "added": importer.added,
            "there": importer.already_present,
            "archived": report.archived,
            "redacted": importer.redacted,
        },
        "problems": [
            *(
                {"place": problem.place, "artifact_id": problem.id, "message": problem.message}
                for problem in report.problems
            ),
            *({"place": 0, "artifact_id": "", "message": text} for text in importer.problems),
        ],
    }


def _show_import(reply: dict[str, Any], *, restored: bool) -> None:
    unit = "item" if reply["format"] == "omf" else "line"
    for problem in reply["problems"]:
        where = f"{unit} {problem['place']}" if problem["place"] else "a memory"
        name = f" ({problem['artifact_id']})" if problem["artifact_id"] else ""
        label = stylize("problem:", "yellow", sys.stderr)
        print(f"{label} {where}{one_line(name)}: {one_line(problem['message'])}", file=sys.stderr)
    would = "would be " if reply["dry_run"] else ""
    parts = [f"{plural(reply['written'], 'record')} {would}written"]
    parts += [f"{reply['there']:,} already present"] if reply["there"] else []
    parts += [f"{reply['refused']:,} refused"] if reply["refused"] else []
    memories = reply["memories"]
    if memories["found"]:
        added = memories["found"] if reply["dry_run"] else memories["added"]
        parts.append(f"{plural(added, 'memory')} {would}added, {memories['there']:,} already present")
    parts += [f"{plural(memories['archived'], 'archived memory')} skipped"] if memories["archived"] else []
    print(f"{', '.join(parts)}.")
    if reply["tainted"] and not restored:  # the records of a backup were tainted before
        count = "counts" if reply["tainted"] == 1 else "count"
        print_note(
            f"{plural(reply['tainted'], 'record')} {count} as imported text, which is not trusted until someone here verifies it"
        )
    if reply["redacted"]:
        print_note(f"secrets were removed from {plural(reply['redacted'], 'record')} before they were written")
    if memories["redacted"]:
        print_note(f"secrets were removed from {plural(memories['redacted'], 'memory')} before they were written")
    if reply["unsigned"]:
        print_note(
            f"{plural(reply['unsigned'], 'signature')} ignored: the key is unknown or belongs to another project (see 'lorelog identity trust')"
        )


def _collect_memories(engine: Engine, project: str | None) -> Iterable[ExportedMemory]:
    from lorelog.core.query import Filters
    from lorelog.services.records.exchange.importer import iter_journal_memories
    from lorelog.services.records.projection import records_folder

    filters = Filters(projects=None if project is None else (project,))
    memories = engine.list(filters, limit=_MAX_MEMORIES, all_projects=project is None).memories
    return iter_journal_memories(
        memories, lambda memory: engine.expand(memory).content, records_folder(engine.place.tenant_folder)
    )


def _open_engine(args: argparse.Namespace) -> Engine:
    """Return an engine in this process: files are read and written with the user's permissions, not by a daemon."""
    from lorelog.wiring import open_engine, resolve_location

    location = resolve_location(project=args.project, tenant=args.tenant)
    return open_engine(location, {"scope.tenant": args.tenant})


def _write_atomic(path: str, pieces: Iterable[str]) -> int:
    """Write a file atomically, readable by its owner only, and return its size."""
    from contextlib import suppress

    temporary = f"{path}.{os.getpid()}.new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(descriptor)
            size = os.fstat(descriptor).st_size
        os.replace(temporary, path)  # noqa: PTH105
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)  # noqa: PTH108
    return size
