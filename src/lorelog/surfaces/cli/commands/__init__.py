"""The commands: what each is for, the module that renders it, and the options that are derived from its operation.

A command `x` is a function `run_x(args)` of its module, or `show_x(reply, args)` if it only shows the reply of its operation;
`configure_x(parser)` declares options that no field of the request has. A verb is named like its words: `show_task_start`.
The docstring of the first of these functions is the help text; that of a command with verbs is its module's. The reply of a
command without any of them is printed field by field. A module of one command that calls no operation of its own declares
all of it in `configure(parser)` and `run(args)`; its docstring is the help text.
"""

from __future__ import annotations

from lorelog.core.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

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


_MODULES = {
    **dict.fromkeys(("search", "list", "duplicates"), "find.search"),
    **dict.fromkeys(("add", "supersede", "delete", "restore", "expire", "feedback"), "find.changes"),
    **dict.fromkeys(("show", "transcript", "open"), "find.show"),
    "pick": "find.pick",
    **dict.fromkeys(("forget", "compact"), "find.forget"),
    "task": "records.task",
    **dict.fromkeys(("decide", "verify", "brief", "ledger"), "records.records"),
    "wiki": "records.wiki",
    "identity": "records.identity",
    "code": "code.code",
    **dict.fromkeys(("debug", "why"), "code.debug"),
    **dict.fromkeys(("deliveries", "handoff", "init", "agent-context", "session-start"), "agents.context"),
    "hosts": "agents.hosts",
    "backfill": "agents.backfill",
    "guard": "agents.guard",
    **dict.fromkeys(("index", "watch", "reset", "store"), "setup.index"),
    **dict.fromkeys(("doctor", "daemon"), "setup.doctor"),
    **dict.fromkeys(("export", "backup"), "setup.export"),
    "status": "setup.status",
    "config": "setup.config",
    "eval": "setup.eval",
    "import": "setup.import_file",
    "sync": "setup.sync",
    "uninstall": "setup.uninstall",
    **dict.fromkeys(("serve", "ui"), "programs.serve"),
    **dict.fromkeys(("call", "batch", "ops", "mcp"), "programs.operations"),
    **dict.fromkeys(("docs", "completion", "help"), "setup.guide"),
}
"""The module of each command, below this package."""

DEFAULT_VERBS = {
    **dict.fromkeys(("task", "identity", "guard", "config"), "list"),
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
    path = _MODULES.get(name)
    return __import__(f"{__name__}.{path}", fromlist=["run"]) if path else None  # `importlib` imports `warnings`


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
    "undo": "restore",
    "purge": "forget",
    "roots": "index --list",
    "man": "docs",
    "settings": "config",
}
"""What other programs call these commands. The nearest spelling would be wrong: `forget` for `get`."""


def unknown_command(word: str) -> UsageError:
    """Return the error for a word that is neither a command nor an option that may precede one."""
    from lorelog.core.errors import nearest_name

    if word.startswith("-"):
        near = nearest_name(word, (*GLOBAL_OPTIONS, "--json", "--help", "--version"))
        hint = f"did you mean {near}?" if near else "the options of a command follow it: lorelog COMMAND --help"
        return UsageError(f"lorelog has no option {word}", hint=hint)
    near = _OTHER_NAMES.get(word) or nearest_name(word, (*COMMANDS, "version"))
    hint = f"did you mean 'lorelog {near}'?" if near else "'lorelog help all' lists the commands"
    return UsageError(f"there is no command {word!r}", hint=hint)
