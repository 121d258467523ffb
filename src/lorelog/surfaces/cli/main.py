"""Entry point of the CLI: find the command, run it, and turn exceptions into a message and an exit status.

Only the module of the given command is imported; `lorelog --help` imports none.
Exit status: 0 success, 1 failure, 2 usage error, 130 interrupted.
"""

from __future__ import annotations

import gc
import os
import sys

from lorelog.core.errors import LorelogError, UsageError
from lorelog.surfaces.cli.commands import COMMANDS, GLOBAL_OPTIONS, find_function, read_derived, unknown_command

# A warm search takes the time Python takes to start, and importing `typing` would be a tenth of that.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from lorelog.surfaces.cli.parser import CommandParser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in words
    # Print UTF-8 whatever the locale. A closed stream is None: discard the output, as the caller asked for.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
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


def parse_common(name: str, words: Sequence[str]) -> Any | None:
    """Return the arguments of a command if its words are of the common kind that needs no argparse; otherwise None."""
    from lorelog.surfaces.cli.arguments import OptionTable, declare

    table = OptionTable()
    derived = declare(table, name)
    args = table.parse(words)
    return args and _with_command(args, name, derived)


def parse_arguments(name: str, words: Sequence[str]) -> Any:
    """Return the arguments of a command. Raise UsageError, or print the help and exit."""
    args = parse_common(name, words)
    if args is None:
        from lorelog.surfaces.cli.parser import command_parser

        args = _with_command(command_parser(name).parse_args(words), name, read_derived(name))
    return args


def _with_command(args: Any, name: str, derived: dict[str, Any]) -> Any:
    """Add the words of the command and what is derived for it."""
    values = vars(args)
    values["command_words"] = words = f"{name} {values['verb']}" if values.get("verb") else name
    values["derived"] = derived.get(words)
    return args


def run_command(args: Any) -> int:
    name = args.command_words.partition(" ")[0]
    run = find_function(args.command_words, "run") or find_function(name, "run")
    if run:
        status: int = run(args)
        return status
    from lorelog.surfaces.cli.client import call_command, print_reply, show_fields

    return print_reply(args, call_command(args), find_function(args.command_words, "show") or show_fields)


def _dispatch(words: list[str]) -> int:
    for word in words:
        if word.encode("utf-8", "replace").decode() != word:
            raise UsageError(f"{word!r} is not valid UTF-8")
    if not words or words[0] in {"-h", "--help"}:
        from lorelog.surfaces.cli.commands import format_front_page, format_welcome, is_new_home

        print(format_welcome() if not words and is_new_home() else format_front_page())
        return 0
    first = words[0]
    if first in {"-V", "--version", "version"}:
        from lorelog.core import VERSION

        if "--json" in words:
            from lorelog.surfaces.cli.client import print_json

            print_json({"version": VERSION})
        else:
            print(f"lorelog {VERSION}")
        return 0
    if first not in COMMANDS and not read_derived(first):
        raise unknown_command(first)
    if first == "hook" and not {"-h", "--help"}.intersection(words[1:]):
        from lorelog.surfaces.hook import run_hook

        return run_hook(words[1:])
    args = parse_arguments(first, words[1:])
    if not gc.isenabled():  # a process of our own: see `entry`
        gc.freeze()
        gc.enable()
    try:
        status = run_command(args)
    except UsageError as error:
        from lorelog.surfaces.cli.parser import command_parser

        raise _name_option(error, command_parser(first), words[1:]) from None
    sys.stdout.flush()
    return status


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
    verb_parser = parser.innermost([*words, parser.default_verb])
    hint = f"{verb_parser.prog} --help"
    actions = [*verb_parser._actions, *parser._actions]
    for action in actions:
        if action.dest == field:
            typed = [option for option in action.option_strings if any(word.startswith(option) for word in words)]
            name = (typed or action.option_strings or [str(action.metavar or field)])[-1]
            return UsageError(f"{name} {constraint}", hint=hint)
    return UsageError(rest, hint=hint)


def _print_error(error: LorelogError, *, as_json: bool) -> int:
    """Print an error and return the exit status, which is the same if its stream is closed."""
    from lorelog.surfaces.cli.client import print_json
    from lorelog.surfaces.text import hang, known_width, one_line

    try:
        if as_json:
            print_json({"error": {"code": error.code, "message": error.message, "hint": error.hint}})
            sys.stdout.flush()
        else:
            width = known_width(sys.stderr) if sys.stderr.isatty() else None
            print("lorelog: " + hang(one_line(error.message), 9, width), file=sys.stderr)
            if error.hint:
                print("  hint: " + hang(one_line(error.hint), 8, width), file=sys.stderr)
    except (OSError, ValueError):
        _discard_output()
    return 2 if isinstance(error, UsageError) else 1


def _discard_output() -> None:
    """Discard the remaining output, because its stream is closed."""
    from contextlib import suppress

    with suppress(OSError, ValueError):
        sys.stdout.flush()
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
