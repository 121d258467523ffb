"""The entry: find the command, let it run, turn what it raises into a message and an exit status.

Only the module of the command that was asked for is imported: `lorelog --help` loads nothing else.
Exit 0 success, 1 failure, 2 usage, 130 interrupted.
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

    class Command(Protocol):
        """What a command's module offers."""

        def configure(self, parser: argparse.ArgumentParser) -> None:
            """Declare arguments and options."""

        def run(self, args: argparse.Namespace) -> int:
            """Do it and return the exit status."""


COMMANDS = {
    "index": "Bring the index up to date with Markdown files",
    "search": "Find what was learned",
    "expand": "Show the whole section around a hit",
    "transcript": "Show the conversation that a memory came from",
    "list": "List memories or documents, newest first",
    "get": "Show one memory by its id",
    "add": "Remember something: append it to today's journal",
    "delete": "Hide a memory from every search (its file stays)",
    "restore": "Bring a deleted memory back",
    "supersede": "Put a new memory in the place of an old one",
    "expire": "Say until when a memory is shown",
    "feedback": "Say whether a memory answers a question",
    "duplicates": "Find memories that say nearly the same",
    "compact": "Sum up what the project remembers, with citations",
    "task": "Work on tasks, with a record of each step",
    "decide": "Record what was decided, and why",
    "verify": "Speak for another's record, or against it",
    "artifact": "Show a record, what it is worth, and its thread",
    "brief": "Tell what there is to know of this project, from its records",
    "wiki": "Browse what the records say: build, serve and lint its pages",
    "ledger": "Look the ledger of records over, export and import it",
    "identity": "Keep keys that prove who wrote a record",
    "code": "Ask what is in the code: definitions, references, callers, imports",
    "why": "Was this error seen before, and what fixed it?",
    "debug": "Show what was called and what went wrong, and take in logs",
    "roots": "Choose what is indexed and watched",
    "watch": "Follow files as they change",
    "warm": "Start, show or stop the daemon that keeps everything warm",
    "agent-context": "Put together what an agent should read before it works",
    "session-start": "Refresh .lorelog/context.md, for hooks of agents",
    "init": "Make a directory a project: a scope file, and a note for agents",
    "hosts": "Install into Claude Code, Codex, OpenCode and OpenClaw, and see whether capture works",
    "hook": "What an agent's host runs: note what happened, show what is remembered",
    "serve": "Serve HTTP on this machine",
    "mcp": "Speak MCP with an agent",
    "call": "Carry out an operation, JSON in and JSON out",
    "batch": "Carry out many operations, one a line",
    "ops": "List the operations and their schemas",
    "doctor": "Look over index, daemon and settings, and say what to do",
    "store": "Move what finds things to another store: files, Milvus",
    "eval": "Measure how well your own questions are answered",
    "stats": "Show what the index holds",
    "cost": "Show what models have cost",
    "reset": "Delete the index (never your files)",
    "config": "Show and change settings",
    "completion": "Print a shell completion script",
}

GROUPS = {
    "index": "memories",
    "task": "records (what was done, decided and checked)",
    "code": "code and errors",
    "roots": "files and the daemon",
    "agent-context": "agents",
    "serve": "programs",
    "doctor": "upkeep",
}
"""What the commands from each of these on are about."""

USAGE = "usage: lorelog [--help] [--version] COMMAND ..."


def entry() -> NoReturn:
    """Run as a program, and leave at once.

    Everything is closed and flushed by then. What the interpreter would still tear down took 37 ms of a cold search of
    297 (numpy's and tantivy's modules, mostly), and nobody would notice the difference but by waiting.
    """
    if sys.argv[1:2] == ["hook"] and not _asks_for_help(sys.argv[2:]):
        _be_hook(sys.argv[2:])
    # numpy's threads wait for each other by spinning: a search took 31 ms of CPU for 16 ms of work. People work beside us.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        status = main()
    except SystemExit as ended:  # argparse, after printing help
        status = ended.code if isinstance(ended.code, int) else 0
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    os._exit(status)


def _be_hook(words: Sequence[str]) -> NoReturn:
    """Answer an agent's host. It must hear JSON and see success whatever happens, also where our own files are broken."""
    try:
        from lorelog.surfaces.cli.hook import leave_with_answer

        leave_with_answer(words)
    except BaseException:  # noqa: BLE001
        try:
            os.write(1, b"{}\n")
        finally:
            os._exit(0)


