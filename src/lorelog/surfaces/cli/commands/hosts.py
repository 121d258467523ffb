"""Commands about hosts and their sessions: hosts, pause and uninstall."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins

from lorelog.core.caller import detect_agent, hook_environment
from lorelog.core.errors import ConfigError, LorelogError, NotFound, UsageError, plural
from lorelog.core.extras import installer
from lorelog.core.paths import data_folder
from lorelog.hosts import HOST_TITLES, HOSTS
from lorelog.light.daemon_connection import DaemonAddress, find_address, read_lock_holder
from lorelog.services.install import plan
from lorelog.services.install import status as install_status
from lorelog.services.install.manifests import build_manifest
from lorelog.surfaces.cli import client
from lorelog.surfaces.cli.arguments import parse_host
from lorelog.surfaces.text import one_line, printable, short_path, stylize

if TYPE_CHECKING:
    import argparse

    from lorelog.services.install.status import HostStatus
    from lorelog.services.sessions.drain import Drainer, DrainReport

_DRY_RUN = {"--dry-run": "show what would change, and change nothing", "shared": "json"}
ARGUMENTS = {
    "hosts install": {
        "": "install into the agents found here, or into HOST",
        "hosts HOST*": "claude, codex, gemini … (default: all found; lorelog docs hosts has the list)",
        "--yes": "do not ask before installing into all found hosts",
        "--approve": "openclaw: also allow the plugin to read conversations, which capture requires",
        "--statusline": "claude: also show 'lorelog status --short' in its status line",
        **_DRY_RUN,
    },
    "hosts status": {
        "": "show installed hosts and whether capture works",
        "host HOST?": "only this host",
        "--versions": "run each host to show its version",
        "shared": "json project tenant daemon",
    },
    "hosts uninstall": {
        "": "remove lorelog from a host and restore its files",
        "host HOST": "claude, codex, gemini … (lorelog docs hosts)",
        **_DRY_RUN,
    },
    "hosts flush": {
        "": "capture the spooled events of hooks now",
        "--wait SECONDS": "how long to wait for incomplete transcripts (default: 70)",
        "shared": "json daemon",
    },
    "pause": {
        "session SESSION?": "id of a session, or its beginning (default: the open sessions of this project)",
        "--read-only": "go on delivering memories, and capture nothing",
        "--resume": "capture again from here on",
        "shared": "json project tenant daemon",
    },
    "uninstall": {
        "--dry-run": "list what would be removed, and remove nothing",
        "--data": "also delete memories, settings and keys in lorelog's home",
        "--yes": "do not ask before removing",
        "shared": "json",
    },
}
HELP = {
    "hosts": """\
Install lorelog into coding agents, check the installation, or remove it.

