"""Commands that copy memories and records in and out: export, backup, import and sync."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins
from msgspec.structs import replace

from lorelog.code.git import run_git
from lorelog.core.caller import detect_agent
from lorelog.core.errors import LorelogError, NotFound, SourceError, UsageError, plural
from lorelog.core.paths import leads_out
from lorelog.core.policy import check_shell
from lorelog.ingest.importers.source import SOURCE_MODULES, ImportSource, MachinePlaces, detect_source, open_source
from lorelog.operations.lifecycle import note_own_change
from lorelog.services.imports.memory_importer import FILE_SOURCE, ChangedSetting, ImportSummary, ImportTarget
from lorelog.services.records.record_importer import ImportOptions, RecordImporter, detect_format, read_import_file
from lorelog.services.sync.exchange import absolute_remote
from lorelog.services.sync.merge import merge_journal_texts
from lorelog.surfaces.cli import client
from lorelog.surfaces.cli.arguments import expand_path
from lorelog.surfaces.text import one_line, short_path, stylize
from lorelog.wiring import change_setting, format_setting, resolve_location, settings_at

if TYPE_CHECKING:
    import argparse

    from lorelog.engine import Engine
    from lorelog.operations.operation import Json

ARGUMENTS = {
    "backup": {"--verify": "check an existing backup instead of writing one"},
    "import": {
        "source FROM?": "a tool, or a file or folder; none lists what is found",
        "path PATH?": "file or folder of that tool (default: where it keeps it)",
        "--dry-run": "show what would be imported, and write nothing",
        "--yes": "do not ask for confirmation",
        "--undo BATCH": "take an import back; entries that you edited since are kept",
        "to_global --global": "import into the global memories",
        "--all-projects": "also import what belongs to other projects, as global memories",
        "--settings": "also take over the tool's settings (never its keys)",
        "--format {auto,jsonl,omf}": "format of a file of 'lorelog export', or OMF; auto (default) detects it",
        "--restore": "the file is your own: records keep their origin",
        "--include-archived": "omf: also import archived, expired and superseded memories",
        "--project DIR": "import into the project of DIR",
        "shared": "json tenant",
    },
    "sync": {
        "words REMOTE*": "address of a Git remote, or the name of an exchange",
        "--status": "show exchanges, their projects, and what waits",
        "--who ID": "show who wrote a memory or record",
        "--merge-driver": "let Git merge tracked journals of this clone by entry",
        "--merge": "merge three versions of a journal; Git runs this",
    },
}


def run_export(args: argparse.Namespace) -> int:
    """Export memories and records, for people and other programs.

    markdown: the memories, under headings for project and day. jsonl: memories and records, one per line. omf: the same as OMF 1.0
    (Open Memory Format), for memd and other programs. ledger: the records alone, as they are in the ledger. 'lorelog import' reads
    them all, except the memories in Markdown, which are notes to index. Use 'lorelog backup' for a copy of everything that can be restored.

    The memories of this project are exported. Global memories are your own notes for every project: --with-global adds them.
    Without --output the text is printed.

    examples:
      lorelog export --output memories.md
      lorelog export --format jsonl --since 7d | jq .text
      lorelog export --format omf --all-projects --output all.json
    """
    args.warm = "off"  # in this process: the text may be larger than what the daemon sends
    reply = client.call_command(args)
    if not (reply["memories"] or reply["records"] or args.with_global or args.all_projects):
        client.print_note("nothing of this project was found; --with-global exports the global memories")

    def show(reply: Json, args: argparse.Namespace) -> None:
        counts = [plural(reply[name], noun) for name, noun in (("memories", "memory"), ("records", "record"))]
        shown = " and ".join([text for text in counts if not text.startswith("0 ")] or counts[:1])
        sys.stdout.write(f"Wrote {shown} to {short_path(reply['path'])}.\n" if args.out else reply["text"])

    return client.print_reply(args, reply, show)


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
        return client.print_reply(args, client.call_command(args), _show_backup)
    if args.with_keys or args.dry_run:
        raise UsageError("--verify takes no other options", hint="lorelog backup --verify FILE")
    return client.print_reply(
        args, client.call_operation(args, "backup.verify", {"file": expand_path(args.file)}), _show_backup
    )


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
        client.print_note(f"not in the backup: {one_line(problem)}")
    if reply["keys_left_out"] and not args.verify:
        client.print_note(f"{plural(reply['keys_left_out'], 'private key')} left out; --with-keys includes them")


_MAX_SHOWN = 5
_MAX_EXCHANGED_SHOWN = 10
_DRIVER_FILES = 3
_ATTRIBUTE = ".lorelog/memory/*.md merge=lorelog"


def run_import(args: argparse.Namespace) -> int:
    """Import memories from another tool, or memories and records from a file.

    Without arguments it lists the tools it finds on this machine, and earlier imports. With a source it shows what would be added
    and asks first: memsearch, loop, memd, claude-mem, mem0, basic-memory, mcp-memory, claude-ai, chatgpt, rules (CLAUDE.md, AGENTS.md,
    GEMINI.md and others), obsidian, letta. A path alone is recognized. Files of 'lorelog export' and OMF documents are imported with
    their records; records that are not signed count as imported text, unless --restore declares the file your own.

    Importing again adds nothing. Secrets are removed. Entries keep their dates, and never count as your own words. Conversations
    and old journals are found by a search, and never shown to an agent unasked ('lorelog docs import').

    examples:
      lorelog import
      lorelog import claude-mem --dry-run
      lorelog import chatgpt ~/Downloads/export.zip
      lorelog import --undo claude-mem-20260305-143000-1a2b
      lorelog import mine.jsonl --restore
    """
    if args.undo:
        return undo_import(args, args.undo)
    if not args.source:
        return _list_sources(args)
    source, paths = _resolve(args)
    if source is None:
        return _import_file(args, str(paths[0]))
    return max(_import_source(args, source, path) for path in paths)


def _resolve(args: argparse.Namespace) -> tuple[ImportSource | None, Sequence[Path]]:
    """Return the source and its paths; no source for a file of ours."""
    if args.source in SOURCE_MODULES:
        source = open_source(args.source)
        named = [Path(expand_path(args.path))] if args.path else source.find(_places(args))
        paths = _keep_inside(named, _places(args))
        if not paths:
            hint = f"give its path: lorelog import {source.name} PATH"
            raise NotFound(f"nothing to import was found: {source.title}", hint=hint)
        if missing := [path for path in paths if not path.exists()]:
            raise NotFound(f"there is no file or folder {short_path(str(missing[0]))}", hint="check the path")
        return source, paths
    path = Path(expand_path(args.source))
    if args.path or (not path.exists() and not set(args.source) & set("./\\")):
        open_source(args.source)
    if not path.exists():
        hint = "check the path; 'lorelog import' alone lists what it finds on this machine"
        raise NotFound(f"there is no file {short_path(str(path))}", hint=hint)
    if not _keep_inside([path], _places(args)):
        raise NotFound("nothing to import was found", hint="name the file or folder that the link leads to")
    # A file of ours: so the user says, or it is OMF, which may hold records.
    is_own = args.format not in {None, "auto"} or args.restore or (path.is_file() and detect_format(str(path)) == "omf")
    return (None if is_own else detect_source(path)), [path]


def _places(args: argparse.Namespace) -> MachinePlaces:
    return MachinePlaces(Path.home(), Path(resolve_location(project=args.project, tenant=args.tenant).project.root))


def _keep_inside(paths: Iterable[Path], places: MachinePlaces) -> list[Path]:
    """Return the paths that stay where they are found or named, and name the links that lead out."""
    kept = []
    for path in paths:
        base = _base(path, places)
        if target := Path(leads_out(path, base)).name:
            shown = f"{short_path(str(path))} is a link that leads out of {short_path(str(base))}, to {target}"
            client.print_note(one_line(f"left out: {shown}; name that itself to import it"))
        else:
            kept.append(path)
    return kept


def _base(path: Path, places: MachinePlaces) -> Path:
    """Return the folder that a path must not lead out of: the project or repository it is in, the folder itself, or the home."""
    whole, base = Path(os.path.abspath(path)), None
    for folder in reversed((whole, *whole.parents)):  # a repository behind a link of another one does not count
        if folder == places.project or os.path.lexists(folder / ".git"):
            base = base if base and leads_out(folder, base) else folder
    return base or (whole if whole.is_dir() else places.home if whole.is_relative_to(places.home) else whole.parent)


def _import_source(args: argparse.Namespace, source: ImportSource, path: Path) -> int:
    """Show what would be added, ask, and import."""
    target = ImportTarget(
        source.name,
        str(path),
        is_personal=source.is_personal,
        all_projects=args.all_projects,
        dry_run=True,
        to_global=True if args.to_global else False if args.project else None,
    )
    with client.open_own_engine(args) as engine:
        importer = engine.importer()
        if args.dry_run or not args.yes:
            preview = importer.run(target, source.read(path))
            is_all = args.dry_run or (not preview.added and not (args.settings and preview.settings))
            if not args.json:
                _show_summary(preview, engine)
            elif is_all:
                client.print_json(to_builtins(preview))
            if is_all:
                return 0
            if args.json:
                raise UsageError("cannot ask for confirmation: --json was given", hint="use --yes to import this")
            if not client.confirm(f"Import {plural(preview.added, 'entry')}?", "use --yes to import this"):
                print("Nothing imported.", file=sys.stderr)
                return 1
        summary = importer.run(replace(target, dry_run=False), source.read(path))
        changed = _apply_settings(args, engine, summary) if args.settings else []
        if not detect_agent(os.environ):
            note_own_change(engine, "import", target, summary.batch)
    if args.json:
        client.print_json({**to_builtins(summary), "changed_settings": changed})
    else:
        _show_imported(summary, changed, was_shown=not args.yes)
    return 0


def _show_summary(summary: ImportSummary, engine: Engine) -> None:
    """Print what would be added: counts and samples of each kind, and what is left out."""
    print(f"{summary.source}: {short_path(summary.path)}")
    for counts in summary.kinds:
        parts = [f"{counts.new:,} new"]
        parts += [f"{counts.present:,} already present"] if counts.present else []
        parts += ["archive: never shown by hooks"] if counts.archive else []
        print(f"  {plural(counts.found, counts.kind)}: {', '.join(parts)}")
        for sample in counts.samples:
            print(f"      {stylize(one_line(sample), 'dim')}")
    if not summary.kinds:
        print("  nothing to import")
    if any(root.holds(os.path.realpath(summary.path)) for root in engine.roots.all() if root.exists()):
        client.print_note("this folder is indexed where it is: after an import its entries would be found twice")
    _show_left_out(summary)
    for setting in summary.settings:
        print(f"  setting: {setting.key} = {one_line(setting.value)}  {stylize(one_line(setting.place), 'dim')}")
    if summary.settings:
        client.print_note("--settings takes the settings over")


def _show_left_out(summary: ImportSummary) -> None:
    if summary.other_projects:
        names = sorted(summary.other_projects.items(), key=lambda item: -item[1])
        shown = ", ".join(f"{one_line(name)} {count:,}" for name, count in names[:_MAX_SHOWN])
        more = f" and {len(names) - _MAX_SHOWN:,} more" if len(names) > _MAX_SHOWN else ""
        how = "import them in their directories, or use --all-projects"
        client.print_note(f"left out, of other projects: {shown}{more}; {how}")
    if summary.redacted:
        verb = "would be" if summary.dry_run else "were"
        client.print_note(f"secrets {verb} removed from {plural(summary.redacted, 'entry')}")
    for text in summary.skipped_items[:_MAX_SHOWN]:
        print(f"{stylize('skipped:', 'yellow', sys.stderr)} {one_line(text)}", file=sys.stderr)
    if summary.skipped > _MAX_SHOWN:
        print(f"and {summary.skipped - _MAX_SHOWN:,} more skipped; --json lists them", file=sys.stderr)


def _show_imported(summary: ImportSummary, changed: Sequence[str], *, was_shown: bool) -> None:
    places = [f"{summary.to_project:,} into this project"] if summary.to_project else []
    places += [f"{summary.to_global:,} into the global memories"] if summary.to_global else []
    where = f": {', '.join(places)}" if places else ""
    updated = f"; {summary.updated:,} replace an earlier version" if summary.updated else ""
    present = sum(counts.present for counts in summary.kinds)
    rest = f"; already present: {present:,}." if present else "."
    print(f"Imported {plural(summary.added, 'entry')} from {summary.source}{where}{updated}{rest}")
    if not was_shown:
        _show_left_out(summary)
    for line in changed:
        print(line)
    undo = [f"'lorelog import --undo {summary.batch}' takes it back"] if summary.batch else []
    client.print_notes({"notes": [*summary.notes, *undo]})


def _apply_settings(args: argparse.Namespace, engine: Engine, summary: ImportSummary) -> list[str]:
    """Write the settings of the other tool where the user has none, and list them in the batch; return what happened."""
    location = resolve_location(project=args.project, tenant=args.tenant)
    messages: list[str] = []
    changes: list[ChangedSetting] = []
    for setting in summary.settings:
        of_project = setting.key.startswith("index.")
        try:
            if settings_at(location).origin(setting.key) != "default":
                messages.append(f"Kept {setting.key}: it is set here already.")
                continue
            change_setting(location, setting.key, setting.value, of_project=of_project)
        except LorelogError as error:
            messages.append(f"Skipped {setting.key}: {error.message}")
            continue
        changes.append(ChangedSetting(setting.key, setting.value, None, of_project))
        messages.append(f"Set {setting.key} = {one_line(setting.value)}.")
    if changes:
        lists = engine.importer().lists
        batch = lists.read(summary.batch) if summary.batch else lists.start(summary.source, summary.path)
        lists.add(batch, settings=changes)
        lists.finish(batch)
        summary.batch = batch.name
    return messages


def undo_import(args: argparse.Namespace, undone: str) -> int:
    """Take an import back, and say what was removed and what stays."""
    with client.open_own_engine(args) as engine:
        importer = engine.importer()
        batch, report = importer.undo(undone)
        kept = _undo_settings(args, batch.settings, report.settings)
        if len(kept) != len(batch.settings):
            batch.settings = kept
            importer.lists.replace(batch)

    def show(reply: Json, args: argparse.Namespace) -> None:
        missing = f", {report.missing:,} were gone already" if report.missing else ""
        print(f"Took back {batch.name}: {plural(report.removed, 'entry')} removed{missing}.")
        for line in (*report.settings, *reply.pop("notes")):
            print(line)
        for name in report.kept:
            path, _, identity = name.rpartition(": ")
            print(f"kept, because it was edited since: {short_path(path)} ({identity})")

    client.print_reply(args, to_builtins(report), show)
    return 1 if report.kept else 0


def _undo_settings(args: argparse.Namespace, changes: Sequence[Any], messages: list[str]) -> list[Any]:
    """Remove settings that an import wrote, if they are still the same; return those that were changed since."""
    kept = []
    location = resolve_location(project=args.project, tenant=args.tenant)
    for change in changes:
        value = settings_at(location).value(change.key)
        now = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        if change.value not in {now, format_setting(value)}:
            messages.append(f"kept, because it was changed since: {change.key}")
            kept.append(change)
        elif change_setting(location, change.key, change.old, of_project=change.of_project):
            messages.append(f"Removed {change.key} from the settings.")
    return kept


def _list_sources(args: argparse.Namespace) -> int:
    """List the sources on this machine and how to import each, and earlier imports."""
    places = _places(args)
    found: list[dict[str, Any]] = []
    for name in SOURCE_MODULES:
        source = open_source(name)
        try:
            paths = _keep_inside(source.find(places), places)
            found += [{"source": name, "title": source.title, "path": str(path)} for path in paths]
        except (LorelogError, OSError) as error:
            client.print_note(f"{name}: {one_line(str(error))}")
    with client.open_own_engine(args) as engine:
        batches = engine.importer().lists.all()
        roots = engine.roots.all()
    for item in found:
        item["indexed"] = any(root.holds(os.path.realpath(item["path"])) for root in roots)
    listed = [
        {"batch": batch.name, "source": batch.source, "path": batch.path, "at": batch.at}
        | {"entries": len(batch.entries), "done": batch.done}
        for batch in batches
    ]
    return client.print_reply(args, {"found": found, "sources": list(SOURCE_MODULES), "batches": listed}, _show_sources)


def _show_sources(reply: Json, args: argparse.Namespace) -> None:
    for item in reply["found"]:
        short = short_path(item["path"])
        quoted = short.replace(" ", "\\ ") if short.startswith("~") else quote(short)
        print(f"{item['title']}: {short}{'  (indexed where it is)' if item['indexed'] else ''}")
        print(f"    lorelog import {item['source']} {quoted}")
    if not reply["found"]:
        print("No other tool's memories were found in this project or your home.")
    client.print_note(f"sources: {', '.join(reply['sources'])}; each takes a path")
    for line in reply["batches"]:
        state = "" if line["done"] else ", interrupted: import it again to continue"
        print(f"{line['at'][:16].replace('T', ' ')}  {line['batch']}  {plural(line['entries'], 'entry')}{state}")


def _import_file(args: argparse.Namespace, path: str) -> int:
    """Import a file of ours, or OMF: records into the ledger, memories as a batch. Fail if something was refused."""
    if os.path.isdir(path) or path.endswith(".md"):
        raise SourceError(
            f"{short_path(path)} is not recognized as a file or folder of a known tool",
            hint="name the tool: lorelog import TOOL PATH; for Markdown files of your own: lorelog index PATH",
        )
    if args.restore:
        check_shell("restore_archive", os.environ)
    file_format = detect_format(path) if args.format in {None, "auto"} else args.format
    with client.open_own_engine(args) as engine:
        scope = engine.records()
        project = scope.workspace.project.id if args.project else None
        target = ImportTarget(FILE_SOURCE, path, dry_run=args.dry_run, to_global=True if args.to_global else None)
        options = ImportOptions(args.restore, args.dry_run, project, args.include_archived, scope.patterns)
        with engine.importer().start(target) as memories:
            importer = RecordImporter(scope.records, scope.keyring, options, memories.take)
            report = importer.run(lambda: read_import_file(path, file_format))
    summary = memories.summary
    problems = [{"place": fault.place, "artifact_id": fault.id, "message": fault.message} for fault in report.problems]
    problems += [{"place": 0, "artifact_id": "", "message": text} for text in summary.skipped_items]
    reply = {
        "format": file_format,
        "dry_run": args.dry_run,
        "read": report.read,
        "written": report.written,
        "there": report.already_present,
        "refused": report.refused + summary.skipped,
        **{name: getattr(report, name) for name in ("tainted", "unsigned", "redacted", "dangling")},
        "batch": summary.batch,
        "memories": {
            "found": report.memories,
            "added": 0 if args.dry_run else summary.added,
            "there": sum(kind.present for kind in summary.kinds),
            "archived": report.archived,
            "redacted": summary.redacted,
        },
        "problems": problems,
    }
    client.print_reply(args, reply, _show_file_imported)
    return 1 if reply["refused"] else 0


def _show_file_imported(reply: Json, args: argparse.Namespace) -> None:
    unit = "item" if reply["format"] == "omf" else "line"
    for problem in reply["problems"]:
        where = f"{unit} {problem['place']}" if problem["place"] else "a memory"
        name = f" ({problem['artifact_id']})" if problem["artifact_id"] else ""
        label = stylize("problem:", "yellow", sys.stderr)
        print(f"{label} {where}{one_line(name)}: {one_line(problem['message'])}", file=sys.stderr)
    would = "would be " if reply["dry_run"] else ""
    memories = reply["memories"]
    parts = [f"{plural(reply['written'], 'record')} {would}written"]
    parts += [f"{reply['there']:,} already present"] if reply["there"] else []
    parts += [f"{reply['refused']:,} refused"] if reply["refused"] else []
    if memories["found"]:
        added = memories["found"] - memories["there"] if reply["dry_run"] else memories["added"]
        parts.append(f"{plural(added, 'memory')} {would}added, {memories['there']:,} already present")
    parts += [f"{plural(memories['archived'], 'archived memory')} skipped"] if memories["archived"] else []
    print(f"{', '.join(parts)}.")
    if reply["tainted"] and not args.restore:  # the records of a backup were tainted before
        count = f"{plural(reply['tainted'], 'record')} {'counts' if reply['tainted'] == 1 else 'count'}"
        client.print_note(f"{count} as imported text, which is not trusted until someone here verifies it")
    for count, noun in ((reply["redacted"], "record"), (memories["redacted"], "memory")):
        if count:
            client.print_note(f"secrets were removed from {plural(count, noun)} before they were written")
    if reply["unsigned"]:
        why = "the key is unknown or belongs to another project (see 'lorelog identity trust')"
        client.print_note(f"{plural(reply['unsigned'], 'signature')} ignored: {why}")
    if reply["batch"]:
        client.print_note(f"'lorelog import --undo {reply['batch']}' takes the memories back")


def run_sync(args: argparse.Namespace) -> int:
    """Exchange memories, records and their state with your other machines, or with a team, over a Git remote of yours.

    The first 'lorelog sync REMOTE' in a project chooses the project; run it in the same project on the other machine. Later, 'lorelog
    sync' exchanges all chosen projects. Entries are merged by their ids, so there are no conflicts to resolve. What was forgotten on
    one machine is forgotten on all. A text with a secret is not pushed, and is named. Offline, nothing is lost: the next sync
    sends what waits ('lorelog docs sync').

    examples:
      lorelog sync git@host:me/memory.git --dry-run
      lorelog sync git@host:me/memory.git
      lorelog sync
      lorelog sync --status
      lorelog sync git@host:team/app-memory.git --team --user mara
      lorelog sync --merge-driver                      merge journals that Git tracks, in this clone
    """
    if args.merge:
        return _merge(args.words)
    _check_sync_options(args)
    if args.merge_driver:
        return client.print_reply(args, _install_driver(), _show_driver)
    remote = absolute_remote(args.words[0], os.getcwd()) if args.words else ""
    args.warm = "off"  # the daemon lacks the credentials of this shell
    if args.status or args.who:
        reply = client.call_operation(args, "sync.status", {"remote": remote, "who": args.who or ""})
        return client.print_reply(args, reply, _show_exchange_status)
    reply = client.call_command(args, remote=remote)
    client.print_reply(args, reply, _show_exchanges)
    new = [writer for report in reply["exchanges"] for writer in report["new_writers"]]
    if new and not (args.json or args.dry_run) and sys.stdin is not None and sys.stdin.isatty():
        asked = {each["fingerprint"]: f"Is {each['id']} ({each['fingerprint']}) a machine of yours?" for each in new}
        if mine := [name for name, question in asked.items() if client.confirm(question, "")]:
            reply = client.call_command(args, remote=remote, accept_writer=mine)
            client.print_reply(args, reply, _show_exchanges)
    return 1 if any(report["reason"] or report["secrets"] for report in reply["exchanges"]) else 0


def _check_sync_options(args: argparse.Namespace) -> None:
    """Raise UsageError for options that do not go together, or would be ignored."""
    verbs, choices = (
        [f"--{name.replace('_', '-')}" for name in names if getattr(args, "shared_name" if name == "as" else name)]
        for names in (("status", "who", "remove", "merge_driver"), ("team", "as", "with_global", "name", "branch"))
    )
    given = [*verbs, *choices]
    if len(args.words) > 1:
        raise UsageError("one exchange at a time", hint="lorelog sync REMOTE; 'lorelog sync' runs all of them")
    if args.words == [""]:
        raise UsageError("REMOTE must not be empty", hint="'lorelog sync' without REMOTE runs all exchanges")
    if len(verbs) > 1 or (verbs and choices):
        raise UsageError(f"{given[0]} and {given[1]} cannot be used together", hint="lorelog sync --help")
    if not args.words and (verbs == ["--remove"] or choices):
        hint = "'lorelog sync --status' lists the exchanges and their remotes"
        raise UsageError(f"{given[0]} requires REMOTE", hint=hint)
    if args.merge_driver and args.words:
        raise UsageError(
            "--merge-driver does not take REMOTE", hint="run it inside the clone: lorelog sync --merge-driver"
        )


def _show_exchanges(reply: Json, args: argparse.Namespace) -> None:
    if reply["removed"]:
        verb = "would no longer be" if args.dry_run else "is no longer"
        print(f"{reply['removed']} {verb} exchanged from here. The remote and your memories are unchanged.")
    for report in reply["exchanges"]:
        _show_report(report)


def _show_report(report: dict[str, Any]) -> None:
    name = one_line(f"{report['name']} ({report['url']})")
    if report["is_offline"]:
        print(f"{name}: not reached. Nothing is lost; the next sync sends {plural(report['sent'], 'entry')}.")
        client.print_note(one_line(report["reason"]))
        return
    would = "would be " if report["dry_run"] else ""
    receive, send = ("would receive", "would send") if report["dry_run"] else ("received", "sent")
    sent = f"{plural(report['sent'], 'entry')} and {plural(report['records_sent'], 'record')}"
    print(
        f"{name}: {receive} {plural(report['received'], 'entry')} and {plural(report['records_received'], 'record')}, "
        f"{send} {'nothing' if report['secrets'] or report['reason'] else sent}."
    )
    if report["reason"]:
        client.print_note(one_line(report["reason"]))
    if report["updated"]:
        print(f"{plural(report['updated'], 'entry')} {would}updated: edited on another machine.")
    if report["forgotten"]:
        print(f"{plural(report['forgotten'], 'entry')} {would}forgotten here, too.")
    _show_peers(report, would)
    for memory in report["conflicts"][:_MAX_EXCHANGED_SHOWN]:
        client.print_note(f"{memory} was edited on two machines; both texts are kept: 'lorelog search' finds them")
    for secret in report["secrets"][:_MAX_EXCHANGED_SHOWN]:
        place = f"{short_path(secret['source'])}:{secret['line']}" if secret["line"] else short_path(secret["source"])
        client.print_note(f"not pushed: {place}: {secret['id']} contains a secret ({', '.join(secret['kinds'])})")
    if report["secrets"]:
        client.print_note(
            "take the secret out of the file, or 'lorelog forget ID' ('lorelog guard remove ID'), and sync again"
        )
    for project in report["other_projects"][:_MAX_EXCHANGED_SHOWN]:
        client.print_note(f"also in this exchange, and not chosen here: {one_line(project)}")
    for problem in report["problems"][:_MAX_EXCHANGED_SHOWN]:
        client.print_note(one_line(problem))


def _show_peers(report: dict[str, Any], would: str) -> None:
    for guard in report["guards"][:_MAX_EXCHANGED_SHOWN]:
        print(one_line(f"guard {would}received: {guard}"))
    for writer in report["accepted"]:
        print(f"{writer} {would}accepted as a machine of yours.")
    for writer in report["new_writers"][:_MAX_EXCHANGED_SHOWN]:
        name = one_line(f"new writer {writer['id']} of {writer['user']}, fingerprint {writer['fingerprint']}")
        client.print_note(
            f"{name}: nothing of it counts as yours. If 'lorelog sync --status' on a machine of yours shows this"
            f" fingerprint, 'lorelog sync --accept-writer {writer['id']}' accepts it"
        )


def _show_exchange_status(reply: Json, args: argparse.Namespace) -> None:
    if args.who:
        print(f"{args.who} was written by {one_line(reply['written_by'])}.")
        return
    if not reply["exchanges"]:
        print("No exchange is set up. 'lorelog sync REMOTE' in a project sets one up.")
    if reply["writer"]:
        print(f"this machine is {reply['writer']}, fingerprint {reply['fingerprint']}")
    for exchange in reply["exchanges"]:
        kind = "team" if exchange["team"] else "personal"
        print(one_line(f"{exchange['name']}  {exchange['url']}  branch {exchange['branch']}, {kind}"))
        for directory, name in exchange["projects"].items():
            print(one_line(f"  {short_path(directory) if directory else 'global memories'}  {name}"))
        last = f"last sync {exchange['last']}" if exchange["last"] else "never synced"
        print(f"  {last}; {plural(exchange['waiting'], 'entry')} to send")


def _merge(files: list[str]) -> int:
    """Merge three versions of a journal into the second one, as Git asks of a merge driver."""
    if len(files) != _DRIVER_FILES:
        raise UsageError("--merge takes three files", hint='git runs: lorelog sync --merge "%O" "%A" "%B"')
    # Bytes that are not UTF-8, and the ends of lines, are the user's: they stay as they are.
    base, ours, theirs = (Path(file).read_bytes().decode("utf-8", "surrogateescape") for file in files)
    text, conflicts = merge_journal_texts(base, ours, theirs)
    Path(files[1]).write_bytes(text.encode("utf-8", "surrogateescape"))
    for memory in conflicts[:_MAX_EXCHANGED_SHOWN]:
        client.print_note(f"{memory} was changed on both sides; what both wrote is kept")
    return 0


def _install_driver() -> Json:
    """Register the merge driver in the settings of this clone, and name the line that activates it for everybody."""
    # Without lorelog Git would keep our side alone, and no marks of a conflict: then lines are merged, as by default.
    command = 'lorelog sync --merge "%O" "%A" "%B" || git merge-file "%A" "%O" "%B"'
    attributes = os.path.join(_git("rev-parse", "--show-toplevel"), ".gitattributes")
    _git("config", "merge.lorelog.name", "lorelog journals, merged by entry")
    _git("config", "merge.lorelog.driver", command)
    is_active = False
    if os.path.isfile(attributes):
        with open(attributes, encoding="utf-8", errors="replace") as file:
            is_active = _ATTRIBUTE in file.read().split("\n")
    return {"driver": command, "attributes": attributes, "line": _ATTRIBUTE, "is_active": is_active}


def _show_driver(reply: Json, args: argparse.Namespace) -> None:
    print("The merge driver is set up in this clone: Git merges journals by entry.")
    if not reply["is_active"]:
        client.print_note(f"it is used once {short_path(reply['attributes'])} has this line; commit it: {_ATTRIBUTE}")


def _git(*words: str) -> str:
    try:
        done = run_git(words, os.environ)
    except FileNotFoundError as error:
        raise UsageError("git is not installed", hint="the merge driver is a setting of Git: install it") from error
    if done.status != 0:
        hint = "run it inside a clone: lorelog sync --merge-driver"
        raise UsageError(f"git {words[0]} failed: {done.error_text[:200]}", hint=hint)
    return os.fsdecode(done.output).strip()
