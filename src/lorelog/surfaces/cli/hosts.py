"""Install into agents' hosts, show how it stands with each, and take it back.

Hosts: claude (Claude Code), codex, opencode, openclaw. Only our own files and entries are touched, each change is shown as a
diff, a copy of what was there is kept, and uninstalling gives it back. What a host wants its person to approve is said.

examples:
  lorelog hosts install claude --dry-run    show what would change
  lorelog hosts install codex
  lorelog hosts status                      what is installed, and whether capture works
  lorelog hosts backfill claude --since 2w  sessions from before
  lorelog hosts uninstall openclaw
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorelog.core.errors import ConfigError, LorelogError
from lorelog.hosts import HOSTS, TITLES
from lorelog.surfaces.cli import hosts_backfill, hosts_flush
from lorelog.surfaces.cli.arguments import add_common, add_host, host_named
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import note, one_line, plural, print_json, printable, short_path, styled

if TYPE_CHECKING:
    from lorelog.services.installing.looking import HostStanding, Known
    from lorelog.services.installing.plan import Change, Setting

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_STATES = {"current": "green", "native": "green", "stale": "yellow", "missing": "dim"}
_FURTHER = {"backfill": hosts_backfill, "flush": hosts_flush}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    install = verbs.add_parser("install", help="install into a host, or bring it up to date", allow_abbrev=False)
    install.add_argument(
        "--approve", action="store_true", help="openclaw: also let the plugin see conversations, which capture needs"
    )
    status = verbs.add_parser("status", help="show what is installed, and whether capture works", allow_abbrev=False)
    status.add_argument("host", nargs="?", metavar="HOST", help="one host only")
    status.add_argument("--versions", action="store_true", help="ask each host for its version")
    add_common(status)
    uninstall = verbs.add_parser("uninstall", help="take everything back", allow_abbrev=False)
    for verb in (install, uninstall):
        add_host(verb)
        verb.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
        verb.add_argument("--json", action="store_true", help="print JSON (docs/json.md) instead of text")
    for name, module in _FURTHER.items():
        about = (module.__doc__ or "").strip()
        further = verbs.add_parser(
            name,
            help=about.partition("\n")[0].rstrip(".").lower(),
            description=about,
            formatter_class=parser.formatter_class,
            allow_abbrev=False,
        )
        module.configure(further)


def run(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    if args.verb in _FURTHER:
        status: int = _FURTHER[args.verb].run(args)
        return status
    if args.verb == "status":
        return _status(args)
    return _change(host_named(args.host), args)


def host_checks(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return one line for `lorelog doctor`: what is installed, and what is wrong with it."""
    shown = [one for one in _standings(args, HOSTS, {}) if one.installed != "missing"]
    if not shown:
        said = "not installed into any agent ('lorelog hosts install HOST')"
        return [{"name": "hosts", "ok": True, "message": said, "hint": ""}]
    wrong = [f"{one.title}: {text}" for one in shown for text in (*one.approve, *one.warnings)]
    said = "; ".join(wrong) or f"installed into {', '.join(one.title for one in shown)}"
    return [{"name": "hosts", "ok": not wrong, "message": said, "hint": "lorelog hosts status" if wrong else ""}]


def _change(host: str, args: argparse.Namespace) -> int:
    from lorelog.services.installing import plan
    from lorelog.services.installing.footprints import footprint
    from lorelog.services.installing.looking import approvals, native

    setting = _setting(approve=getattr(args, "approve", False))
    installs = args.verb == "install"
    by_host = native(host, setting)
    if installs and by_host:
        raise ConfigError(
            f"{TITLES[host]} has lorelog already, by its own installer ({by_host})",
            hint="nothing is to be done; to install from here, take that one away first",
        )
    if by_host and not plan.read_receipt(setting.home, host).files:
        raise ConfigError(
            f"lorelog is in {TITLES[host]} by its own installer ({by_host})", hint="take it away with that one"
        )
    made = footprint(host, setting)
    changes = (plan.plan_install if installs else plan.plan_uninstall)(host, made, setting)
    real = plan.differs(changes)
    if not args.dry_run:
        (plan.apply_install if installs else plan.apply_uninstall)(host, changes, setting)
    if not args.json:
        for change in real:  # afterwards: what could not be made is not said to be
            _show(change, whole=args.dry_run)
    folder = plan.copies_folder(setting.home, host)
    copies = str(folder) if folder.is_dir() and not args.dry_run else ""
    left = approvals(host, setting) if installs and not args.dry_run else []
    if args.json:
        files = [{"path": str(one.path), "change": _kind(one), "diff": plan.unified(one)} for one in real]
        print_json({"host": host, "dry_run": args.dry_run, "files": files, "approve": left, "backups": copies})
    else:
        _tell(host, args, real, copies)
        for one in left:
            print(f"{styled('still to do:', 'yellow')} {one_line(one)}")
    return 0