Hosts are the programs that run agents: claude (Claude Code), codex, opencode, openclaw, gemini (Gemini CLI),
qwen (Qwen Code), copilot (GitHub Copilot CLI), droid (Factory Droid), pi, omp (Oh My Pi), kilo (Kilo Code's
command line), kimi (Kimi Code) and cline (Cline's command line). Cursor, VS Code and others take the MCP server and an
instruction by hand: lorelog docs hosts.

'install' without a name finds the hosts on this machine, lists them and asks once. It adds lorelog's own files and entries
and changes nothing else: it shows changed files as a diff and keeps a copy of each, and 'uninstall' restores them. If a
host wants you to approve something, the command says so.

examples:
  lorelog hosts install                     find the agents on this machine and install into them
  lorelog hosts install claude --dry-run    show what would change
  lorelog hosts status                      check the installation
  lorelog hosts uninstall openclaw
"""
}
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_STATE_COLOURS = {"current": "green", "native": "green", "stale": "yellow", "missing": "dim"}
_FLUSH_WAIT_S = 70.0
"""A transcript that is not complete after a minute never will be."""
_BUSY_WAIT_S = 10.0
_POLL_S = 0.1
_STATEMENTS_A_DAY = 50
"""What three teams said on a day with sessions, on average: 16, 23 and 49 statements."""


def run_hosts_uninstall(args: argparse.Namespace) -> int:
    return _show_changes([_change_host(parse_host(args.host), args)], args)


def run_hosts_flush(args: argparse.Namespace) -> int:
    """Capture the spooled events of hooks now, without waiting for the daemon.

    Hooks run this themselves if the daemon is turned off (daemon.warm = off). Incomplete transcripts are waited for; events
    that fail stay in the spool and are tried again the next time.

    examples:
      lorelog hosts flush
      lorelog hosts flush --wait 0       do not wait for incomplete transcripts
    """
    from lorelog.services.sessions.drain import Drainer, capture_arguments, event_directory

    home = find_address().home
    with closing(client.OperationClient(args.warm, shared=True)) as operations:

        def capture(event: dict[str, Any]) -> dict[str, Any]:
            where, environment = event_directory(event, home), hook_environment(os.environ, event.get("environment"))
            return operations.call(
                "session.capture", capture_arguments(event), directory=where, environment=environment
            )

        drained = _drain_spool(Drainer(home, capture), _FLUSH_WAIT_S if args.wait is None else args.wait)
    reply = to_builtins(drained)
    del reply["pause_s"]
    client.print_reply(args, reply, _show_drained)
    return 1 if drained.failed or drained.parked else 0


def _show_drained(reply: dict[str, Any], args: argparse.Namespace) -> None:
    client.print_notes(reply)
    if reply["busy"]:
        print("Another process is already capturing the spooled events.")
        return
    print(f"Captured {plural(reply['captured'], 'turn')} of {plural(reply['events'], 'event')}.")
    for name, state in (
        ("waiting", "left in the spool: the transcript is incomplete"),
        ("failed", "left in the spool; the next run tries again"),
        ("parked", "moved to spool/failed"),
    ):
        if reply[name]:
            client.print_note(f"{plural(reply[name], 'event')} {state}")


def _drain_spool(drainer: Drainer, wait_s: float) -> DrainReport:
    """Drain until no event is left that may still succeed, including events that hooks add meanwhile."""
    started = time.monotonic()
    drained = last = drainer.drain()
    while last.pause_s is not None or last.events or last.parked:
        if last.pause_s is not None:
            left = started + (_BUSY_WAIT_S if last.busy else wait_s) - time.monotonic()
            if left <= 0 or not (last.waiting or last.busy):
                break
            time.sleep(max(0.0, min(left, max(_POLL_S, min(last.pause_s, 1.0)))))
        last = drainer.drain()
        drained += last
    return drained


def host_checks(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the check of the installed hosts for `lorelog doctor`."""
    statuses = [status for status in _host_statuses(args, tuple(HOST_TITLES))[0] if status.installed != "missing"]
    if not statuses:
        message = "not installed into any agent, so no session is captured"
        return [{"name": "hosts", "ok": True, "message": message, "hint": "lorelog hosts install"}]
    problems = [f"{status.title}: {text}" for status in statuses for text in (*status.approve, *status.warnings)]
    message = "; ".join(problems) or f"installed into {', '.join(status.title for status in statuses)}"
    stale = [status.host for status in statuses if status.installed == "stale"]
    hint = f"lorelog hosts install {' '.join(stale)}" if stale else "lorelog hosts status" if problems else ""
    return [{"name": "hosts", "ok": not problems, "message": message, "hint": hint}]


def run_hosts_install(args: argparse.Namespace) -> int:
    """Install into the named hosts, or into all that are found. With several, a failure does not stop the others."""
    context = install_context(args)
    named = tuple(dict.fromkeys(map(parse_host, args.hosts)))
    available = [host for host in HOST_TITLES if install_status.is_host_available(host, context)]
    hosts = named or available
    if not named and not _confirm_found(available, args):
        print("Nothing was changed.")
        return 1
    for host in () if args.json else hosts:
        if host not in available:
            client.print_note(
                f"{HOST_TITLES[host]} was not found on this machine; it loads lorelog once it is installed"
            )
    changes, status = [], 0
    for host in hosts:
        try:
            changes.append(_change_host(host, args))
        except LorelogError as error:
            if len(hosts) == 1:
                raise
            status = 1
            client.print_problem(HOST_TITLES[host], error.message, error.hint)
    _show_changes(changes, args, several=len(args.hosts) != 1)
    if not changes or args.dry_run or args.json:
        return status
    sessions = sum(install_status.count_sessions(change["host"], context) for change in changes)
    if sessions:
        print(f"{plural(sessions, 'earlier session')} found: 'lorelog backfill' makes memories of this project's,")
        print("  'lorelog backfill --all-projects' of all.")
    print("The first new memory appears when an agent has finished a turn: lorelog list.")
    if any(change["files"] for change in changes):
        print("Restart open sessions to pick this up.")
    # OpenClaw's program is never asked: see `models.chat.programs`.
    if any(change["host"] != "openclaw" for change in changes) and not args.yes:
        _ask_for_judge()
    return status


def _ask_for_judge() -> None:
    """Ask a person once whether their agent's model may file what they say; the setting review.judge keeps the answer."""
    from lorelog.services.review.reviewer import TOKENS_PER_STATEMENT
    from lorelog.wiring import change_setting, resolve_location, settings_at

    location = resolve_location()
    settings = settings_at(location)
    at_terminal = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))
    if not at_terminal or detect_agent(os.environ) or settings.origin("review.judge") != "default":
        return
    limit = settings.value("llm.daily_tokens")
    print(f"""
What you say to agents is kept, but nothing of it becomes a rule until it is filed: by you ('lorelog review'), or by a model.
If you allow it, your statements and the end of what stood before each are sent to your agent's own small model, with secrets
removed, and with the rules that stand; no files. Never more than {limit:,} tokens a day (llm.daily_tokens).""")
    tokens = _STATEMENTS_A_DAY * TOKENS_PER_STATEMENT
    question = f"May lorelog ask your agent's small model, about {tokens:,} tokens a day, to file what you said?"
    answer = "host" if client.confirm(question, "") else "none"
    change_setting(location, "review.judge", answer, of_project=False)
    client.print_note(f"review.judge = {answer}; 'lorelog config set review.judge host' or 'none' changes it")


