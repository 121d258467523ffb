"""Calls of operations by commands, through the daemon if possible, otherwise in this process; and how replies are printed.

Only light parts of the standard library are imported on the warm path, where Python's own start takes most of the time.
"""

from __future__ import annotations

import gc
import os
import sys
from _thread import allocate_lock

from lorelog.core.errors import ConfigError, DaemonError, DaemonUnresponsive, UsageError
from lorelog.light.quick_json import dumps_indented
from lorelog.surfaces.cli.arguments import DAEMON_MODES, option_of_variable, request_of
from lorelog.surfaces.text import align, escape_controls, hang, known_width, one_line, short_path, stylize

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from lorelog.core.ports import Progress
    from lorelog.engine import Engine
    from lorelog.light.daemon_connection import DaemonAddress
    from lorelog.operations.dispatch import ClientIdentity, Dispatcher
    from lorelog.operations.operation import Json
    from lorelog.surfaces.cli.progress import ProgressLines
    from lorelog.wiring import ResourcePool


def call_command(args: argparse.Namespace, *, progress: Progress | None = None, **changes: Any) -> Any:
    """Call the operation of a derived command with its options and further arguments, and return its JSON."""
    request = {**request_of(args), **changes}
    return call_operation(
        args, args.derived["operation"], request, progress=progress, start_daemon=args.derived["warms"]
    )


def call_with_progress(args: argparse.Namespace, **changes: Any) -> Any:
    """Call the operation of a derived command as `call_command` does, and show its progress."""
    with progress_bar() as progress:
        return call_command(args, progress=progress, **changes)


def print_reply(args: argparse.Namespace, reply: Json, show: Callable[[Json, argparse.Namespace], object]) -> int:
    """Print a reply as JSON, or with `show` and then its notes. Return the exit status: 1 if it has problems or is not `ok`."""
    if args.json:
        print_json(reply)
    else:
        show(reply, args)
        print_notes(reply)
    has_failed = reply.get("problems") or not reply.get("ok", True) or not reply.get("searchable", True)
    return 1 if has_failed else 0


def print_json(value: Mapping[str, Any]) -> None:
    print(escape_controls(dumps_indented(value)))


def print_note(text: str) -> None:
    """Print a note to standard error."""
    for line in hang(one_line(f"note: {text}"), 2, known_width(sys.stderr)).split("\n"):
        print(stylize(line, "dim", sys.stderr), file=sys.stderr)


def print_notes(reply: Json) -> None:
    """Print the notes of a reply to standard error, once: a command that prints them earlier takes them out."""
    for text in reply.pop("notes", ()):
        print_note(text)


def show_fields(reply: Mapping[str, Any], args: argparse.Namespace | None = None) -> None:
    """Print a reply field by field: for commands that need no other layout."""
    for name, value in reply.items():
        if name == "notes" or value in (None, "", [], {}):
            continue
        label = name.replace("_", " ")
        if isinstance(value, list):
            print(f"{label}:")
            for item in value:
                print(f"  {_format_item(item)}")
        else:
            print(f"{label}: {_format_item(value)}")


def _format_item(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_format_item(item)}" for name, item in value.items() if item not in (None, "", []))
    if isinstance(value, list):
        return "; ".join(map(_format_item, value))
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else one_line(str(value))


def print_table(rows: Sequence[Sequence[str]], *, right: Container[int] = (), head: str = "dim") -> None:
    """Print rows in columns, with numbers in those of `right`. The first row is the head, unless its style is empty."""
    for number, cells in enumerate(align(rows, right)):
        text = "  ".join(cells).rstrip()
        print(text if number or not head else stylize(text, head))


