"""Arguments that several commands share, and what they ask for."""

from __future__ import annotations

from lorelog.surfaces.cli.asking import add_warm

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

LANES = ("hybrid", "lexical", "dense")
FUSIONS = ("convex", "rrf")


def add_common(
    parser: argparse.ArgumentParser,
    *,
    project: str = "stand in another project than the current directory's",
    asks: bool = True,
) -> None:
    """Declare what every command takes; `project` says what standing in another one means for it.

    A command that asks for operations also says whose memories it means, and whether it goes through the daemon.
    """
    parser.add_argument("--json", action="store_true", help="print JSON (docs/json.md) instead of text")
    parser.add_argument("--project", metavar="DIR", help=project)
    if asks:
        add_asking(parser)


def add_verb(parser: argparse.ArgumentParser, verbs: Any, name: str, says: str) -> argparse.ArgumentParser:
    """Declare a verb of a command, laid out as the command is: argparse's own layout loads more than an answer needs."""
    verb: argparse.ArgumentParser = verbs.add_parser(
        name, help=says, formatter_class=parser.formatter_class, allow_abbrev=False
    )
    return verb


def add_asking(parser: argparse.ArgumentParser) -> None:
    """Declare whose memories are meant, and whether the daemon is to be asked."""
    parser.add_argument("--tenant", metavar="NAME", help="whose memories (scope.tenant); nothing crosses tenants")
    add_warm(parser)


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Declare the filters of search and list."""
    group = parser.add_argument_group("filters")
    group.add_argument("--all-projects", action="store_true", help="look beyond this project and the global memories")
    group.add_argument("--source", metavar="PATH", help="only files at or below this path")
    group.add_argument(
        "--since", metavar="DAY", help="from this day on: 2026-03-05, today, yesterday, or 7d, 2w, 3m, 1y ago"
    )
    group.add_argument("--until", metavar="DAY", help="up to and including this day")
    group.add_argument(
        "--type", action="append", default=[], metavar="TYPE", help="only this type (repeatable: any of them)"
    )
    group.add_argument(
        "--tag", action="append", default=[], metavar="TAG", help="only with this tag (repeatable: all of them)"
    )


def add_hidden(parser: argparse.ArgumentParser) -> None:
    """Declare that what is hidden for its fate is to be shown."""
    parser.add_argument(
        "--include-superseded", action="store_true", help="show memories too in whose place others stand by now"
    )
    parser.add_argument("--include-expired", action="store_true", help="show memories too whose last day is over")


def hidden_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return what of the hidden is to be shown, as the operations name it."""
    return {"include_superseded": args.include_superseded, "include_expired": args.include_expired}


def add_host(parser: argparse.ArgumentParser) -> None:
    """Declare which agent's host is meant."""
    parser.add_argument("host", metavar="HOST", help="claude, codex, opencode or openclaw")


def host_named(word: str) -> str:
    """Return the host that a word names. Raise UsageError for another word."""
    from lorelog.core.errors import UsageError
    from lorelog.hosts import HOSTS, known_host

    host = known_host(word)
    if not host:
        raise UsageError(f"there is no host {word!r}", hint=f"one of {', '.join(HOSTS)}")
    return host


def own_path(path: str) -> str:
    """Return a path with its `~` as it is meant here: the daemon's home directory may be another. A mark `!` stays."""
    import os

    mark, bare = ("!", path[1:]) if path.startswith("!") else ("", path)
    return mark + os.path.expanduser(bare)  # noqa: PTH111  (may not be a path yet)


def own_paths(paths: list[str]) -> list[str]:
    """Return paths as `own_path` does."""
    return [own_path(path) for path in paths]


def filters_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the filters that were asked for, as the operations name them."""
    return {
        "all_projects": args.all_projects,
        "source": args.source and own_path(args.source),
        "since": args.since,
        "until": args.until,
        "types": args.type,
        "tags": args.tag,
    }