def _confirm_found(hosts: Sequence[str], args: argparse.Namespace) -> bool:
    """List the hosts that were found and ask once. Raise NotFound if there are none, UsageError if nobody can answer."""
    if not hosts:
        raise NotFound(
            "no coding agent was found on this machine",
            hint=f"looked for {', '.join(HOST_TITLES)}; name one to install anyway, as in: lorelog hosts install claude",
        )
    titles = ", ".join(HOST_TITLES[host] for host in hosts)
    is_asked = not (args.yes or args.dry_run)
    if is_asked and (args.json or sys.stdin is None or not sys.stdin.isatty()):
        raise UsageError(
            f"found {titles}; cannot ask for confirmation: standard input is not a terminal",
            hint=f"lorelog hosts install --yes, or name them: lorelog hosts install {' '.join(hosts)}",
        )
    if not args.json:
        print(f"Found: {titles}.")
    question = f"Install lorelog into {'all of them' if len(hosts) > 1 else 'it'}?"
    return not is_asked or client.confirm(question, "", default=True)


def _change_host(host: str, args: argparse.Namespace) -> dict[str, Any]:
    """Install into one host or uninstall from it, unless --dry-run is given; return what changed, or would."""
    context = install_context(args)
    installing = args.verb == "install"
    native = install_status.native_install(host, context)
    by = f"in {HOST_TITLES[host]} by its own installer ({native})"
    if native and installing:
        raise ConfigError(f"lorelog is already installed {by}", hint="to install from here, uninstall it there first")
    if native and not plan.read_receipt(context.home, host).files:
        raise ConfigError(f"lorelog was installed {by}", hint="uninstall it there")
    manifest = build_manifest(host, context)
    changes = (plan.plan_install if installing else plan.plan_uninstall)(host, manifest, context)
    if not args.dry_run:
        (plan.apply_install if installing else plan.apply_uninstall)(host, changes, context)
    folder = plan.backup_folder(context.home, host)
    backups = str(folder) if folder.is_dir() and not args.dry_run else ""
    approvals = install_status.pending_approvals(host, context) if installing and not args.dry_run else []
    files = [
        {
            "path": str(file.path),
            "change": "removed" if file.after is None else "created" if file.before is None else "changed",
            "diff": plan.format_diff(file),
        }
        for file in plan.effective_changes(changes)
    ]
    return {"host": host, "dry_run": args.dry_run, "files": files, "approve": approvals, "backups": backups}


