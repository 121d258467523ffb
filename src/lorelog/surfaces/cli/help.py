"""Explain a command, or list all of them.

examples:
  lorelog help                the commands that most people need
  lorelog help all            every command
  lorelog help search         the help of one command
  lorelog help task start     the help of one of its verbs
  lorelog help options        the options that every command takes
"""

from __future__ import annotations

import os

from lorelog.core.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

# `textwrap` and `shutil` are not used: importing them takes longer than all else that `lorelog --help` does.

_DEFAULT_COLUMNS = 80
_MIN_COLUMNS, _MAX_COLUMNS = 40, 120
_USAGE = "usage: lorelog [GLOBAL OPTIONS] COMMAND ..."
_ABOUT = "Memory for coding agents, kept in plain Markdown files."


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument(
        "topic", nargs="*", metavar="TOPIC", help="a command and perhaps its verb, or 'all', or 'options'"
    )


def run(args: argparse.Namespace) -> int:
    """Print the front page, or the page of a topic."""
    pages = {(): format_front_page, ("all",): format_all_commands, ("options",): format_global_options}
    page = pages.get(tuple(args.topic))
    print(page() if page else _format_command(args.topic), end="\n" if page else "")
    return 0


def is_new_home() -> bool:
    """Return whether nothing was remembered or indexed in this home yet."""
    from lorelog.core.paths import data_folder, first_layout_folder, home_folder

    home = home_folder(os.environ.get("LORELOG_HOME", ""))
    return not any(os.path.exists(folder) for folder in (data_folder(home), first_layout_folder(home)))  # noqa: PTH110


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
    from lorelog.surfaces.cli.main import COMMANDS, FRONT_PAGE

    groups = {title: {name: COMMANDS[name] for name in names} for title, names in FRONT_PAGE.items()}
    more = '"lorelog help all" lists every command; "lorelog help COMMAND" explains one.'
    return "\n".join([_USAGE, "", _ABOUT, *_format_groups(groups), "", *wrap(more, text_width())])


def format_all_commands() -> str:
    """Return the text of `lorelog help all`."""
    from lorelog.surfaces.cli.main import COMMANDS_BY_GROUP

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


def _format_command(words: list[str]) -> str:
    """Return the help of a command, or of its verb."""
    from lorelog.surfaces.cli.main import COMMANDS, command_parser, unknown_command

    name, *verbs = words
    if name not in COMMANDS:
        raise unknown_command(name)
    parser = command_parser(name)
    for verb in verbs:
        choices = next((action.choices for action in parser._actions if isinstance(action.choices, dict)), {})  # noqa: SLF001
        if verb not in choices:
            listed = f"one of: {', '.join(choices)}" if choices else f"lorelog help {name}"
            raise UsageError(f"'{parser.prog}' has no verb {verb!r}", hint=listed)
        parser = choices[verb]
    return parser.format_help()


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
