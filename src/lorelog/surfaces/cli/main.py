"""Entry point of the CLI: find the command, run it, and turn exceptions into a message and an exit status.

Only the module of the given command is imported; `lorelog --help` imports none.
Exit status: 0 success, 1 failure, 2 usage error, 130 interrupted.
"""

from __future__ import annotations

import gc
import os
import sys

from lorelog.core.errors import LorelogError, UsageError
from lorelog.core.version import VERSION
from lorelog.surfaces.cli import entry, wants_help  # noqa: F401  (scripts of older versions import `entry` from here)

# A warm search takes the time Python takes to start, and importing `typing` would be a tenth of that.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import Protocol

    from lorelog.surfaces.cli.option_table import ParsedArguments
    from lorelog.surfaces.cli.parser import CommandParser

    class CommandModule(Protocol):
        """A module with a command. Its docstring is the command's help text."""

        def configure(self, parser: argparse.ArgumentParser) -> None:
            """Declare arguments and options."""

        def run(self, args: argparse.Namespace) -> int:
            """Run the command and return the exit status."""


COMMANDS_BY_GROUP = {
    "find and remember": {
        "search": "Search memories and notes",
        "show": "Show a memory, record or task by its id",
        "open": "Open a memory in your editor",
        "pick": "Search interactively, with a preview",
        "ui": "Open the page: everything in your browser",
        "add": "Add a memory to today's journal",
        "list": "List memories or documents, newest first",
        "why": "Find earlier occurrences of an error and their fixes",
        "delete": "Hide a memory from search (its file is kept)",
        "forget": "Take text out for good, and prove it",
        "restore": "Restore a deleted memory, or a backup",
        "transcript": "Show the conversation that a memory came from",
        "supersede": "Replace a memory with a new one",
        "expire": "Set a memory's expiry or review date",
        "feedback": "Mark a result as relevant or irrelevant to a query",
        "duplicates": "Find near-duplicate memories",
        "compact": "Summarize the project's memories, with citations",
    },
    "tasks and decisions": {
        "task": "Start, update and search tasks",
        "decide": "Record a decision and its reason",
        "verify": "Confirm or dispute a record written by someone else",
        "brief": "Summarize this project's tasks and decisions for a newcomer",
        "wiki": "Build, serve and check browsable pages of the records",
        "ledger": "Check the ledger of records",
        "identity": "Manage the keys that sign records",
    },
    "code and errors": {
        "code": "Find definitions, references, callers and imports in code",
        "debug": "Show traced calls and errors",
    },
    "agents": {
        "hosts": "Install into Claude Code, Codex, Gemini CLI and other agents",
        "backfill": "Make memories of earlier sessions of your agents",
        "deliveries": "Show which memories agents were shown and used",
        "guard": "Check agents' tool calls against your corrections",
        "handoff": "Print what the next agent needs of this session",
        "init": "Set up a directory as a project",
        "agent-context": "Print the context an agent should read before it works",
    },
    "setup": {
        "index": "Index Markdown files; list or remove indexed directories",
        "status": "Show how lorelog is doing here, on one screen",
        "doctor": "Check index, daemon and settings, and suggest fixes",
        "config": "Show and change settings",
        "daemon": "Show, start, stop or restart the daemon",
        "watch": "Index files as they change, in the foreground",
        "import": "Import memories of other tools, or from a file",
        "export": "Export memories and records",
        "backup": "Write or check a backup of everything that cannot be rebuilt",
        "sync": "Exchange memories with your other machines or a team, over Git",
        "reset": "Delete the index (never your files)",
        "uninstall": "Remove lorelog from this machine, except your memories",
        "store": "Move the search index to another backend (files or Milvus)",
        "eval": "Measure search quality with your own queries",
        "docs": "Read the documentation in the terminal",
        "completion": "Print a shell completion script",
        "help": "Explain a command, or list all of them",
    },
    "programs": {
        "serve": "Serve the HTTP API and the page",
        "mcp": "Run an MCP server on standard input and output",
        "call": "Call an operation with JSON arguments",
        "batch": "Call many operations, one per line",
        "ops": "List the operations and their schemas",
        "session-start": "Update .lorelog/context.md (for agent hooks)",
        "hook": "Handle an event of an agent's host (run by hooks)",
    },
}
"""Every command with its summary, by group, in the order of `lorelog help all`."""

