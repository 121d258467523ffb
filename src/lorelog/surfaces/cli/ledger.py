"""Look the ledger over, and move records in and out.

The ledger is where records of tasks are kept (docs/ledger.md). 'verify' reads all of it and names every line that is not as it was
written. 'export' and 'import' move records between homes, as JSON lines, as Markdown for people, or as OMF 1.0. What is imported
is another's word: unsigned records count as imported text unless --restore says that they are your own backup.

examples:
  lorelog ledger verify
  lorelog ledger export --output backup.jsonl
  lorelog ledger import backup.jsonl --restore      your own backup
  lorelog ledger import theirs.jsonl --dry-run      what would come of it
  lorelog ledger export --format omf --memories     records and memories, for memd and others
"""

from __future__ import annotations

import os
import sys

from lorelog.core.errors import NotFound, UsageError
from lorelog.surfaces.cli.arguments import add_common, own_path
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import note, one_line, plural, print_json, short_path, styled

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from typing import Any

    from lorelog.engine import Engine
    from lorelog.services.records.exchange import Taken
    from lorelog.services.records.exchange_lines import Kept
    from lorelog.services.records.exchange_memories import Remembering

_FORMATS = ("jsonl", "markdown", "omf")
_MOST_MEMORIES = 100_000
_HERE = "stand in another project than the current directory's"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    verify = verbs.add_parser("verify", help="name every line that is not as it was written", allow_abbrev=False)
    add_common(verify)
    out = verbs.add_parser("export", help="write records to a file, or to standard output", allow_abbrev=False)
    out.add_argument("--format", choices=_FORMATS, default="jsonl", help="jsonl (default), markdown or omf")
    out.add_argument("--output", metavar="FILE", help="where to; a file that is there is replaced")
    out.add_argument("--project-only", action="store_true", help="only records of this project")
    out.add_argument("--memories", action="store_true", help="omf: memories of journals, too")
    brought = verbs.add_parser("import", help="take records from a file", allow_abbrev=False)
    brought.add_argument("file", metavar="FILE", help="what 'lorelog ledger export' wrote, or OMF of another program")
    brought.add_argument(
        "--format", choices=("auto", *_FORMATS), default="auto", help="auto (default) looks at the file"
    )
    brought.add_argument("--restore", action="store_true", help="it is your own backup: records keep what they say")
    brought.add_argument("--dry-run", action="store_true", help="tell what would come of it, and write nothing")
    brought.add_argument(
        "--include-archived", action="store_true", help="omf: also memories that were archived, expired or superseded"
    )
    for verb, project in ((out, _HERE), (brought, "file records that have a project under the project of DIR")):
        verb.add_argument("--json", action="store_true", help="print JSON (docs/json.md) instead of text")
        verb.add_argument("--project", metavar="DIR", help=project)
        verb.add_argument("--tenant", metavar="NAME", help="whose memories (scope.tenant); nothing crosses tenants")


