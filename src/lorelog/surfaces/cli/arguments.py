"""Argument parsing: argparse with our errors and help layout, and the options that several commands share.

Separate from `main`, so that hooks do not import argparse.
"""

from __future__ import annotations

import argparse
import sys

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.client import add_daemon_option

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, NoReturn


class CommandParser(argparse.ArgumentParser):
    """Raises usage errors instead of printing them and exiting, so that they look like all other errors."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(message, hint=f"{self.prog} --help")


class CommandHelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Wraps the paragraphs of a help text to the terminal, and keeps indented lines such as examples as they are."""

    def __init__(self, prog: str, indent_increment: int = 2, max_help_position: int = 24, width: int = 0) -> None:
        """Ask for the terminal's width only if help is printed: importing `shutil` takes 4 ms."""
        if not width and any(word in sys.argv for word in ("-h", "--help")):
            import shutil

            width = min(shutil.get_terminal_size().columns - 2, _MAX_HELP_WIDTH)
        super().__init__(prog, indent_increment, max_help_position, width or _HELP_WIDTH)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        from textwrap import fill

        def wrap(paragraph: str) -> str:
            return paragraph if "\n  " in paragraph else fill(" ".join(paragraph.split()), width)

        wrapped = "\n\n".join(wrap(paragraph) for paragraph in text.split("\n\n"))
        return super()._fill_text(wrapped, width, indent)


_HELP_WIDTH = 78
_MAX_HELP_WIDTH = 100
ORIGINS = ("user", "agent", "tool", "import")
LANES = ("hybrid", "lexical", "dense")
FUSIONS = ("convex", "rrf")


def add_common(
    parser: argparse.ArgumentParser,
    *,
    project: str = "use the project of DIR instead of the current directory",
    with_scope: bool = True,
) -> None:
    """Declare --json and --project; with `with_scope`, for commands that call operations, also --tenant and --warm.

    `project` is the help text of --project.
    """
    parser.add_argument("--json", action="store_true", help="print JSON (docs/json.md) instead of text")
    parser.add_argument("--project", metavar="DIR", help=project)
    if with_scope:
        add_scope_options(parser)


def add_verb(parser: argparse.ArgumentParser, verbs: Any, name: str, help_text: str) -> argparse.ArgumentParser:
    """Declare a verb of a command, with the command's formatter: argparse's default one imports `shutil`."""
    verb: argparse.ArgumentParser = verbs.add_parser(
        name, help=help_text, formatter_class=parser.formatter_class, allow_abbrev=False
    )
    return verb


def add_scope_options(parser: argparse.ArgumentParser) -> None:
    """Declare --tenant and --warm."""
    add_tenant_option(parser)
    add_daemon_option(parser)


def add_tenant_option(parser: argparse.ArgumentParser) -> None:
    """Declare --tenant."""
    parser.add_argument("--tenant", metavar="NAME", help="use another tenant's memories (scope.tenant)")


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Declare the filters of `search` and `list`."""
    group = parser.add_argument_group("filters")
    group.add_argument("--all-projects", action="store_true", help="include the memories of all projects")
    group.add_argument("--source", metavar="PATH", help="only files at or below PATH")
    group.add_argument(
        "--since", metavar="DAY", help="on or after DAY: 2026-03-05, today, yesterday, or 7d, 2w, 3m, 1y (ago)"
    )
    group.add_argument("--until", metavar="DAY", help="on or before DAY")
    group.add_argument(
        "--type", action="append", default=[], metavar="TYPE", help="only this type (repeatable: any of them matches)"
    )
    group.add_argument(
        "--tag", action="append", default=[], metavar="TAG", help="only with this tag (repeatable: all must match)"
    )


def add_lifecycle_filters(parser: argparse.ArgumentParser) -> None:
    """Declare --include-superseded and --include-expired."""
    parser.add_argument("--include-superseded", action="store_true", help="include superseded memories")
    parser.add_argument("--include-expired", action="store_true", help="include expired memories")


def lifecycle_filters_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the lifecycle filters as arguments of an operation."""
    return {"include_superseded": args.include_superseded, "include_expired": args.include_expired}


def add_record_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of every command that writes a record."""
    parser.add_argument("--as", dest="agent", metavar="AGENT", help="writer of the record (records.agent)")
    parser.add_argument("--session", metavar="ID", help="session of the record")
    parser.add_argument("--origin", choices=ORIGINS, help="origin of the text (default agent); tool output is tainted")
    add_common(parser)


def record_options_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the record options as arguments of an operation."""
    return {"agent_id": args.agent, "session_id": args.session, "origin": args.origin}


def add_repeatable(parser: argparse.ArgumentParser, option: str, help_text: str, *, metavar: str = "TEXT") -> None:
    """Declare an option that may be given more than once."""
    parser.add_argument(option, action="append", default=[], metavar=metavar, help=f"{help_text} (repeatable)")


def add_host(parser: argparse.ArgumentParser) -> None:
    """Declare the HOST argument."""
    parser.add_argument("host", metavar="HOST", help="claude, codex, opencode or openclaw")


def parse_host(word: str) -> str:
    """Return the canonical name of a host. Raise UsageError if it is unknown."""
    from lorelog.hosts import HOSTS, resolve_host

    host = resolve_host(word)
    if not host:
        raise UsageError(f"there is no host {word!r}", hint=f"one of {', '.join(HOSTS)}")
    return host


def expand_path(path: str) -> str:
    """Return a path with `~` expanded here, because the daemon's HOME may differ. A leading `!` is kept."""
    import os

    mark, bare = ("!", path[1:]) if path.startswith("!") else ("", path)
    return mark + os.path.expanduser(bare)  # noqa: PTH111  (may not be a path yet)


def expand_paths(paths: list[str]) -> list[str]:
    """Return paths with `~` expanded, as by `expand_path`."""
    return [expand_path(path) for path in paths]


def filters_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the filters as arguments of an operation."""
    return {
        "all_projects": args.all_projects,
        "source": args.source and expand_path(args.source),
        "since": args.since,
        "until": args.until,
        "types": args.type,
        "tags": args.tag,
    }