COMMANDS = {name: summary for group in COMMANDS_BY_GROUP.values() for name, summary in group.items()}

FRONT_PAGE = {
    "find and remember": ("search", "show", "add", "list", "why", "delete", "forget"),
    "agents": ("hosts", "backfill", "deliveries"),
    "setup": ("index", "status", "doctor", "config"),
}
"""The commands of `lorelog --help`: the 14 that most people need."""

GLOBAL_OPTIONS = ("--project", "--tenant", "--daemon")
"""Options with a value that may also stand before the command. So may --json."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in words
    _force_utf8()
    try:
        words = move_global_options(words)
        as_json = as_json or words[:1] == ["call"]
        return _dispatch(words)
    except LorelogError as error:
        return _print_error(error, as_json=as_json)
    except KeyboardInterrupt as interrupt:
        text = str(interrupt) or "interrupted; finished work is kept. Run the command again to continue."
        print(f"\n{text}", file=sys.stderr)
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


def command_parser(name: str) -> CommandParser:
    """Return the parser of a command."""
    from lorelog.surfaces.cli.parser import CommandHelpFormatter, CommandParser

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


def parse_common(name: str, words: Sequence[str]) -> ParsedArguments | None:
    """Return the arguments of a command if its words are of the common kind that needs no argparse; otherwise None."""
    from lorelog.surfaces.cli.option_table import OptionTable

    table = OptionTable()
    _load_command(name).configure(table)  # type: ignore[arg-type]
    return table.parse(words)


def _dispatch(words: list[str]) -> int:
    for word in words:
        if word.encode("utf-8", "replace").decode() != word:
            raise UsageError(f"{word!r} is not valid UTF-8")
    if not words or words[0] in {"-h", "--help"}:
        from lorelog.surfaces.cli.help import format_front_page, format_welcome, is_new_home

        print(format_welcome() if not words and is_new_home() else format_front_page())
        return 0
    first = words[0]
    if first in {"-V", "--version", "version"}:
        _print_version(as_json="--json" in words)
        return 0
    if first not in COMMANDS:
        raise unknown_command(first)
    if first == "hook" and not wants_help(words[1:]):
        from lorelog.surfaces.cli.hook import run_hook

        return run_hook(words[1:])
    args = parse_common(first, words[1:]) or command_parser(first).parse_args(words[1:])
    if not gc.isenabled():  # see `entry`
        gc.freeze()
        gc.enable()
    try:
        status = _load_command(first).run(args)  # type: ignore[arg-type]
    except UsageError as error:
        raise _name_option(error, command_parser(first), words[1:]) from None
    sys.stdout.flush()
    return status


def _print_version(*, as_json: bool) -> None:
    if not as_json:
        print(f"lorelog {VERSION}")
        return
    from lorelog.surfaces.cli.render import print_json

    print_json({"version": VERSION})


def move_global_options(words: list[str]) -> list[str]:
    """Return the words with global options that precede the command moved behind its own."""
    moved: list[str] = []
    while len(moved) < len(words) and words[len(moved)].startswith("-"):
        option, equals, _ = words[len(moved)].partition("=")
        count = 1 if equals or option == "--json" else 2
        if option != "--json" and option not in GLOBAL_OPTIONS:
            break
        if len(words) <= len(moved) + count - 1:
            raise UsageError(f"{option} needs a value", hint="lorelog help options")
        moved += words[len(moved) : len(moved) + count]
    rest = words[len(moved) :]
    if moved and not rest:
        raise UsageError(f"a command must follow {' '.join(moved)}", hint="'lorelog --help' lists the commands")
    end = rest.index("--") if "--" in rest else len(rest)
    return [*rest[:end], *moved, *rest[end:]]


def _name_option(error: UsageError, parser: CommandParser, words: Sequence[str]) -> UsageError:
    """Return an operation's error about a field as an error about the option: `-k must be at least 1 (got 0)`."""
    operation, _, rest = error.message.partition(": ")
    field, _, constraint = rest.partition(" ")
    if error.hint != f"lorelog ops {operation}" or parser.prog in {"lorelog call", "lorelog batch"}:
        return error
    field = field.partition("[")[0]
    dests = {field, field.removesuffix("s"), *(["limit"] if field == "k" else [])}
    verb_parser = parser.innermost(words)
    hint = f"{verb_parser.prog} --help"
    actions = [*verb_parser._actions, *parser._actions]  # noqa: SLF001  (argparse has no public API for this)
    for action in actions:
        if action.dest in dests:
            typed = [option for option in action.option_strings if any(word.startswith(option) for word in words)]
            name = (typed or action.option_strings or [str(action.metavar or field)])[-1]
            return UsageError(f"{name} {constraint}", hint=hint)
    return UsageError(rest, hint=hint)