def run(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    return {"verify": _verify, "export": _export, "import": _import}[args.verb](args)


def _verify(args: argparse.Namespace) -> int:
    reply = ask(args, "ledger.verify", {})
    if args.json:
        print_json(reply)
    else:
        _show_verification(reply)
    return 0 if reply["ok"] else 1


def _show_verification(reply: dict[str, Any]) -> None:
    for one in reply["faults"]:
        print(f"{styled('fault:', 'red')} {one_line(one['file'])}:{one['line']}: {one_line(one['what'])}")
    if reply["fault_count"] > len(reply["faults"]):
        print(f"and {reply['fault_count'] - len(reply['faults']):,} more; --json names them")
    for one in reply["unproven"]:
        who = f"{one['artifact_id']} of {one['agent_id']}"
        print(
            f"{styled('signature:', 'yellow')} {one_line(who)}: {one['reason']}"
            + (f" ({one['key'][:8]})" if one["key"] else "")
        )
    if not (reply["records"] or reply["faults"] or reply["torn_bytes"]):
        print("Nothing is recorded yet.")
        return
    signed = reply["signatures"]
    counted = f"{plural(reply['records'], 'record')}, {signed['signed']:,} signed, {signed['valid']:,} of them proven."
    if reply["first_unverified"]:
        print(f"{counted} From record {reply['first_unverified']:,} on nothing is verified.")
    else:
        print(f"{counted} Every line is as it was written.")
    if reply["torn_bytes"]:
        note(f"{reply['torn_bytes']:,} bytes at the end belong to a write that was cut off; nobody was told of it")


def _export(args: argparse.Namespace) -> int:
    from lorelog.services.records.exchange import export

    if args.memories and args.format != "omf":
        raise UsageError(f"{args.format} holds records alone", hint="--memories goes with --format omf")
    with _engine(args) as engine:
        archive = engine.records()
        project = archive.place.project.id if args.project_only else None
        memories = _memories(engine, project) if args.memories else None
        pieces = export(archive.book, args.format, project=project, memories=memories)
        if not args.output:
            sys.stdout.writelines(pieces)
            return 0
        path = own_path(args.output)
        size = _write(path, pieces)
        shape = {"path": path, "format": args.format, "bytes": size}
    if args.json:
        print_json(shape)
    else:
        print(f"Wrote {short_path(path)} ({size:,} bytes).")
    return 0


def _import(args: argparse.Namespace) -> int:
    from lorelog.services.records.exchange import Choices, Importer, detect, read_file
    from lorelog.services.records.exchange_memories import Remembering

    path = own_path(args.file)
    if not os.path.exists(path):  # noqa: PTH110
        raise NotFound(f"there is no file {short_path(path)}", hint="'lorelog ledger export --output FILE' writes one")
    form = detect(path) if args.format == "auto" else args.format
    with _engine(args) as engine:
        archive = engine.records()
        remembering = Remembering(engine.add, lambda one: engine.get(one).found)
        project = archive.place.project.id if args.project else None
        choices = Choices(args.restore, args.dry_run, project, args.include_archived, archive.patterns)
        taken = Importer(archive.book, archive.keyring, choices, remembering.take).take(lambda: read_file(path, form))
    shape = _shape(form, taken, remembering, dry_run=args.dry_run)
    if args.json:
        print_json(shape)
    else:
        _show_import(shape, restored=args.restore)
    return 1 if shape["refused"] else 0


def _shape(form: str, taken: Taken, remembering: Remembering, *, dry_run: bool) -> dict[str, Any]:
    return {
        "format": form,
        "dry_run": dry_run,
        "read": taken.read,
        "written": taken.written,
        "there": taken.there,
        "refused": taken.refused + remembering.refused,
        "tainted": taken.tainted,
        "unsigned": taken.unsigned,
        "redacted": taken.redacted,
        "dangling": taken.dangling,
        "memories": {
            "found": taken.memories,
            "added": remembering.added,
            "there": remembering.there,
            "archived": taken.archived,
        },
        "problems": [
            *({"place": one.place, "artifact_id": one.id, "message": one.what} for one in taken.faults),
            *({"place": 0, "artifact_id": "", "message": text} for text in remembering.problems),
        ],
    }


def _show_import(shape: dict[str, Any], *, restored: bool) -> None:
    unit = "item" if shape["format"] == "omf" else "line"
    for one in shape["problems"]:
        where = f"{unit} {one['place']}" if one["place"] else "a memory"
        name = f" ({one['artifact_id']})" if one["artifact_id"] else ""
        print(
            f"{styled('problem:', 'yellow', sys.stderr)} {where}{one_line(name)}: {one_line(one['message'])}",
            file=sys.stderr,
        )
    would = "would be " if shape["dry_run"] else ""
    parts = [f"{plural(shape['written'], 'record')} {would}written"]
    parts += [f"{shape['there']:,} there before"] if shape["there"] else []
    parts += [f"{shape['refused']:,} refused"] if shape["refused"] else []
    memories = shape["memories"]
    if memories["found"]:
        added = memories["found"] if shape["dry_run"] else memories["added"]
        parts.append(f"{plural(added, 'memory')} {would}added, {memories['there']:,} there before")
    parts += [f"{plural(memories['archived'], 'archived memory')} left out"] if memories["archived"] else []
    print(f"{', '.join(parts)}.")
    if shape["tainted"] and not restored:  # of a backup it was so before
        count = "counts" if shape["tainted"] == 1 else "count"
        note(
            f"{plural(shape['tainted'], 'record')} {count} as imported text: worth nothing until somebody here verifies it"
        )
    if shape["redacted"]:
        note(f"secrets were taken out of {plural(shape['redacted'], 'record')} before they were written")
    if shape["unsigned"]:
        note(
            f"{plural(shape['unsigned'], 'signature')} left out: unknown here, or of another project ('lorelog identity trust' first)"
        )


def _memories(engine: Engine, project: str | None) -> Iterable[Kept]:
    from lorelog.core.query import Filters
    from lorelog.services.records.exchange_memories import kept
    from lorelog.services.records.projection import records_folder

    filters = Filters(projects=None if project is None else (project,))
    found = engine.list(filters, limit=_MOST_MEMORIES, all_projects=project is None).memories
    return kept(found, lambda one: engine.expand(one).content, records_folder(engine.place.tenant_folder))


def _engine(args: argparse.Namespace) -> Engine:
    """Return an engine of our own: files are read and written by whoever types the command, not by a daemon."""
    from lorelog.wiring import open_engine, standpoint

    here = standpoint(project=args.project, tenant=args.tenant)
    return open_engine(here, {"scope.tenant": args.tenant})


def _write(path: str, pieces: Iterable[str]) -> int:
    """Write a file whole or not at all, for its owner alone; return its size."""
    from contextlib import suppress

    beside = f"{path}.{os.getpid()}.new"
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(descriptor)
            size = os.fstat(descriptor).st_size
        os.replace(beside, path)  # noqa: PTH105
    finally:
        with suppress(FileNotFoundError):
            os.unlink(beside)  # noqa: PTH108
    return size
