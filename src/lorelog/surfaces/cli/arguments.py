"""Argument parsing: argparse with our errors and help layout, and the options that several commands share.

Separate from `main`, so that hooks do not import argparse.
"""

from __future__ import annotations

import argparse

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.client import add_daemon_option, mark_global

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn


class CommandParser(argparse.ArgumentParser):
    """Raises usage errors in our own words instead of printing argparse's and exiting."""

    def parse_args(self, args: Sequence[str], namespace: argparse.Namespace | None = None) -> argparse.Namespace:  # type: ignore[override]
        """Parse the words of a command. Raise UsageError for a word that it does not take."""
        parsed, rest = self.parse_known_args(list(args), namespace)
        if rest and not any(word.startswith("-") for word in rest) and self._verbs() is None:
            # `index a --force b`: argparse takes a list of arguments in one piece only.
            parsed, rest = self.parse_known_intermixed_args(list(args), namespace)
        if rest:
            raise self._unexpected(rest, args)
        return parsed

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(self._reword(message), hint=f"{self.prog} --help")

    def format_help(self) -> str:
        """Return the help text, in which the options that all commands take are one line."""
        from lorelog.surfaces.cli.help import text_width, wrap

        hidden = [action for action in self._actions if getattr(action, "is_global", False)]
        formatter = self._get_formatter()
        places = [
            formatter._format_args(action, str(action.metavar or action.dest))  # noqa: SLF001
            for action in self._actions
            if not action.option_strings
        ]
        margin = len("usage: ")
        usage = wrap(" ".join([self.prog, "[OPTIONS]", *places]), text_width() - margin)
        formatter.add_usage(("\n" + " " * margin).join(usage), (), ())
        formatter.add_text(self.description)
        for group in self._action_groups:
            formatter.start_section(group.title)
            formatter.add_text(group.description)
            formatter.add_arguments([action for action in group._group_actions if action not in hidden])  # noqa: SLF001
            formatter.end_section()
        if hidden:
            names = ", ".join(action.option_strings[0] for action in hidden)
            formatter.add_text(f"global options: {names} (lorelog help options)")
        return formatter.format_help()

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise UsageError for a value that is not among the choices, and name them."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        near = _suggest(str(value), choices)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            hint = f"did you mean '{self.prog} {near}'?" if near else f"one of: {', '.join(choices)}"
            raise UsageError(f"there is no command '{self.prog.removeprefix('lorelog ')} {value}'", hint=hint)
        name = max(action.option_strings, key=len, default=action.dest).lstrip("-").replace("-", " ")
        raise UsageError(
            f"there is no {_CHOICE_NOUNS.get(name, name)} {value!r}; there are: {', '.join(choices)}",
            hint=f"did you mean {near}?" if near else f"{self.prog} --help",
        )

    def _unexpected(self, rest: Sequence[str], words: Sequence[str]) -> UsageError:
        """Return the error for words that no argument or option takes."""
        parser = self.innermost(words)
        option = next((word.partition("=")[0] for word in rest if word.startswith("-")), "")
        if not option:
            return UsageError(
                f"'{parser.prog}' does not take the argument {rest[0]!r}",
                hint=f"put a text of several words in quotes; {parser.prog} --help",
            )
        options = [
            name
            for action in parser._actions  # noqa: SLF001
            for name in action.option_strings
            if action.dest != "help"
        ]
        near = _suggest(option, options)
        return UsageError(
            f"'{parser.prog}' has no option {option}",
            hint=f"did you mean {near}?" if near else f"{parser.prog} --help",
        )

    def innermost(self, words: Sequence[str]) -> CommandParser:
        """Return the parser of the verb that was given, or this one."""
        verbs = self._verbs() or {}
        verb = next((word for word in words if word in verbs), None)
        return self if verb is None else verbs[verb].innermost(words[words.index(verb) + 1 :])

    def _verbs(self) -> dict[str, CommandParser] | None:
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
                return action.choices
        return None

    def _places(self) -> dict[str, str]:
        """Return the choices of each argument that has no other name: `relevant or irrelevant`."""
        return {
            action.dest: " or ".join(map(str, action.choices))
            for action in self._actions
            if action.choices and not action.option_strings
        }

    def _reword(self, message: str) -> str:
        """Return an error of argparse in our words: `-k must be a whole number (got 'x')`."""
        required = message.partition("the following arguments are required: ")[2]
        if required:
            verbs = self._verbs()
            if verbs:
                return f"'{self.prog}' needs one of: {', '.join(verbs)}"
            names = [self._places().get(name, name) for name in required.split(", ")]
            return f"'{self.prog}' needs {' and '.join(names)}"
        argument, found, fault = message.removeprefix("argument ").partition(": ")
        if found and message.startswith("argument "):
            return _reword_fault(argument.partition("/")[0], fault)
        return message


