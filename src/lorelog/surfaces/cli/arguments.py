"""The options that several commands share, and types of their values.

A command line is usually parsed without argparse (`option_table`), so this module does not import it.
"""

from __future__ import annotations

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.client import add_daemon_option, mark_global

TYPE_CHECKING = False

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any


def whole_number(minimum: int = 0, maximum: int | None = None) -> Callable[[str], int]:
    """Return a type of arguments: a whole number within limits."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise _value_fault(f"must be a whole number (got {text!r})") from None
        if number < minimum:
            raise _value_fault(f"must be at least {minimum} (got {number})")
        if maximum is not None and number > maximum:
            raise _value_fault(f"must be at most {maximum} (got {number})")
        return number

    return parse


def _value_fault(message: str) -> Exception:
    from argparse import ArgumentTypeError

    return ArgumentTypeError(message)


MAX_PORT = 65_535


def fraction(text: str) -> float:
    """Return a number from 0 to 1; a type of arguments."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise _value_fault(f"must be a number from 0 to 1, such as 0.5 (got {text})")
    return number


ORIGINS = ("user", "agent", "tool", "import")
LANES = ("hybrid", "lexical", "dense")
FUSIONS = ("convex", "rrf")


def add_common(
    parser: argparse.ArgumentParser,
    *,
    project: str = "",
    with_scope: bool = True,
) -> None:
    """Declare --json and --project; with `with_scope`, for commands that call operations, also --tenant and --daemon.

    `project` is the help text of --project, where it means more than elsewhere.
    """
    parser.add_argument("--json", action="store_true", help="print JSON instead of text (lorelog docs json)")
    if project:
        parser.add_argument("--project", metavar="DIR", help=project)
    else:
        add_project_option(parser)
    if with_scope:
        add_scope_options(parser)


def add_verb(parser: argparse.ArgumentParser, verbs: Any, name: str, help_text: str) -> argparse.ArgumentParser:
    """Declare a verb of a command, with the command's formatter: argparse's default one imports `shutil`."""
    verb: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=help_text,
        description=f"{help_text[:1].upper()}{help_text[1:]}.",
        formatter_class=parser.formatter_class,
        allow_abbrev=False,
    )
    return verb


def add_scope_options(parser: argparse.ArgumentParser) -> None:
    """Declare --tenant and --daemon."""
    add_tenant_option(parser)
    add_daemon_option(parser)


def add_project_option(parser: argparse.ArgumentParser) -> None:
    """Declare --project."""
    mark_global(
        parser.add_argument("--project", metavar="DIR", help="use the project of DIR instead of the current directory")
    )


def add_tenant_option(parser: argparse.ArgumentParser) -> None:
    """Declare --tenant."""
    mark_global(parser.add_argument("--tenant", metavar="NAME", help="use another tenant's memories (scope.tenant)"))


_SETTING_OPTIONS = (
    ("--provider", "LORELOG_EMBEDDING_PROVIDER", "NAME", "who embeds text (embedding.provider)"),
    ("--model", "LORELOG_EMBEDDING_MODEL", "NAME", "the provider's model (embedding.model)"),
    ("--base-url", "LORELOG_EMBEDDING_BASE_URL", "URL", "the provider's server (embedding.base_url)"),
    ("--batch-size", "LORELOG_EMBEDDING_BATCH_SIZE", "N", "texts embedded in one call (embedding.batch_size)"),
    ("--milvus-uri", "LORELOG_STORE_URI", "URI", "where the search index is kept (store.uri)"),
    (
        "--collection",
        "LORELOG_STORE_COLLECTION",
        "NAME",
        "what names of Milvus collections begin with (store.collection)",
    ),
)
_CHUNKING_OPTIONS = (
    ("--max-chunk-size", "LORELOG_CHUNKING_MAX_CHUNK_SIZE", "N", "characters of a chunk (chunking.max_chunk_size)"),
    ("--overlap-lines", "LORELOG_CHUNKING_OVERLAP_LINES", "N", "lines that chunks share (chunking.overlap_lines)"),
)


def add_setting_options(parser: argparse.ArgumentParser, *, chunking: bool = False) -> None:
    """Declare options that change a setting for this command: as the variable that its destination is."""
    group = parser.add_argument_group("settings for this command only")
    for flag, variable, metavar, help_text in (*_SETTING_OPTIONS, *(_CHUNKING_OPTIONS if chunking else ())):
        group.add_argument(flag, dest=variable, metavar=metavar, help=help_text)


def option_of_variable(variable: str) -> str:
    """Return the option that sets a variable."""
    return next(flag for flag, name, _, _ in (*_SETTING_OPTIONS, *_CHUNKING_OPTIONS) if name == variable)


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
    parser.add_argument("--as", dest="writer", metavar="NAME", help="writer of the record (default: records.writer)")
    parser.add_argument("--session", metavar="ID", help="session of the record")
    parser.add_argument("--origin", choices=ORIGINS, help="origin of the text (default agent); tool output is tainted")
    add_common(parser)


def record_options_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the record options as arguments of an operation."""
    return {"writer": args.writer, "session_id": args.session, "origin": args.origin}


def add_repeatable(parser: argparse.ArgumentParser, option: str, help_text: str, *, metavar: str = "TEXT") -> None:
    """Declare an option that may be given more than once."""
    parser.add_argument(option, action="append", default=[], metavar=metavar, help=f"{help_text} (repeatable)")


def add_host(parser: argparse.ArgumentParser) -> None:
    """Declare the HOST argument."""
    parser.add_argument("host", metavar="HOST", help="claude, codex, cursor … (lorelog docs hosts)")


def parse_host(word: str) -> str:
    """Return the canonical name of a host whose sessions are captured. Raise UsageError if there is none."""
    from lorelog.hosts import HOSTS, resolve_host

    host = resolve_host(word)
    if not host:
        from lorelog.hosts.documented import ALL_TITLES, resolve_any_host

        documented = resolve_any_host(word)
        problem = (
            f"sessions of {ALL_TITLES[documented]} are not captured" if documented else f"there is no host {word!r}"
        )
        raise UsageError(problem, hint=f"one of {', '.join(HOSTS)}")
    return host


def parse_any_host(word: str) -> str:
    """Return the canonical name of a host that lorelog can be installed into. Raise UsageError if it is unknown."""
    from lorelog.hosts.documented import ALL_TITLES, resolve_any_host

    host = resolve_any_host(word)
    if not host:
        raise UsageError(f"there is no host {word!r}", hint=f"one of {', '.join(ALL_TITLES)}")
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