def confirm(question: str, hint: str, *, default: bool = False) -> bool:
    """Ask a question at the terminal. Raise UsageError if it cannot be asked."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError("cannot ask for confirmation: standard input is not a terminal", hint=hint)
    print(f"{question} {'[Y/n]' if default else '[y/N]'} ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes", *([""] if default else [])}


def print_problem(path: str, message: str, hint: str) -> None:
    """Print a problem with a file to standard error."""
    short = short_path(path)
    text = one_line(message).replace(one_line(path), short)
    print(f"{stylize('problem:', 'red', sys.stderr)} {text if short in text else f'{short}: {text}'}", file=sys.stderr)
    if hint:
        print(f"  hint: {one_line(hint)}", file=sys.stderr)


def print_problems(problems: Iterable[Mapping[str, str]]) -> None:
    for problem in problems:
        print_problem(problem["path"], problem["message"], problem["hint"])


def call_operation(
    args: argparse.Namespace,
    op: str,
    arguments: Mapping[str, Any],
    *,
    progress: Progress | None = None,
    start_daemon: bool = False,
    client: OperationClient | None = None,
) -> Any:
    """Call one operation with the common options in `args`, and return its JSON."""
    client = client or OperationClient(getattr(args, "warm", None), start_daemon=start_daemon)
    variables = setting_variables(args)
    scope = {name: value for name in ("project", "tenant") if (value := getattr(args, name)) is not None}
    try:
        return client.call(op, {**arguments, **scope}, progress, environment=variables)
    except ConfigError as error:
        for name in variables:
            key, place, expected = error.message.partition(f" in the environment variable {name}")
            if place:
                key, _, value = key.partition(" is ")
                hint = error.hint or f"it sets {key} for one command"
                raise UsageError(f"{option_of_variable(name)} is {value}{expected}", hint=hint) from None
        raise


def progress_bar(*, daemon_finishes: bool = False) -> AbstractContextManager[Progress]:
    """Return a context with a progress callback: bars on a terminal, a line now and then elsewhere.

    `daemon_finishes`: the daemon continues the work if it is interrupted, and the user is told so.
    """
    from lorelog.surfaces.cli.progress import show_progress

    return show_progress(daemon_finishes=daemon_finishes)


def setting_variables(args: argparse.Namespace) -> dict[str, str]:
    """Return the settings that options of this command change, as variables (`arguments.add_setting_options`)."""
    return {name: value for name, value in vars(args).items() if value and name.startswith("LORELOG_")}


def daemon_mode(flag: str | None) -> str:
    """Return the daemon mode: from the flag, LORELOG_DAEMON_WARM, the user's settings, or `auto`."""
    mode = flag or os.environ.get("LORELOG_DAEMON_WARM") or _configured_mode()
    if mode not in DAEMON_MODES:
        raise ConfigError(f"the environment variable LORELOG_DAEMON_WARM is {mode!r}", hint="use auto, off or required")
    return mode


def launch_daemon(address: DaemonAddress, *, force: bool = False) -> None:
    """Start a daemon, and return when it listens. Raise DaemonError if it does not start.

    The first start of a home is announced on standard error, unless `force`: then --daemon required asked for it, also if one has just failed.
    """
    from lorelog.light.daemon_control import mark_announced, start

    start(address, force=force)
    if mark_announced(address) and not force:
        print(
            "Started a background process that keeps lorelog fast and indexes changed files.\n"
            "  to stop it: lorelog daemon stop\n"
            "  to never start it: lorelog config set daemon.warm off",
            file=sys.stderr,
        )


def wait_notice() -> Progress:
    """Return a progress callback that only says what is waited for."""
    lines: list[ProgressLines] = []

    def show(stage: str, done: int, total: int) -> None:
        if stage.startswith("waiting"):
            from lorelog.surfaces.cli.progress import ProgressLines

            lines[:] = lines or [ProgressLines()]
            lines[0].show(stage, done, total)

    return show


def tell_unresponsive(error: DaemonError) -> None:
    """Say on standard error that a daemon does not answer, if no command has said so yet."""
    if isinstance(error, DaemonUnresponsive) and error.first:
        print(f"{error.message[0].upper()}{error.message[1:]}; working without it.", file=sys.stderr)


def open_own_engine(args: argparse.Namespace) -> Engine:
    """Return an engine in this process: files are read and written with the user's permissions, not by a daemon."""
    from lorelog.wiring import open_engine, resolve_location

    location = resolve_location(project=args.project, tenant=args.tenant)
    return open_engine(location, {"scope.tenant": args.tenant})


