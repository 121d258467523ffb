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

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from lorelog.core.errors import LorelogError, UsageError
from lorelog.core.extras import installer
from lorelog.core.paths import data_folder
from lorelog.hosts import HOST_TITLES, HOSTS
from lorelog.hosts.documented import ALL_TITLES
from lorelog.light.daemon_address import find_address
from lorelog.surfaces.cli.render import one_line, plural, print_json, print_problem, short_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.light.daemon_address import DaemonAddress
    from lorelog.services.install.plan import InstallContext

_DERIVED = ("cache", "run", "logs", "ollama")
"""Folders of the home that can be rebuilt, or belong to the running daemon."""
_DATA = {
    "data": "memories and records",
    "config.toml": "settings",
    "identities": "keys",
    "spool": "events that are not captured yet",
    "summaries": "turns that are being summarized",
    "hosts": "what was installed into hosts",
    "backups": "copies of the hosts' files",
}
"""What only the home holds."""


class _RemovalStep(Struct, frozen=True):
    """One thing to remove. `part` is host, project, daemon, cache or data."""

    part: str
    text: str
    remove: Callable[[], object]


class _RemovalReport(Struct):
    removed: list[str] = field(default_factory=list)
    problems: list[dict[str, str]] = field(default_factory=list)
    failed_parts: set[str] = field(default_factory=set)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    parser.add_argument("--dry-run", action="store_true", help="list what would be removed, and remove nothing")
    parser.add_argument("--data", action="store_true", help="also delete memories, settings and keys in lorelog's home")
    parser.add_argument("--yes", action="store_true", help="do not ask before removing")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text (lorelog docs json)")


def run(args: argparse.Namespace) -> int:
    """List what is there, ask, remove it, and say what stays. Fail if something could not be removed."""
    from lorelog.surfaces.cli.commands.agents.hosts import install_context

    address = find_address()
    context = install_context()
    projects = _known_projects(address.home)
    steps = [
        *_plan_hosts(context),
        *_plan_projects(projects),
        *_plan_home(address, with_data=args.data),
    ]
    report = _RemovalReport()
    if not args.dry_run:
        if not args.json:
            _print_steps(steps, "Will remove:")
        if steps and not _confirm(args, address.home):
            print("Nothing was removed.", file=sys.stderr)
            return 1
        _remove_all(steps, report)
    remaining = _list_remaining(address.home, projects, context)
    if args.json:
        planned = [step.text for step in steps]
        print_json(
            {
                "dry_run": args.dry_run,
                "removed": planned if args.dry_run else report.removed,
                "problems": report.problems,
                "stays": remaining,
                "program": removal_command(),
            }
        )
    else:
        _print_report(args, steps, report, remaining)
    return 1 if report.problems else 0


def removal_command() -> str:
    """Return the command that removes the program itself."""
    pip = f"{sys.executable or 'python'} -m pip uninstall lorelog lorelog-encoder"
    return {"uv": "uv tool uninstall lorelog", "pipx": "pipx uninstall lorelog", "pip": pip}[installer()]


# -- the plan ----------------------------------------------------------------------------------------------------------


def _plan_hosts(context: InstallContext) -> list[_RemovalStep]:
    from lorelog.services.install.manifests import build_manifest
    from lorelog.services.install.plan import apply_uninstall, effective_changes, plan_uninstall, read_receipt

    steps = []
    for host in ALL_TITLES:

        def uninstall(host: str = host) -> None:
            apply_uninstall(host, plan_uninstall(host, build_manifest(host, context), context), context)

        receipt = read_receipt(context.home, host)
        try:
            changes = effective_changes(plan_uninstall(host, build_manifest(host, context), context))
        except LorelogError:  # such as a configuration that cannot be parsed: removing it reports the reason
            changes = []
        if changes or receipt.files:
            files = plural(len(changes), "file")
            steps.append(_RemovalStep("host", f"lorelog in {ALL_TITLES[host]} ({files})", uninstall))
    return steps


def _plan_projects(projects: list[str]) -> list[_RemovalStep]:
    from lorelog.services.context.init import plan_removal
    from lorelog.services.places.project import SCOPE_FILE

    steps = []
    for project in projects:
        try:
            changes = [change for change in plan_removal(project) if change.kind != "unchanged"]
        except LorelogError:
            changes = []
        steps += [
            _RemovalStep("project", f"the block in {short_path(str(change.path))}", change.apply) for change in changes
        ]
        scope = Path(project, SCOPE_FILE)
        if scope.is_file() and not scope.is_symlink():
            steps.append(_RemovalStep("project", short_path(str(scope)), scope.unlink))
    return steps


def _plan_home(address: DaemonAddress, *, with_data: bool) -> list[_RemovalStep]:
    from lorelog.light.daemon_control import read_lock_holder, stop

    steps = []
    holder = read_lock_holder(address)
    if holder is not None:
        steps.append(_RemovalStep("daemon", f"the daemon (process {holder.get('pid')})", lambda: stop(address)))
    parts = [("cache", name) for name in _DERIVED] + ([("data", name) for name in _DATA] if with_data else [])
    for part, name in parts:
        path = Path(address.home, name)
        if path.exists() or path.is_symlink():
            text = f"{short_path(str(path))} ({_format_size(path)})"
            steps.append(_RemovalStep(part, text, lambda path=path: _delete(path)))  # type: ignore[misc]
    return steps