def _tell(host: str, args: argparse.Namespace, real: list[Change], copies: str) -> None:
    title, done = TITLES[host], plural(len(real), "file")
    kept = f" What was there is kept in {short_path(copies)}." if copies else ""
    if not real:
        print(f"{title}: {'all in place' if args.verb == 'install' else 'nothing of ours is there'}.")
    elif args.dry_run:
        print(f"{title}: {done} would change. Nothing was written.")
    elif args.verb == "install":
        print(f"{title}: installed, {done}.{kept}")
        print("Sessions that are open now take no notice; the next one does.")
    else:
        print(f"{title}: uninstalled, {done}.{kept}")
        print("Your memories stay where they are.")


def _status(args: argparse.Namespace) -> int:
    hosts = (host_named(args.host),) if args.host else HOSTS
    spool: dict[str, Any] = {}
    shown = _standings(args, hosts, spool)
    if args.json:
        print_json({"hosts": [_shape(one) for one in shown], **spool})
        return 0
    rows = [("host", "found", "installed", "last capture", "today", "last used")]
    for one in shown:
        name = f"{one.title} {one.version}".strip()
        seen = "yes" if one.found else "no"
        rows.append((name, seen, one.installed, _ago(one.last_capture), str(one.today), _ago(one.newest_session)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)]
        if number:
            cells[2] = styled(cells[2], _STATES[row[2]])
        line = "  ".join(cells).rstrip()
        print(line if number else styled(line, "dim"))
    for one in shown:
        for text in one.approve:
            print(f"{styled('still to do:', 'yellow')} {one.title}: {one_line(text)}")
        for text in one.warnings:
            print(f"{styled('warning:', 'red')} {one.title}: {one_line(text)}")
    if spool.get("waiting"):
        note(f"{plural(spool['waiting'], 'event')} in the spool; 'lorelog hosts flush' captures now")
    if spool.get("failed"):
        note(f"{plural(spool['failed'], 'event')} could not be captured, and are kept in spool/failed")
    return 0


def _standings(args: argparse.Namespace, hosts: tuple[str, ...], spool: dict[str, Any]) -> list[HostStanding]:
    """Look at hosts, and put what is known of the spool into `spool`."""
    from lorelog.services.installing.looking import Known, standing

    known: dict[str, Known] = {}
    spool.update({"waiting": 0, "oldest_s": 0.0, "failed": 0})
    try:
        told = ask(args, "session.status", {})
    except LorelogError as error:
        note(f"what was captured cannot be told: {error.message}")
    else:
        spool.update({name: told[name] for name in ("waiting", "oldest_s", "failed")})
        known = {one["host"]: _known(one) for one in told["hosts"]}
    setting = _setting()
    asks = getattr(args, "versions", False)
    return [standing(host, setting, known.get(host, Known()), versions=asks) for host in hosts]


def _shape(one: HostStanding) -> dict[str, Any]:
    shape = asdict(one)
    for name in ("last_event", "last_capture", "newest_session"):
        shape[name] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(shape[name])) if shape[name] else ""
    return shape


def _known(told: dict[str, Any]) -> Known:
    from datetime import datetime

    from lorelog.services.installing.looking import Known

    event, capture = (
        datetime.fromisoformat(told[name]).timestamp() if told[name] else 0.0 for name in ("last_event", "last_capture")
    )
    return Known(event, capture, told["today"])


def _setting(*, approve: bool = False) -> Setting:
    from lorelog.services.installing.command import own_command
    from lorelog.services.installing.plan import Setting
    from lorelog.surfaces.daemon.address import find_address

    environment = dict(os.environ)
    return Setting(Path.home(), Path(find_address().home), own_command(environment), environment, approve)


def _show(change: Change, *, whole: bool) -> None:
    """Show what changes; a file that comes or goes is named only, unless nothing is written and there is time to read."""
    from lorelog.services.installing.plan import unified

    if not whole and _kind(change) != "changed":
        print(f"{_kind(change)} {short_path(str(change.path))}")
        return
    for line in unified(change).splitlines():
        style = "bold" if line[:3] in {"---", "+++"} else _COLOURS.get(line[:1], "")
        print(styled(printable(line), style) if style else printable(line))


def _kind(change: Change) -> str:
    return "removed" if change.after is None else "created" if change.before is None else "changed"


def _ago(moment: float) -> str:
    """Return how long ago something was."""
    if not moment:
        return "never"
    gone = max(0.0, time.time() - moment)
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if gone >= seconds:
            return f"{gone // seconds:,.0f} {unit} ago"
    return "just now"
