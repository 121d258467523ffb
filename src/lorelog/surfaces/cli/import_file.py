"""Import memories and records from a file of another program or home.

The format is detected: JSON Lines and Markdown of 'lorelog export', ledger files, and OMF 1.0 (Open Memory Format, which memd
and other programs write). Memories keep the time they were written at. Records that are not signed count as imported text,
which is not trusted until someone here verifies it, unless --restore declares the file your own.

examples:
  lorelog import theirs.json --dry-run    show what would be imported
  lorelog import theirs.json
  lorelog import mine.jsonl --restore     records that you exported yourself
"""

from __future__ import annotations

import os
import sys

from lorelog.core.errors import NotFound
from lorelog.surfaces.cli.arguments import add_tenant_option, expand_path
from lorelog.surfaces.cli.export import open_own_engine
from lorelog.surfaces.cli.render import one_line, plural, print_json, print_note, short_path, stylize

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from lorelog.services.records.exchange.importer import ImportReport, MemoryImporter


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("file", metavar="FILE", help="file of 'lorelog export', or OMF of another program")
    parser.add_argument(
        "--format",
        choices=("auto", "jsonl", "markdown", "omf"),
        default="auto",
        help="auto (default) detects it from the file",
    )
    parser.add_argument("--restore", action="store_true", help="the file is your own: records keep their origin")
    parser.add_argument("--dry-run", action="store_true", help="show what would be imported, and write nothing")
    parser.add_argument(
        "--include-archived", action="store_true", help="omf: also import archived, expired and superseded memories"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text (lorelog docs json)")
    parser.add_argument("--project", metavar="DIR", help="assign the records of projects to the project of DIR")
    add_tenant_option(parser)


def run(args: argparse.Namespace) -> int:
    """Import the file; fail if something in it was refused."""
    from lorelog.services.records.exchange.importer import (
        ImportOptions,
        MemoryImporter,
        RecordImporter,
        detect_format,
        read_import_file,
    )

    path = expand_path(args.file)
    if not os.path.exists(path):  # noqa: PTH110
        raise NotFound(
            f"there is no file {short_path(path)}", hint="'lorelog export --format jsonl --out FILE' creates one"
        )
    file_format = detect_format(path) if args.format == "auto" else args.format
    with open_own_engine(args) as engine:
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