def _reword_fault(name: str, fault: str) -> str:
    """Return argparse's complaint about one argument in our words."""
    if fault.startswith("expected "):
        return f"{name} needs a value"
    if fault.startswith("not allowed with argument "):
        return f"use either {name} or {fault.rpartition(' ')[2].partition('/')[0]}, not both"
    if fault.startswith("ignored explicit argument"):
        return f"{name} takes no value"
    for kind, noun in (("int", "whole number"), ("float", "number")):
        if fault.startswith(f"invalid {kind} value: "):
            return f"{name} must be a {noun} (got {fault.partition(': ')[2]})"
    return f"{name} {fault}"


_CHOICE_NOUNS = {"daemon": "daemon mode", "on event": "event", "use": "kind of use", "by": "grouping"}
"""What a choice is called, where the name of its option does not say it."""


def _suggest(word: str, words: Sequence[str]) -> str:
    """Return the word that was probably meant, or ''."""
    from lorelog.core.grammar import nearest_name

    longer = [choice for choice in words if choice.startswith(word) and len(word.lstrip("-")) > 1]
    return longer[0] if longer else nearest_name(word, words)


class CommandHelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Wraps the paragraphs of a help text to the terminal, and keeps the shape of indented lines such as examples."""

    def __init__(self, prog: str, indent_increment: int = 2, max_help_position: int = 24, width: int = 0) -> None:
        """Choose the width here: argparse would import `shutil` for it, which takes 4 ms."""
        from lorelog.surfaces.cli.help import text_width

        super().__init__(prog, indent_increment, max_help_position, width or text_width())

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        from lorelog.surfaces.cli.help import wrap

        paragraphs = []
        for paragraph in text.split("\n\n"):
            if "\n  " in paragraph:
                lines = [line for example in paragraph.split("\n") for line in _fold_example(example, width)]
            else:
                lines = wrap(paragraph, width)
            paragraphs.append("\n".join(lines))
        return super()._fill_text("\n\n".join(paragraphs), width, indent)


def _fold_example(line: str, width: int) -> list[str]:
    """Return an example with its explanation below it if both are wider than the terminal. A command is never cut."""
    from lorelog.surfaces.cli.help import wrap

    command, gap, explanation = line[2:].partition("   ")
    if len(line) <= width or not gap:
        return [line]
    return [f"  {command}", *(f"      {part}" for part in wrap(explanation, width - 6))]


def whole_number(minimum: int = 0, maximum: int | None = None) -> Callable[[str], int]:
    """Return a type of arguments: a whole number within limits."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be a whole number (got {text!r})") from None
        if number < minimum:
            raise argparse.ArgumentTypeError(f"must be at least {minimum} (got {number})")
        if maximum is not None and number > maximum:
            raise argparse.ArgumentTypeError(f"must be at most {maximum} (got {number})")
        return number

    return parse


MAX_PORT = 65_535


def fraction(text: str) -> float:
    """Return a number from 0 to 1; a type of arguments."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 1, such as 0.5 (got {text})")
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