def _show_changes(changes: list[dict[str, Any]], args: argparse.Namespace, *, several: bool = False) -> int:
    """Print what changed: after applying it, so that a failed change is not shown as made."""
    if args.json:
        client.print_json({"hosts": changes} if several else changes[0])
        return 0
    for change in changes:
        for file in change["files"]:
            if not args.dry_run and file["change"] != "changed":
                print(f"{file['change']} {short_path(file['path'])}")
                continue
            for line in file["diff"].splitlines():
                style = "bold" if line[:3] in {"---", "+++"} else _COLOURS.get(line[:1], "")
                print(stylize(printable(line), style) if style else printable(line))
        title, count = HOST_TITLES[change["host"]], plural(len(change["files"]), "file")
        backup = f" Backups are in {short_path(change['backups'])}." if change["backups"] else ""
        if not change["files"]:
            print(f"{title}: {'already installed' if args.verb == 'install' else 'lorelog is not installed'}.")
        elif args.dry_run:
            print(f"{title}: {count} would change. Nothing was written.")
        else:
            print(f"{title}: {args.verb}ed, {count}.{backup}")
            if args.verb == "uninstall":
                print("Your memories are kept.")
        for approval in change["approve"]:
            print(f"{stylize('still to do:', 'yellow')} {one_line(approval)}")
    return 0


def run_hosts_status(args: argparse.Namespace) -> int:
    hosts = (parse_host(args.host),) if args.host else tuple(HOST_TITLES)
    statuses, spool = _host_statuses(args, hosts)

    def show(reply: dict[str, Any], args: argparse.Namespace) -> None:
        rows = [("host", "found", "installed", "last capture", "today", "last used")]
        for status in statuses:
            times = (_format_age(status.last_capture), str(status.today), _format_age(status.newest_session))
            installed = stylize(status.installed, _STATE_COLOURS[status.installed])
            name, found = f"{status.title} {status.version}".strip(), "yes" if status.found else "no"
            rows.append((name, found, installed, *times))
        client.print_table(rows)
        if not args.host and all(status.installed == "missing" for status in statuses):
            client.print_note("lorelog is not installed in any of them: lorelog hosts install")
        for status in statuses:
            for text in status.approve:
                print(f"{stylize('still to do:', 'yellow')} {status.title}: {one_line(text)}")
            for text in status.warnings:
                print(f"{stylize('warning:', 'red')} {status.title}: {one_line(text)}")
        if spool["waiting"]:
            client.print_note(f"{plural(spool['waiting'], 'event')} in the spool; 'lorelog hosts flush' captures now")
        if spool["failed"]:
            failed = plural(spool["failed"], "event")
            client.print_note(f"{failed} could not be captured in the last 7 days; see spool/failed/*.why")

    return client.print_reply(args, {"hosts": [to_builtins(status) for status in statuses], **spool}, show)


