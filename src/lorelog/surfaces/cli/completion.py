"""Print a shell completion script.

examples:
  lorelog completion bash > ~/.local/share/bash-completion/completions/lorelog
  lorelog completion zsh > ~/.zfunc/_lorelog
  lorelog completion fish > ~/.config/fish/completions/lorelog.fish
  lorelog completion powershell >> $PROFILE
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")
_METAVAR_COMPLETIONS = {"PATH": "FILE", "DIR": "DIRECTORY"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("shell", choices=SHELLS, help="name of the shell")


def run(args: argparse.Namespace) -> int:
    """Print the script for one shell."""
    import shtab

    parser = build_full_parser()
    for action in _iter_actions(parser):
        if isinstance(action.metavar, str) and action.metavar in _METAVAR_COMPLETIONS:
            action.complete = getattr(shtab, _METAVAR_COMPLETIONS[action.metavar])  # type: ignore[attr-defined]
    print(shtab.complete(parser, shell=args.shell))
    return 0


def _iter_actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:  # noqa: SLF001  (argparse has no public API for this)
        yield action
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for subparser in action.choices.values():
                yield from _iter_actions(subparser)


def build_full_parser() -> argparse.ArgumentParser:
    """Return one parser of all commands, for completion. Commands themselves never build it."""
    from lorelog.surfaces.cli.arguments import add_project_option, add_tenant_option
    from lorelog.surfaces.cli.client import add_daemon_option
    from lorelog.surfaces.cli.main import COMMANDS, command_parser

    parser = argparse.ArgumentParser(prog="lorelog", allow_abbrev=False)
    parser.add_argument("--version", action="store_true", help="show the version")
    for option in (add_project_option, add_tenant_option, add_daemon_option):
        option(parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, summary in COMMANDS.items():
        own = command_parser(name)
        commands.add_parser(name, help=summary, parents=[own], add_help=False, description=summary)
    return parser