def _known_projects(home: str) -> list[str]:
    """Return the directories of all projects that any tenant has indexed, and of the current one."""
    from lorelog.services.places.project import find_project
    from lorelog.services.places.roots import Roots
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


# -- removing ----------------------------------------------------------------------------------------------------------


def _confirm(args: argparse.Namespace, home: str) -> bool:
    at_terminal = sys.stdin is not None and sys.stdin.isatty()
    if not at_terminal:
        if not args.yes:
            raise UsageError(
                "cannot ask for confirmation: standard input is not a terminal", hint="use --yes to remove"
            )
        return True
    if not args.yes and not args.data:
        print("Remove all of this? [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in {"y", "yes"}
    if args.data:
        print(
            "Your memories, settings and keys are deleted for good. A backup first: lorelog backup FILE\n"
            f"To delete them, type the path of the home ({one_line(home)}): ",
            end="",
            file=sys.stderr,
            flush=True,
        )
        return sys.stdin.readline().strip() == home
    return True


def _remove_all(steps: list[_RemovalStep], report: _RemovalReport) -> None:
    """Run all steps. While the daemon runs its files stay, and while a host could not be restored the copies of its files do."""
    for step in steps:
        if step.part in {"cache", "data"} and "daemon" in report.failed_parts:
            _add_problem(report, step, "the daemon is still running", "lorelog daemon stop")
        elif step.part == "data" and "host" in report.failed_parts:
            _add_problem(report, step, "lorelog is still in a host", "lorelog hosts status")
        else:
            try:
                step.remove()
            except LorelogError as error:
                _add_problem(report, step, error.message, error.hint)
            except OSError as error:
                _add_problem(report, step, f"{error.filename or step.text}: {error.strerror or error}", "")
            else:
                report.removed.append(step.text)
    home = Path(find_address().home)
    with suppress(OSError):
        if [path.name for path in home.iterdir()] == [".gitignore"]:  # we wrote it, and it has nothing left to cover
            (home / ".gitignore").unlink()
    for folder in (home / "hosts", home):
        with suppress(OSError):
            folder.rmdir()  # only if it is empty


def _add_problem(report: _RemovalReport, step: _RemovalStep, message: str, hint: str) -> None:
    report.failed_parts.add(step.part)
    report.problems.append({"path": step.text, "message": message, "hint": hint})


def _delete(path: Path) -> None:
    """Delete a file or folder; of a link only the link."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    else:
        shutil.rmtree(path)


# -- output ------------------------------------------------------------------------------------------------------------


def _list_remaining(home: str, projects: list[str], context: InstallContext) -> list[dict[str, str]]:
    """Return what stays on disk: path and what it is."""
    from lorelog.services.install.status import native_install

    remaining = []
    for project in projects:
        journals = Path(project, ".lorelog", "memory")
        if journals.is_dir():
            count = plural(sum(1 for _ in journals.glob("*.md")), "journal")
            remaining.append({"path": str(journals), "what": f"{count} of this project"})
    for name, what in _DATA.items():
        path = Path(home, name)
        if path.is_file() or (path.is_dir() and any(path.iterdir())):
            remaining.append({"path": str(path), "what": what})
    for host in HOSTS:
        native = native_install(host, context)
        if native:
            manager = f"{HOST_TITLES[host]}'s own plugin manager"
            remaining.append({"path": native, "what": f"installed by {manager}; remove it there"})
    return remaining


def _print_steps(steps: list[_RemovalStep], title: str) -> None:
    if not steps:
        print("There is nothing to remove.")
        return
    print(title)
    for step in steps:
        print(f"  {one_line(step.text)}")


def _print_report(
    args: argparse.Namespace, steps: list[_RemovalStep], report: _RemovalReport, remaining: list[dict[str, Any]]
) -> None:
    if args.dry_run:
        _print_steps(steps, "Would remove:")
    for problem in report.problems:
        print_problem(problem["path"], problem["message"], problem["hint"])
    if report.removed:
        left = f"; {plural(len(report.problems), 'thing')} left" if report.problems else ""
        print(f"Removed {len(report.removed):,} of {len(steps):,}{left}.")
    if remaining:
        print("Stays:" if not args.dry_run else "Would stay:" if not args.data else "There now:")
        for thing in remaining:
            print(f"  {short_path(thing['path'])}  ({thing['what']})")
        if not args.data:
            print("  'lorelog backup FILE' saves all of it; 'lorelog uninstall --data' deletes what is in the home.")
    print("The conversations that your agents keep were never lorelog's and stay, too.")
    print(f"The program itself: {removal_command()}")


def _format_size(path: Path) -> str:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file() and not file.is_symlink()]
    size = 0
    for file in files:
        try:
            size += file.stat().st_size
        except OSError:
            continue
    return f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{size / 1e3:,.1f} kB"