def run_pause(args: argparse.Namespace) -> int:
    """Keep a session out of memory from here on, until it is resumed.

    Nothing of it is captured, also not by a later turn, 'backfill' or an import, and nothing is delivered to it; guards go on
    blocking. The turn that is running is left out as a whole. The words [off the record] in a prompt do the same as --read-only. Only the
    session's id is noted. If the note cannot be read, nothing is captured. 'lorelog status' names paused sessions.

    examples:
      lorelog pause                  the open sessions of this project
      lorelog pause --read-only
      lorelog pause --resume
    """
    if args.read_only and args.resume:
        raise UsageError("--read-only and --resume exclude each other", hint="lorelog pause --resume")
    known = client.call_operation(args, "session.status", {})["sessions"]
    chosen = [session for session in known if session.startswith(args.session or "")]
    if not chosen and not args.session:
        raise UsageError("no session is open in this project", hint="name it: lorelog pause SESSION")
    chosen = chosen or [args.session]  # of another project, or not seen yet
    request = {"moment": "resume" if args.resume else "pause", "source": "read-only" if args.read_only else ""}
    for session in chosen:
        client.call_operation(args, "session.capture", {"host": "any", "session": session, **request})
    done = "resumed" if args.resume else "paused, memories are delivered" if args.read_only else "paused"
    return client.print_reply(
        args, {"sessions": chosen, **request}, lambda reply, _: print(f"{done}: {', '.join(chosen)}")
    )


def _host_statuses(args: argparse.Namespace, hosts: Sequence[str]) -> tuple[list[HostStatus], dict[str, Any]]:
    """Return the status of each host, and the counts of the spool."""
    from lorelog.core.memory import HostCaptures

    captures: dict[str, tuple[HostCaptures]] = {}
    spool: dict[str, Any] = {"waiting": 0, "oldest_s": 0.0, "failed": 0}
    try:
        reply = client.call_operation(args, "session.status", {})
    except LorelogError as error:
        client.print_note(f"cannot read the capture statistics: {error.message}")
    else:
        spool = {name: reply[name] for name in spool}
        captures = {fields["host"]: (HostCaptures(**fields),) for fields in reply["hosts"]}
    context, versions, find = install_context(), getattr(args, "versions", False), install_status.host_status
    return [find(host, context, *captures.get(host, ()), versions=versions) for host in hosts], spool


def install_context(args: argparse.Namespace | None = None) -> plan.InstallContext:
    """Return what an installation from this process, with these options, depends on."""
    environment, home = dict(os.environ), Path(find_address().home)
    choices = (getattr(args, name, False) for name in ("approve", "statusline"))
    return plan.InstallContext(Path.home(), home, plan.resolve_command(environment), environment, *choices)


def _format_age(moment: str) -> str:
    if not moment:
        return "never"
    age_s = max(0.0, time.time() - datetime.fromisoformat(moment).timestamp())
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if age_s >= seconds:
            return f"{age_s // seconds:,.0f} {unit} ago"
    return "just now"


_DERIVED = ("cache", "run", "logs", "ollama")
"""Folders of the home that can be rebuilt, or belong to the running daemon."""
_DATA = {
    "data": "memories and records",
    "config.toml": "settings",
    "identities": "keys",
    "spool": "events that are not captured yet",
    "paused": "which sessions are off the record",
    "summaries": "turns that are being summarized",
    "hosts": "what was installed into hosts",
    "backups": "copies of the hosts' files",
}
"""What only the home holds."""


class _Removal(Struct, frozen=True):
    """One thing to remove. `part` is host, project, daemon, cache or data."""

    part: str
    text: str
    remove: Callable[[], object]