def _asks_for_help(words: Sequence[str]) -> bool:
    return any(word in {"-h", "--help"} for word in words)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in words or words[:1] == ["call"]
    _speak_utf8()
    try:
        return _dispatch(words)
    except LorelogError as error:
        return _report(error, as_json=as_json)
    except KeyboardInterrupt:
        print("\ninterrupted: what was done is kept; run it again to go on", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader has seen enough (lorelog list | head). Python would complain once more when it flushes at exit.
        _drop_output()
        return 0
    except OSError as error:
        if error.filename is None:  # the printing itself failed
            _drop_output()
        what = f"{error.filename or 'the answer could not be written'}: {error.strerror or error}"
        return _report(LorelogError(what), as_json=as_json and error.filename is not None)
    except Exception as error:
        if os.environ.get("LORELOG_DEBUG"):
            raise
        fault = LorelogError(
            f"a fault of lorelog itself: {type(error).__name__}: {error}",
            hint="your files are untouched; LORELOG_DEBUG=1 shows where it happened, please report it",
        )
        return _report(fault, as_json=as_json)


def command_parser(name: str) -> argparse.ArgumentParser:
    """Return the parser of one command."""
    from lorelog.surfaces.cli.parsers import HelpLayout, Parser

    command = _load(name)
    description = (sys.modules[f"{__package__}.{_module(name)}"].__doc__ or "").strip()
    parser = Parser(
        prog=f"lorelog {name}",
        description=description,
        formatter_class=HelpLayout,
        allow_abbrev=False,
    )
    command.configure(parser)
    return parser


def overview() -> str:
    """Return what `lorelog --help` prints."""
    width = max(map(len, COMMANDS))
    lines = []
    for name, summary in COMMANDS.items():
        lines += ["", f"{GROUPS[name]}:"] if name in GROUPS else []
        lines.append(f"  {name:<{width}}  {summary}")
    return "\n".join(
        [
            USAGE,
            "",
            "Memory for coding agents: plain Markdown in, the right answer out.",
            *lines,
            "",
            "options:",
            "  --help     show this message; 'lorelog COMMAND --help' shows a command's own",
            "  --version  show the version",
            "",
            "examples:",
            "  lorelog index notes/            index a directory of Markdown",
            '  lorelog search "why redis?"     find what was learned, with its source',
            '  lorelog add "…" --type decision remember something',
            '  lorelog task start "goal"       begin a task, with a record of each step',
            "",
            "Settings: lorelog config list. The index lives in ~/.lorelog (LORELOG_HOME moves it).",
        ]
    )


def _dispatch(words: list[str]) -> int:
    if not words:
        print(overview(), file=sys.stderr)
        return 2
    for word in words:
        if word.encode("utf-8", "replace").decode() != word:
            raise UsageError(f"{word!r} is not valid UTF-8")
    first = words[0]
    if first in {"-h", "--help", "help"}:
        print(overview())
        return 0
    if first in {"-V", "--version"}:
        print(f"lorelog {VERSION}")
        return 0
    if first not in COMMANDS:
        raise _unknown(first)
    if first == "hook" and not _asks_for_help(words[1:]):
        from lorelog.surfaces.cli.hook import run_hook

        return run_hook(words[1:])
    args = command_parser(first).parse_args(words[1:])
    status = _load(first).run(args)
    sys.stdout.flush()
    return status


def _load(name: str) -> Command:
    from importlib import import_module

    command: Command = import_module(f"{__package__}.{_module(name)}")
    return command


def _module(name: str) -> str:
    return name.replace("-", "_")


def _unknown(word: str) -> UsageError:
    from difflib import get_close_matches

    near = get_close_matches(word, COMMANDS, n=1)
    hint = f"did you mean 'lorelog {near[0]}'?" if near else "'lorelog --help' lists the commands"
    return UsageError(f"there is no command {word!r}", hint=hint)


def _report(error: LorelogError, *, as_json: bool) -> int:
    if as_json:
        from lorelog.surfaces.cli.paper import print_json

        print_json({"error": {"code": error.code, "message": error.message, "hint": error.hint}})
    else:
        from lorelog.surfaces.cli.paper import one_line

        print(f"lorelog: {one_line(error.message)}", file=sys.stderr)
        if error.hint:
            print(f"  hint: {one_line(error.hint)}", file=sys.stderr)
    return 2 if isinstance(error, UsageError) else 1


def _drop_output() -> None:
    """Let what is still to be printed go nowhere: where it should go, nothing can."""
    from contextlib import suppress

    with suppress(OSError, ValueError):
        sys.stdout.flush()
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _speak_utf8() -> None:
    """Print what Markdown holds wherever it goes: a terminal that cannot show a character shows a question mark."""
    # A closed stream is None: what is printed to it goes nowhere, as the caller wished.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, PTH123
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
