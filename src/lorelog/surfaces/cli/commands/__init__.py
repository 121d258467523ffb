"""The commands: what each is for, the module that renders it, the options that are derived from its operation, and the help pages.

A command `x` is a function `run_x(args)` of its module, or `show_x(reply, args)` if it only shows the reply of its operation. A verb
is named like its words: `show_task_start`. The docstring of the first of these functions is the help text; that of a command
with verbs is in `HELP` of its module, if no function of it has one. `ARGUMENTS` of the module has options that no field
of the request has (`arguments.add_options`), `configure_x(parser)` those that a table cannot say. The reply of a command without any of them is
printed field by field.
"""

from __future__ import annotations

import os

from lorelog.core.errors import UsageError, nearest_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import ModuleType
    from typing import Any

COMMANDS_BY_GROUP = {
    "find and remember": {
        "search": "Search memories and notes",
        "show": "Show a memory, record or task by its id",
        "open": "Open a memory in your editor",
        "ui": "Open the page: everything in your browser",
        "add": "Add a memory to today's journal",
        "list": "List memories or documents, newest first",
        "why": "Find earlier occurrences of an error and their fixes",
        "delete": "Hide a memory from search (its file is kept)",
        "undo": "Take back the last thing that you did",
        "forget": "Erase text permanently and verify that it is gone",
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
        "how": "Show the commands that worked here for a purpose",
        "friction": "Show the walls that sessions keep running into",
        "check": "Say what a change runs against: guards, rules, memories, earlier reverts",
    },
    "agents": {
        "hosts": "Install into Claude Code, Codex, Gemini CLI and other agents",
        "backfill": "Make memories of earlier sessions of your agents",
        "pause": "Keep a session out of memory, and resume it",
        "review": "File what you said: as rules, decisions, or nothing",
        "deliveries": "Show which memories agents were shown and used",
        "rules": "Compare rules with what agents did: followed, broken, corrected",
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
        "store": "Delete the search index from a Milvus you no longer use",
        "eval": "Measure search quality with your own queries",
        "docs": "Read the documentation in the terminal",
        "completion": "Print a shell completion script",
        "help": "Explain a command, or list all of them",
    },
    "programs": {
        "serve": "Serve the HTTP API and the page",
        "mcp": "Run an MCP server on standard input and output",
        "lsp": "Run a language server for your editor",
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


_MODULES = {
    "search": ("search", "list", "duplicates"),
    "changes": ("add", "supersede", "delete", "restore", "expire", "feedback", "undo", "forget", "compact"),
    "show": ("show", "transcript", "open"),
    "records": ("task", "decide", "verify", "brief", "ledger", "wiki", "identity"),
    "code": ("code", "debug", "why", "how", "friction"),
    "review": ("review",),
    "check": ("check",),
    "agents": ("deliveries", "rules", "handoff", "init", "agent-context", "session-start", "guard", "backfill"),
    "hosts": ("hosts", "pause", "uninstall"),
    "index": ("index", "watch", "reset", "store", "eval"),
    "status": ("status", "doctor", "daemon"),
    "transfer": ("export", "backup", "import", "sync"),
    "programs": ("call", "batch", "ops", "mcp", "lsp", "serve", "ui"),
    "guide": ("docs", "completion", "help", "config"),
}
"""The commands of each module below this package."""

DEFAULT_VERBS = {
    **dict.fromkeys(("task", "identity", "guard", "config", "review"), "list"),
    **dict.fromkeys(("code", "hosts", "daemon"), "status"),
    "ledger": "check",
    "debug": "errors",
    "status": "overview",
}
"""The verb of a command that is given none."""

OPTIONS_FILE = f"{__path__[0].removesuffix('commands')}options.jsonl"
"""The options of every command that calls an operation, one JSON line each; `scripts/generate_reference.py` writes it."""


def load_module(name: str) -> ModuleType | None:
    """Return the module of a command; None for one that needs none."""
    if name == "hook":
        return __import__("lorelog.surfaces.hook", fromlist=["run"])
    module = next((module for module, names in _MODULES.items() if name in names), "")
    return __import__(f"{__name__}.{module}", fromlist=["run"]) if module else None  # `importlib` imports `warnings`


def find_function(words: str, prefix: str) -> Callable[..., Any] | None:
    """Return the function of a command or verb, such as `show_task_start`."""
    module = load_module(words.partition(" ")[0])
    found: Callable[..., Any] | None = getattr(module, f"{prefix}_{words.replace(' ', '_').replace('-', '_')}", None)
    return found


def read_derived(name: str) -> dict[str, Any]:
    """Return what is derived for a command and its verbs, by their words."""
    from lorelog.light.quick_json import loads

    with open(OPTIONS_FILE, encoding="utf-8") as file:
        starts = (f'{{"words":"{name}"', f'{{"words":"{name} ')
        commands = [loads(line) for line in file if line.startswith(starts)]
    return {command["words"]: command for command in commands}


_OTHER_NAMES = {
    **dict.fromkeys(("find", "query", "grep", "recall"), "search"),
    **dict.fromkeys(("get", "cat", "view", "expand"), "show"),
    **dict.fromkeys(("remember", "save", "note"), "add"),
    **dict.fromkeys(("rm", "remove", "hide"), "delete"),
    **dict.fromkeys(("install", "setup"), "hosts install"),
    **dict.fromkeys(("info", "cost"), "status"),
    "ls": "list",
    "edit": "open",
    "purge": "forget",
    "roots": "index --list",
    "man": "docs",
    "warm": "daemon",
    "memory-md": "agent-context",
    "export-markdown": "export",
    "export-omf": "export --format omf",
    "import-omf": "import",
    "consolidate": "compact",
    "maintenance": "doctor",
    "settings": "config",
}
"""What other programs call these commands. The nearest spelling would be wrong: `forget` for `get`."""


def unknown_command(word: str) -> UsageError:
    """Return the error for a word that is neither a command nor an option that may precede one."""
    if word.startswith("-"):
        near = nearest_name(word, (*GLOBAL_OPTIONS, "--json", "--help", "--version"))
        hint = f"did you mean {near}?" if near else "the options of a command follow it: lorelog COMMAND --help"
        return UsageError(f"lorelog has no option {word}", hint=hint)
    near = _OTHER_NAMES.get(word) or nearest_name(word, (*COMMANDS, "version"))
    hint = f"did you mean 'lorelog {near}'?" if near else "'lorelog help all' lists the commands"
    return UsageError(f"there is no command {word!r}", hint=hint)


# `textwrap` and `shutil` are not used: importing them takes longer than all else that `lorelog --help` does.

_DEFAULT_COLUMNS = 80
_MIN_COLUMNS, _MAX_COLUMNS = 40, 120
_USAGE = "usage: lorelog [GLOBAL OPTIONS] COMMAND ..."
_ABOUT = "Memory for coding agents, kept in plain Markdown files."


def is_new_home() -> bool:
    """Return whether nothing was remembered or indexed in this home yet."""
    from lorelog.core.paths import data_folder, home_folder

    return not os.path.exists(data_folder(home_folder(os.environ.get("LORELOG_HOME", ""))))


def format_welcome() -> str:
    """Return what `lorelog` alone prints in a new home."""
    return (
        "lorelog: memory for coding agents, in Markdown files\n"
        "  lorelog hosts install   set up the agents found here\n"
        "  lorelog backfill        get weeks of memory at once\n"
        '  lorelog search "..."    find any of it'
    )


def format_front_page() -> str:
    """Return the text of `lorelog --help`."""
    groups = {title: {name: COMMANDS[name] for name in names} for title, names in FRONT_PAGE.items()}
    more = '"lorelog help all" lists every command; "lorelog help COMMAND" explains one.'
    return "\n".join([_USAGE, "", _ABOUT, *_format_groups(groups), "", *wrap(more, text_width())])


def format_all_commands() -> str:
    """Return the text of `lorelog help all`."""
    more = (
        '"lorelog help COMMAND" explains one, "lorelog help options" the options that all of them take. '
        '"lorelog version" prints the version.'
    )
    return "\n".join([_USAGE, "", _ABOUT, *_format_groups(COMMANDS_BY_GROUP), "", *wrap(more, text_width())])


def format_global_options() -> str:
    """Return the text of `lorelog help options`."""
    about = "These options may stand before or after the command, and with every command that works on memories."
    options = {
        "--project DIR": "use the project of DIR instead of the current directory",
        "--tenant NAME": "use another tenant's memories (setting scope.tenant)",
        "--daemon MODE": "use the daemon if possible (auto), never (off), or fail without it (required); "
        "setting daemon.warm",
        "--json": "print JSON instead of text (lorelog docs json)",
        "-h, --help": "explain the command",
    }
    variables = {
        "LORELOG_HOME": "where lorelog keeps its data and the index (default ~/.lorelog)",
        "NO_COLOR": "print without colour",
        "LORELOG_DEBUG": "print a traceback for internal errors",
    }
    return "\n".join(
        [
            *wrap(about, text_width()),
            *_format_groups({"global options": options, "environment": variables}),
            "",
            *wrap("Every setting also has a variable: 'lorelog config list'.", text_width()),
        ]
    )


def _format_groups(groups: Mapping[str, Mapping[str, str]]) -> Iterable[str]:
    """Yield two aligned columns below a heading for each group."""
    indent = max(len(name) for group in groups.values() for name in group) + 4
    for title, group in groups.items():
        yield from ("", f"{title}:")
        for name, summary in group.items():
            first, *rest = wrap(summary, text_width() - indent)
            yield f"  {name:<{indent - 2}}{first}"
            yield from (" " * indent + line for line in rest)


def wrap(text: str, width: int) -> list[str]:
    """Return the lines of a paragraph. A word longer than the width has a line of its own."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".lstrip()
    return lines


def text_width() -> int:
    """Return the width of help texts: that of the terminal, within limits, less a margin."""
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() else 0
    if not width:
        try:
            width = os.get_terminal_size(1).columns
        except OSError:  # not a terminal
            width = 0
    return max(_MIN_COLUMNS, min(width or _DEFAULT_COLUMNS, _MAX_COLUMNS)) - 2
