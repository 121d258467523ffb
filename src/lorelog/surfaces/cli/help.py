"""The pages of `lorelog --help` and `lorelog help`, and the width of help texts."""

from __future__ import annotations

import os

from lorelog.surfaces.cli.commands import COMMANDS, COMMANDS_BY_GROUP, FRONT_PAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# `textwrap` and `shutil` are not used: importing them takes longer than all else that `lorelog --help` does.

_DEFAULT_COLUMNS = 80
_MIN_COLUMNS, _MAX_COLUMNS = 40, 120
_USAGE = "usage: lorelog [GLOBAL OPTIONS] COMMAND ..."
_ABOUT = "Memory for coding agents, kept in plain Markdown files."


def is_new_home() -> bool:
    """Return whether nothing was remembered or indexed in this home yet."""
    from lorelog.core.paths import data_folder, first_layout_folder, home_folder

    home = home_folder(os.environ.get("LORELOG_HOME", ""))
    return not any(os.path.exists(folder) for folder in (data_folder(home), first_layout_folder(home)))


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
    groups = {title: {name: COMMANDS[name] for name in names} for title, names in FRONT_PAGE.items()}
    more = '"lorelog help all" lists every command; "lorelog help COMMAND" explains one.'
    return "\n".join([_USAGE, "", _ABOUT, *_format_groups(groups), "", *wrap(more, text_width())])


def format_all_commands() -> str:
    """Return the text of `lorelog help all`."""
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
