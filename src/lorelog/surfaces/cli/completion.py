"""Print a shell completion script.

examples:
  lorelog completion bash > ~/.local/share/bash-completion/completions/lorelog
  lorelog completion zsh > ~/.zfunc/_lorelog
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

_COMPLETED = {"PATH": "FILE", "DIR": "DIRECTORY"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("shell", choices=["bash", "zsh", "tcsh"], help="which shell")


def run(args: argparse.Namespace) -> int:
    """Print the script for one shell."""
    import shtab

    parser = whole_parser()
    for action in _actions(parser):
        if isinstance(action.metavar, str) and action.metavar in _COMPLETED:
            action.complete = getattr(shtab, _COMPLETED[action.metavar])  # type: ignore[attr-defined]
    print(shtab.complete(parser, shell=args.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:  # noqa: SLF001  (argparse has no other way to ask)
        yield action
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for below in action.choices.values():
                yield from _actions(below)


def whole_parser() -> argparse.ArgumentParser:
    """Return one parser of all commands: for completion and the reference, never on the way to an answer."""
    from lorelog.surfaces.cli.main import COMMANDS, command_parser

    parser = argparse.ArgumentParser(prog="lorelog", allow_abbrev=False)
    parser.add_argument("--version", action="store_true", help="show the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, summary in COMMANDS.items():
        own = command_parser(name)
        commands.add_parser(name, help=summary, parents=[own], add_help=False, description=own.description)
    return parser