def run_uninstall(args: argparse.Namespace) -> int:
    """Remove lorelog from this machine, except your memories.

    Removes it from every host, removes the block in AGENTS.md and CLAUDE.md and the scope file of each known project, stops the daemon,
    and deletes what can be rebuilt (cache, logs, sockets). It lists everything first and asks once. What fails is reported,
    and the rest goes on.

    Your memories stay: the journals in your projects, and the data, settings and keys in lorelog's home. --data deletes the data in the
    home, too; at a terminal you have to type the path of the home for it. The journals in your projects are never deleted.

    examples:
      lorelog uninstall --dry-run              list what would be removed and what stays
      lorelog uninstall
      lorelog backup ~/lorelog.tar.gz && lorelog uninstall --data
    """
    address, context = find_address(), install_context()
    projects = _known_projects(address.home)
    steps = [*_plan_hosts(context), *_plan_projects(projects, address.home), *_plan_home(address, with_data=args.data)]
    removed, problems = [step.text for step in steps], list[dict[str, str]]()
    if not args.json:
        print(f"{'Would' if args.dry_run else 'Will'} remove:" if steps else "There is nothing to remove.")
        for text in removed:
            print(f"  {one_line(text)}")
    if not args.dry_run:
        if steps and not _confirm_removal(args, address.home):
            print("Nothing was removed.", file=sys.stderr)
            return 1
        removed = _remove_all(steps, problems)
    pip = f"{sys.executable or 'python'} -m pip uninstall lorelog lorelog-encoder"
    programs = {"uv": "uv tool uninstall lorelog", "pipx": "pipx uninstall lorelog", "pip": pip}
    reply = {
        "dry_run": args.dry_run,
        "removed": removed,
        "problems": problems,
        "stays": list(_list_remaining(address.home, projects, context)),
        "program": programs[installer()],
    }

    def show(reply: dict[str, Any], args: argparse.Namespace) -> None:
        client.print_problems(problems)
        if removed and not args.dry_run:
            left = f"; {plural(len(problems), 'thing')} left" if problems else ""
            print(f"Removed {len(removed):,} of {len(steps):,}{left}.")
        if reply["stays"]:
            print("Stays:" if not args.dry_run else "Would stay:" if not args.data else "There now:")
            for thing in reply["stays"]:
                print(f"  {short_path(thing['path'])}  ({thing['what']})")
            if not args.data:
                print(
                    "  'lorelog backup FILE' saves all of it; 'lorelog uninstall --data' deletes what is in the home."
                )
        print("The conversations that your agents keep were never lorelog's and stay, too.")
        print(f"The program itself: {reply['program']}")

    return client.print_reply(args, reply, show)


def _plan_hosts(context: plan.InstallContext) -> Iterator[_Removal]:
    def uninstall(host: str) -> None:
        plan.apply_uninstall(host, plan.plan_uninstall(host, build_manifest(host, context), context), context)

    for host in HOST_TITLES:
        try:
            changes = plan.effective_changes(plan.plan_uninstall(host, build_manifest(host, context), context))
        except LorelogError:  # such as a configuration that cannot be parsed: removing it reports the reason
            changes = []
        if changes or plan.read_receipt(context.home, host).files:
            text = f"lorelog in {HOST_TITLES[host]} ({plural(len(changes), 'file')})"
            yield _Removal("host", text, partial(uninstall, host))


def _plan_projects(projects: list[str], home: str) -> Iterator[_Removal]:
    from lorelog.services.context.init import apply_changes, plan_removal
    from lorelog.services.places.workspace import SCOPE_FILE

    for project in projects:
        with suppress(LorelogError):
            for change in plan_removal(project, home):
                if change.kind != "unchanged":
                    text = "" if change.path.parts[-2] == "lorelog" else "the block in "
                    text += short_path(str(change.path))
                    yield _Removal("project", text, partial(apply_changes, project, [change]))
        scope = Path(project, SCOPE_FILE)
        if scope.is_file() and not scope.is_symlink():
            yield _Removal("project", short_path(str(scope)), scope.unlink)


def _known_projects(home: str) -> list[str]:
    """Return the directories of all projects that any tenant has indexed, and of the current one."""
    from lorelog.services.places.roots import Roots
    from lorelog.services.places.workspace import find_project
    from lorelog.wiring import working_directory

    projects: dict[str, None] = {}
    try:
        current = find_project(working_directory())
        projects |= dict.fromkeys((current.id, current.root))
    except LorelogError:
        pass  # the current directory was deleted
    for file in sorted(Path(data_folder(home)).glob("*/roots.json")):
        projects |= dict.fromkeys(root.project for root in Roots(file).all())
    return [project for project in projects if Path(project).is_absolute() and Path(project).is_dir()]