class OperationClient:
    """Calls operations one after another. Once the daemon could not be used, it does the rest in this process.

    `shared` keeps engines and models open between calls; close the client then. With `returns` the daemon is tried again for every
    call: for a process that outlives a daemon. Threads may share such a client.
    """

    def __init__(
        self, warm: str | None, *, start_daemon: bool = False, shared: bool = False, returns: bool = False
    ) -> None:
        self._mode = daemon_mode(warm)
        self._start_daemon = start_daemon
        self._shared, self._returns = shared, returns
        self._opening = allocate_lock()
        self._dispatcher: Dispatcher | None = None
        self._resources: ResourcePool | None = None

    def call(
        self,
        op: str,
        arguments: Mapping[str, Any],
        progress: Progress | None = None,
        *,
        directory: str | None = None,
        environment: Mapping[str, str] | None = None,
        caller: Mapping[str, Any] = {},
    ) -> dict[str, Any]:
        """Call an operation and return its JSON. Raise LorelogError as the operation does.

        `directory` replaces the current directory; `environment` is added to the variables of this process; `caller` has further
        fields of a `ClientIdentity`.
        """
        if op.startswith("daemon."):  # for `lorelog daemon` only
            raise UsageError(f"there is no operation {op!r}", hint="'lorelog ops' lists the operations")
        variables = {**os.environ, **(environment or {})}
        progress = progress or wait_notice()
        if self._mode != "off" and (self._returns or self._dispatcher is None):
            from lorelog.light.daemon_client import call_daemon

            is_required = self._mode == "required"
            start = (
                (lambda address: launch_daemon(address, force=is_required))
                if is_required or self._start_daemon
                else None
            )
            try:
                return call_daemon(
                    op,
                    arguments,
                    directory=directory,
                    environment=variables,
                    caller=caller,
                    start=start,
                    progress=progress,
                )
            except DaemonError as error:
                if is_required:
                    raise
                tell_unresponsive(error)
        return self._call_here(op, arguments, progress, {**caller, "directory": directory, "environment": variables})

    def _call_here(
        self, op: str, arguments: Mapping[str, Any], progress: Progress | None, caller: dict[str, Any]
    ) -> dict[str, Any]:
        # A process of our own, of one command: see `main`. Counting takes .3 ms, so it is done once.
        if self._dispatcher is None and not self._returns and gc.get_freeze_count():
            # 700 by default: a search made 56 collections of objects that all live to its end, and at 50,000 one that took 20 ms.
            gc.set_threshold(300_000)
        _import_msgspec()
        from lorelog.operations.dispatch import ClientIdentity, Dispatcher
        from lorelog.wiring import ResourcePool, working_directory

        with self._opening:
            if self._dispatcher is None:
                self._resources = ResourcePool() if self._shared else None
                self._dispatcher = Dispatcher(self._resources.engine) if self._resources else Dispatcher()
        if caller["directory"] is None:
            caller["directory"] = working_directory()
        return self._dispatcher.call(op, arguments, ClientIdentity(**caller), progress)

    def call_for(
        self, op: str, arguments: Any, caller: ClientIdentity, progress: Progress | None = None, /
    ) -> dict[str, Any]:
        """Call an operation for another client, as `operations.dispatch.CallOperation` says."""
        fields = {name: getattr(caller, name) for name in ("own", "names_files", "agent")}
        environment = {**caller.environment, **({"LORELOG_HOME": caller.home} if caller.home else {})}
        return self.call(op, arguments, progress, directory=caller.directory, environment=environment, caller=fields)

    def unload_idle(self, idle_s: float) -> None:
        """Unload models that were not used for a while."""
        if self._resources is not None:
            self._resources.unload_idle(idle_s)

    def close(self) -> None:
        """Close shared engines and models."""
        if self._resources is not None:
            self._resources.close()


def _import_msgspec() -> None:
    """Import msgspec without `typing_extensions`, which it uses only if it is there: it loads `inspect`, 18 of 59 ms of CPU."""
    modules: dict[str, Any] = sys.modules
    if "typing_extensions" not in modules:
        modules["typing_extensions"] = None
        __import__("msgspec")
        del modules["typing_extensions"]


def _configured_mode() -> str:
    """Return daemon.warm. Settings are loaded only if config.toml contains the word: that takes as long as the rest."""
    from lorelog.light.daemon_connection import find_address

    home = find_address(None, None).home
    try:
        with open(f"{home}/config.toml", "rb") as file:
            if b"warm" not in file.read(1_000_000):
                return "auto"
    except OSError:
        return "auto"
    from pathlib import Path

    from lorelog.wiring import user_settings

    return user_settings(Path(home)).text("daemon.warm")
