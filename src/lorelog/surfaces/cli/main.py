"""Entry point of the CLI: find the command, run it, and turn exceptions into a message and an exit status.

Only the module of the given command is imported; `lorelog --help` imports none.
Exit status: 0 success, 1 failure, 2 usage error, 130 interrupted.
"""

from __future__ import annotations

import os
import sys

from lorelog.core.errors import LorelogError, UsageError
from lorelog.core.version import VERSION

# A warm search takes the time Python takes to start, and importing `typing` would be a tenth of that.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import NoReturn, Protocol

    class CommandModule(Protocol):
        """A module with a command. Its docstring is the command's help text."""

        def configure(self, parser: argparse.ArgumentParser) -> None:
            """Declare arguments and options."""

        def run(self, args: argparse.Namespace) -> int:
            """Run the command and return the exit status."""


COMMANDS = {
    "index": "Index Markdown files",
    "search": "Search memories and notes",
    "expand": "Show the full section around a search hit",
    "transcript": "Show the conversation that a memory came from",
    "list": "List memories or documents, newest first",
    "get": "Show one memory by its id",
    "add": "Add a memory to today's journal",
    "delete": "Hide a memory from search (its file is kept)",
    "forget": "Take text out for good, and prove it",
    "restore": "Restore a deleted memory, or a backup",
    "supersede": "Replace a memory with a new one",
    "expire": "Set a memory's expiry or review date",
    "feedback": "Mark a result as relevant or irrelevant to a query",
    "guard": "Check agents' tool calls against your corrections",
    "duplicates": "Find near-duplicate memories",
    "compact": "Summarize the project's memories, with citations",
    "task": "Start, update and search tasks",
    "decide": "Record a decision and its reason",
    "verify": "Confirm or dispute a record written by someone else",
    "artifact": "Show a record, its trust level and its history",
    "brief": "Summarize this project's tasks and decisions for a newcomer",
    "wiki": "Build, serve and check browsable pages of the records",
    "ledger": "Verify, export and import the ledger of records",
    "identity": "Manage the keys that sign records",
    "code": "Find definitions, references, callers and imports in code",
    "why": "Find earlier occurrences of an error and their fixes",
    "debug": "Show traced calls and errors; import logs",
    "roots": "Manage the indexed directories",
    "watch": "Index files as they change, in the foreground",
    "daemon": "Show, start, stop or restart the daemon",
    "agent-context": "Print the context an agent should read before it works",
    "session-start": "Update .lorelog/context.md (for agent hooks)",
    "init": "Set up a directory as a project",
    "deliveries": "Show which memories agents were shown and used",
    "hosts": "Install into Claude Code, Codex, OpenCode or OpenClaw",
    "hook": "Handle an event of an agent's host (run by hooks)",
    "serve": "Serve the HTTP API",
    "mcp": "Run an MCP server on standard input and output",
    "call": "Call an operation with JSON arguments",
    "batch": "Call many operations, one per line",
    "ops": "List the operations and their schemas",
    "doctor": "Check index, daemon and settings, and suggest fixes",
    "store": "Move the search index to another backend (files or Milvus)",
    "eval": "Measure search quality with your own queries",
    "stats": "Show index statistics",
    "cost": "Show the cost of model calls",
    "backup": "Write or check a backup of everything that cannot be rebuilt",
    "export": "Export memories as Markdown or JSON Lines",
    "reset": "Delete the index (never your files)",
    "config": "Show and change settings",
    "completion": "Print a shell completion script",
    "docs": "Read the documentation in the terminal",
}

ALIASES = {"warm": "daemon"}
"""Former names of commands, which still work but are not listed."""

GROUPS = {
    "index": "memories",
    "task": "records (tasks, decisions, reviews)",
    "code": "code and errors",
    "roots": "files and daemon",
    "agent-context": "agents",
    "serve": "programs",
    "doctor": "maintenance",
}
"""Headings of the overview, by the first command below each."""

USAGE = "usage: lorelog [--help] [--version] COMMAND ..."


def entry() -> NoReturn:
    """Run as a program and exit without tearing down the interpreter.

    Everything is closed and flushed by then. The teardown (mostly of numpy and tantivy) took 37 ms of a cold search of 297.
    """
    if sys.argv[1:2] == ["hook"] and not _wants_help(sys.argv[2:]):
        _run_hook(sys.argv[2:])
    # numpy's threads spin while they wait for each other: a search took 31 ms of CPU for 16 ms of work.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        status = main()
    except SystemExit as exit_request:  # argparse, after printing help
        status = exit_request.code if isinstance(exit_request.code, int) else 0
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    os._exit(status)


def _run_hook(words: Sequence[str]) -> NoReturn:
    """Run a hook. The host must always get JSON and exit status 0, even if lorelog's own files are broken."""
    try:
        from lorelog.surfaces.cli.hook import run_and_exit

        run_and_exit(words)
    except BaseException:  # noqa: BLE001
        try:
            os.write(1, b"{}\n")
        finally:
            os._exit(0)


