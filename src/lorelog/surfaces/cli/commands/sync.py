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

from __future__ import annotations

import os

from lorelog.core.errors import UsageError, plural
from lorelog.surfaces.cli.arguments import add_options
from lorelog.surfaces.cli.client import call_operation, print_note, print_reply
from lorelog.surfaces.text import one_line, short_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from lorelog.operations.operation import Json

_MAX_SHOWN = 10
_DRIVER_FILES = 3
_ATTRIBUTE = ".lorelog/memory/*.md merge=lorelog"


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(
        parser,
        {
            "words REMOTE*": "address of a Git remote, or the name of an exchange",
            "--dry-run": "report what would be exchanged, and change nothing",
            "--status": "show exchanges, their projects, and what waits",
            "--who ID": "show who wrote a memory or record",
            "--team": "new exchange: other people use it, too",
            "--user NAME": "your name, as others see it (records.writer)",
            "--as NAME": "name of a project without a remote",
            "--with-global": "also exchange global memories from now on",
            "--name NAME": "new exchange: its name on this machine",
            "--branch NAME": "new exchange: its branch (default: lorelog)",
            "--remove": "stop exchanging with REMOTE on this machine",
            "--merge-driver": "let Git merge tracked journals of this clone by entry",
            "--merge": "merge three versions of a journal; Git runs this",
        },
        *("json", "project", "tenant", "daemon"),
    )


def run(args: argparse.Namespace) -> int:
    """Exchange, show the exchanges, or merge journals for Git."""
    from lorelog.services.sync.exchange import absolute_remote

    if args.merge:
        return _merge(args.words)
    _check_options(args)
    if args.merge_driver:
        return print_reply(args, _install_driver(), _show_driver)
    remote = absolute_remote(args.words[0], os.getcwd()) if args.words else ""
    args.warm = "off"  # the daemon lacks the credentials of this shell
    if args.status or args.who:
        reply = call_operation(args, "sync.status", {"remote": remote, "who": args.who or ""})
        return print_reply(args, reply, _show_status)
    options = ("name", "branch", "team", "with_global", "user", "dry_run", "remove")
    given = {"remote": remote, "shared_name": getattr(args, "as"), **{name: getattr(args, name) for name in options}}
    reply = call_operation(args, "sync.exchange", {name: value for name, value in given.items() if value})
    print_reply(args, reply, _show_exchanges)
    return 1 if any(report["reason"] or report["secrets"] for report in reply["exchanges"]) else 0


def _check_options(args: argparse.Namespace) -> None:
    """Raise UsageError for options that do not go together, or would be ignored."""
    verbs, choices = (
        [f"--{name.replace('_', '-')}" for name in names if getattr(args, name)]
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
        print_note(one_line(report["reason"]))
        return
    would = "would be " if report["dry_run"] else ""
    receive, send = ("would receive", "would send") if report["dry_run"] else ("received", "sent")
    sent = f"{plural(report['sent'], 'entry')} and {plural(report['records_sent'], 'record')}"
    print(
        f"{name}: {receive} {plural(report['received'], 'entry')} and {plural(report['records_received'], 'record')}, "
        f"{send} {'nothing' if report['secrets'] or report['reason'] else sent}."
    )
    if report["reason"]:
        print_note(one_line(report["reason"]))
    if report["updated"]:
        print(f"{plural(report['updated'], 'entry')} {would}updated: edited on another machine.")
    if report["forgotten"]:
        print(f"{plural(report['forgotten'], 'entry')} {would}forgotten here, too.")
    for memory in report["conflicts"][:_MAX_SHOWN]:
        print_note(f"{memory} was edited on two machines; both texts are kept: 'lorelog search' finds them")
    for secret in report["secrets"][:_MAX_SHOWN]:
        place = f"{short_path(secret['source'])}:{secret['line']}" if secret["line"] else short_path(secret["source"])
        print_note(f"not pushed: {place}: {secret['id']} contains a secret ({', '.join(secret['kinds'])})")
    if report["secrets"]:
        print_note(
            "take the secret out of the file, or 'lorelog forget ID' ('lorelog guard remove ID'), and sync again"
        )
    for project in report["other_projects"][:_MAX_SHOWN]:
        print_note(f"also in this exchange, and not chosen here: {one_line(project)}")
    for problem in report["problems"][:_MAX_SHOWN]:
        print_note(one_line(problem))


def _show_status(reply: Json, args: argparse.Namespace) -> None:
    if args.who:
        print(f"{args.who} was written by {one_line(reply['written_by'])}.")
        return
    if not reply["exchanges"]:
        print("No exchange is set up. 'lorelog sync REMOTE' in a project sets one up.")
    for exchange in reply["exchanges"]:
        kind = "team" if exchange["team"] else "personal"
        print(one_line(f"{exchange['name']}  {exchange['url']}  branch {exchange['branch']}, {kind}"))
        for directory, name in exchange["projects"].items():
            print(one_line(f"  {short_path(directory) if directory else 'global memories'}  {name}"))
        last = f"last sync {exchange['last']}" if exchange["last"] else "never synced"
        print(f"  {last}; {plural(exchange['waiting'], 'entry')} to send")


def _merge(files: list[str]) -> int:
    """Merge three versions of a journal into the second one, as Git asks of a merge driver."""
    from pathlib import Path

    from lorelog.services.sync.merge import merge_journal_texts

    if len(files) != _DRIVER_FILES:
        raise UsageError("--merge takes three files", hint='git runs: lorelog sync --merge "%O" "%A" "%B"')
    # Bytes that are not UTF-8, and the ends of lines, are the user's: they stay as they are.
    base, ours, theirs = (Path(file).read_bytes().decode("utf-8", "surrogateescape") for file in files)
    text, conflicts = merge_journal_texts(base, ours, theirs)
    Path(files[1]).write_bytes(text.encode("utf-8", "surrogateescape"))
    for memory in conflicts[:_MAX_SHOWN]:
        print_note(f"{memory} was changed on both sides; what both wrote is kept")
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
        print_note(f"it is used once {short_path(reply['attributes'])} has this line; commit it: {_ATTRIBUTE}")


def _git(*words: str) -> str:
    from lorelog.code.git import run_git

    try:
        done = run_git(words, os.environ)
    except FileNotFoundError as error:
        raise UsageError("git is not installed", hint="the merge driver is a setting of Git: install it") from error
    if done.status != 0:
        hint = "run it inside a clone: lorelog sync --merge-driver"
        raise UsageError(f"git {words[0]} failed: {done.error_text[:200]}", hint=hint)
    return os.fsdecode(done.output).strip()