def _load_command(name: str) -> CommandModule:
    module = _module_name(name)
    command: CommandModule = __import__(f"{__package__}.{module}", fromlist=[module])  # `importlib` imports `warnings`
    return command


def _module_name(name: str) -> str:
    return _MODULE_NAMES.get(name) or name.replace("-", "_")


_MODULE_NAMES = {"import": "import_file"}
"""Modules that cannot have the name of their command."""


_OTHER_NAMES = {
    **dict.fromkeys(("find", "query", "grep", "recall"), "search"),
    **dict.fromkeys(("get", "cat", "view", "expand"), "show"),
    **dict.fromkeys(("remember", "save", "note"), "add"),
    **dict.fromkeys(("rm", "remove", "hide"), "delete"),
    **dict.fromkeys(("install", "setup"), "hosts install"),
    **dict.fromkeys(("info", "cost"), "status"),
    "ls": "list",
    "edit": "open",
    "undo": "restore",
    "purge": "forget",
    "roots": "index --list",
    "man": "docs",
    "settings": "config",
}
"""What other programs call these commands. The nearest spelling would be wrong: `forget` for `get`."""


def unknown_command(word: str) -> UsageError:
    """Return the error for a word that is no command, or no option that may precede one."""
    from lorelog.core.grammar import nearest_name

    if word.startswith("-"):
        near = nearest_name(word, (*GLOBAL_OPTIONS, "--json", "--help", "--version"))
        hint = f"did you mean {near}?" if near else "the options of a command follow it: lorelog COMMAND --help"
        return UsageError(f"lorelog has no option {word}", hint=hint)
    near = _OTHER_NAMES.get(word) or nearest_name(word, (*COMMANDS, "version"))
    hint = f"did you mean 'lorelog {near}'?" if near else "'lorelog help all' lists the commands"
    return UsageError(f"there is no command {word!r}", hint=hint)


def _print_error(error: LorelogError, *, as_json: bool) -> int:
    """Print an error and return the exit status, which is the same if nobody reads the message."""
    try:
        _write_error(error, as_json=as_json)
    except (OSError, ValueError):
        _discard_output()
    return 2 if isinstance(error, UsageError) else 1


def _write_error(error: LorelogError, *, as_json: bool) -> None:
    if as_json:
        from lorelog.surfaces.cli.render import print_json

        print_json({"error": {"code": error.code, "message": error.message, "hint": error.hint}})
        sys.stdout.flush()
    else:
        from lorelog.surfaces.cli.render import one_line

        _print_to_stderr("lorelog: ", one_line(error.message))
        if error.hint:
            _print_to_stderr("  hint: ", one_line(error.hint))


def _print_to_stderr(label: str, text: str) -> None:
    """Print a text, wrapped below its label if standard error is a terminal."""
    from lorelog.surfaces.cli.render.layout import known_width, wrap

    width = known_width(sys.stderr) if sys.stderr.isatty() else None
    lines = wrap(text, width=width - len(label)).split("\n") if width else [text]
    print(label + ("\n" + " " * len(label)).join(lines), file=sys.stderr)


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