def _plan_home(address: DaemonAddress, *, with_data: bool) -> Iterator[_Removal]:
    from lorelog.light.daemon_control import stop

    def delete(path: Path) -> None:
        """Delete a file or folder; of a link only the link."""
        if path.is_symlink() or path.is_file():
            path.unlink()
        else:
            shutil.rmtree(path)

    holder = read_lock_holder(address)
    if holder is not None:
        yield _Removal("daemon", f"the daemon (process {holder.get('pid')})", lambda: stop(address))
    parts = dict.fromkeys(_DERIVED, "cache") | (dict.fromkeys(_DATA, "data") if with_data else {})
    for name, part in parts.items():
        path = Path(address.home, name)
        if path.exists() or path.is_symlink():
            size = 0
            for file in [path, *path.rglob("*")]:
                with suppress(OSError):
                    size += file.stat().st_size if file.is_file() and (file == path or not file.is_symlink()) else 0
            shown = f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{size / 1e3:,.1f} kB"
            yield _Removal(part, f"{short_path(str(path))} ({shown})", partial(delete, path))


def _confirm_removal(args: argparse.Namespace, home: str) -> bool:
    at_terminal = sys.stdin is not None and sys.stdin.isatty()
    if not (args.data and at_terminal):
        return args.yes or client.confirm("Remove all of this?", "use --yes to remove")
    print("Your memories, settings and keys are deleted for good. A backup first: lorelog backup FILE", file=sys.stderr)
    print(f"To delete them, type the path of the home ({one_line(home)}): ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip() == home


def _remove_all(steps: list[_Removal], problems: list[dict[str, str]]) -> list[str]:
    """Run all steps, and return what was removed.

    While the daemon runs its files stay, and while a host could not be restored the copies of its files do.
    """
    removed: list[str] = []
    failed: set[str] = set()
    for step in steps:
        error = LorelogError("")
        if step.part in {"cache", "data"} and "daemon" in failed:
            error = LorelogError("the daemon is still running", hint="lorelog daemon stop")
        elif step.part == "data" and "host" in failed:
            error = LorelogError("lorelog is still in a host", hint="lorelog hosts status")
        else:
            try:
                step.remove()
            except LorelogError as refusal:
                error = refusal
            except OSError as refusal:
                error = LorelogError(f"{refusal.filename or step.text}: {refusal.strerror or refusal}")
        if error.message:
            failed.add(step.part)
            problems.append({"path": step.text, "message": error.message, "hint": error.hint})
        else:
            removed.append(step.text)
    home = Path(find_address().home)
    with suppress(OSError):
        if [path.name for path in home.iterdir()] == [".gitignore"]:  # we wrote it, and it has nothing left to cover
            (home / ".gitignore").unlink()
    for folder in (home / "hosts", home):
        with suppress(OSError):
            folder.rmdir()  # only if it is empty
    return removed


def _list_remaining(home: str, projects: list[str], context: plan.InstallContext) -> Iterator[dict[str, str]]:
    """Yield what stays on disk: path and what it is."""
    for project in projects:
        journals = Path(project, ".lorelog", "memory")
        if journals.is_dir():
            count = plural(sum(1 for _ in journals.glob("*.md")), "journal")
            yield {"path": str(journals), "what": f"{count} of this project"}
    for name, what in _DATA.items():
        path = Path(home, name)
        if path.is_file() or (path.is_dir() and any(path.iterdir())):
            yield {"path": str(path), "what": what}
    for host in HOSTS:
        if native := install_status.native_install(host, context):
            what = f"installed by {HOST_TITLES[host]}'s own plugin manager; remove it there"
            yield {"path": native, "what": what}