def _wants_help(words: Sequence[str]) -> bool:
    return any(word in {"-h", "--help"} for word in words)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in words or words[:1] == ["call"]
    _force_utf8()
    try:
        return _dispatch(words)
    except LorelogError as error:
        return _print_error(error, as_json=as_json)
    except KeyboardInterrupt:
        print("\ninterrupted; finished work is kept. Run the command again to continue.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader closed the pipe (lorelog list | head). Without this, Python would print an error when it flushes at exit.
        _discard_output()
        return 0
    except OSError as error:
        if error.filename is None:  # printing failed
            _discard_output()
        message = f"{error.filename or 'cannot write the output'}: {error.strerror or error}"
        return _print_error(LorelogError(message), as_json=as_json and error.filename is not None)
    except Exception as error:
        if os.environ.get("LORELOG_DEBUG"):
            raise
        bug = LorelogError(
            f"internal error: {type(error).__name__}: {error}",
            hint="your files are unchanged; please report this with the traceback that LORELOG_DEBUG=1 shows",
        )
        return _print_error(bug, as_json=as_json)


def command_parser(name: str) -> argparse.ArgumentParser:
    """Return the parser of a command."""
    from lorelog.surfaces.cli.arguments import CommandHelpFormatter, CommandParser

    command = _load_command(name)
    description = (sys.modules[f"{__package__}.{_module_name(name)}"].__doc__ or "").strip()
    parser = CommandParser(
        prog=f"lorelog {name}",
        description=description,
        formatter_class=CommandHelpFormatter,
        allow_abbrev=False,
    )
    command.configure(parser)
    return parser


def format_overview() -> str:
    """Return the text of `lorelog --help`."""
    width = max(map(len, COMMANDS))
    lines = []
    for name, summary in COMMANDS.items():
        lines += ["", f"{GROUPS[name]}:"] if name in GROUPS else []
        lines.append(f"  {name:<{width}}  {summary}")
    return "\n".join(
        [
            USAGE,
            "",
            "Memory for coding agents, kept in plain Markdown files.",
            *lines,
            "",
            "options:",
            "  --help     show this message; use 'lorelog COMMAND --help' for a command",
            "  --version  show the version",
            "",
            "examples:",
            "  lorelog hosts install claude     install into Claude Code",
            "  lorelog index notes/             index a directory of Markdown files",
            '  lorelog search "why redis?"      search, with the source of each hit',
            '  lorelog add "…" --type decision  add a memory',
            "",
            "Settings: 'lorelog config list'. The index is in ~/.lorelog (set LORELOG_HOME",
            "to move it).",
        ]
    )


def _dispatch(words: list[str]) -> int:
    if not words:
        print(format_overview(), file=sys.stderr)
        return 2
    for word in words:
        if word.encode("utf-8", "replace").decode() != word:
            raise UsageError(f"{word!r} is not valid UTF-8")
    first = ALIASES.get(words[0], words[0])
    if first in {"-h", "--help", "help"}:
        print(format_overview())
        return 0
    if first in {"-V", "--version"}:
        print(f"lorelog {VERSION}")
        return 0
    if first not in COMMANDS:
        raise _unknown_command(words[0])
    if first == "hook" and not _wants_help(words[1:]):
        from lorelog.surfaces.cli.hook import run_hook

        return run_hook(words[1:])
    parser = command_parser(first)
    args = parser.parse_args(words[1:])
    try:
        status = _load_command(first).run(args)
    except UsageError as error:
        raise _name_option(error, parser, words[1:]) from None
    sys.stdout.flush()
    return status


def _name_option(error: UsageError, parser: argparse.ArgumentParser, words: Sequence[str]) -> UsageError:
    """Return an operation's error about a field as an error about the option: `-k must be at least 1 (got 0)`."""
    operation, _, rest = error.message.partition(": ")
    field, _, constraint = rest.partition(" ")
    if "." not in operation or not constraint.startswith(("must ", "is invalid")):
        return error
    actions = list(parser._actions)  # noqa: SLF001  (argparse has no public API for this)
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action.choices, dict):  # the verbs of the command
            verb = next(word for word in words if word in action.choices)
            actions += action.choices[verb]._actions  # noqa: SLF001
    for action in actions:
        if action.dest == field:
            name = action.option_strings[0] if action.option_strings else action.metavar or field
            return UsageError(f"{name} {constraint}", hint=f"{parser.prog} --help")
    return error


def _load_command(name: str) -> CommandModule:
    from importlib import import_module

    command: CommandModule = import_module(f"{__package__}.{_module_name(name)}")
    return command


def _module_name(name: str) -> str:
    return name.replace("-", "_")


def _unknown_command(word: str) -> UsageError:
    from difflib import get_close_matches

    near = get_close_matches(word, COMMANDS, n=1)
    hint = f"did you mean 'lorelog {near[0]}'?" if near else "'lorelog --help' lists the commands"
    return UsageError(f"there is no command {word!r}", hint=hint)


def _print_error(error: LorelogError, *, as_json: bool) -> int:
    if as_json:
        from lorelog.surfaces.cli.render import print_json

        print_json({"error": {"code": error.code, "message": error.message, "hint": error.hint}})
    else:
        from lorelog.surfaces.cli.render import one_line

        print(f"lorelog: {one_line(error.message)}", file=sys.stderr)
        if error.hint:
            print(f"  hint: {one_line(error.hint)}", file=sys.stderr)
    return 2 if isinstance(error, UsageError) else 1


def _discard_output() -> None:
    """Discard the remaining output, because its stream is closed."""
    from contextlib import suppress

    with suppress(OSError, ValueError):
        sys.stdout.flush()
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _force_utf8() -> None:
    """Print UTF-8 whatever the locale; characters that cannot be encoded become question marks."""
    # A closed stream is None: discard the output, as the caller asked for.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, PTH123
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
