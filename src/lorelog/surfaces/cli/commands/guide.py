"""Commands that explain, and settings: docs, completion, help and config."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lorelog.core.errors import LorelogError, UsageError, nearest_name
from lorelog.surfaces.cli.arguments import add_options
from lorelog.surfaces.cli.client import print_note, print_reply, print_table
from lorelog.surfaces.cli.commands import (
    COMMANDS,
    format_all_commands,
    format_front_page,
    format_global_options,
    unknown_command,
)
from lorelog.surfaces.cli.parser import command_parser
from lorelog.surfaces.text import printable, short_path, stylize

_KEY = {"key KEY": "name of the setting, such as search.k"}
_LOCAL = {"--local": "use this project's .lorelog.toml instead of ~/.lorelog/config.toml", "shared": "json project"}
ARGUMENTS = {
    "docs": {
        "page PAGE?": "name of a page, such as quickstart or search.md",
        "--path": "print the path of the page, or of the folder",
    },
    "completion": {"shell {bash,zsh,fish,tcsh,powershell}": "name of the shell"},
    "help": {"topic TOPIC*": "a command and perhaps its verb, or 'all', or 'options'"},
    "config list": {"": "show every setting and the origin of its value", "shared": "json project"},
    "config get": {"": "show one setting", **_KEY, "shared": "json project"},
    "config set": {
        "": "change one setting",
        **_KEY,
        "value VALUE": "new value; lists as JSON or comma-separated",
        **_LOCAL,
    },
    "config unset": {"": "remove a setting from the file", **_KEY, **_LOCAL},
    "config init": {"": "write a commented settings file", **_LOCAL},
}
INDEX_PAGE = "index.md"
"""The start page. Its lists are the table of contents, of this command as of the website."""
_GROUP = re.compile(r"## (.+)")
_ENTRY = re.compile(r"- \[(?P<title>[^\]]+)\]\((?P<file>[^)#:]+)\.md\): (?P<summary>.+)")
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
_COMMENT = re.compile(r"^<!--.*?-->\n+", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def run_docs(args: argparse.Namespace) -> int:
    """List the pages of the documentation, or read one in the terminal.

    Without PAGE the pages are listed, by audience. A page is formatted at a terminal, and shown with $PAGER if it is longer
    than the screen. In a pipe it is printed as Markdown. The pages belong to the installed version and need no network.

    examples:
      lorelog docs
      lorelog docs quickstart
      lorelog docs json | grep -A3 hits
      lorelog docs --path security
    """
    folder = find_docs_folder()
    page = find_page(folder, args.page) if args.page else folder / INDEX_PAGE
    if args.path:
        print(page if args.page else folder)
    elif not args.page:
        groups = read_contents(folder)
        width = max(len(name) for pages in groups.values() for name in pages)
        for group, pages in groups.items():
            print(
                stylize(group, "bold"),
                *(f"  {name:<{width}}  {summary}" for name, summary in pages.items()),
                "",
                sep="\n",
            )
        print("'lorelog docs PAGE' shows a page.")
    elif sys.stdout.isatty():
        _page_through(page.read_text("utf-8"))
    else:
        sys.stdout.write(page.read_text("utf-8"))
    return 0


def find_docs_folder() -> Path:
    """Return the folder of the pages: in the installed package, or in the checkout of an editable installation."""
    package = Path(__file__).resolve().parents[3]
    for folder in (package / "docs", package.parents[1] / "docs"):
        if (folder / INDEX_PAGE).is_file():
            return folder
    raise LorelogError(
        f"this installation has no documentation: {package / 'docs'} does not exist",
        hint="reinstall lorelog; 'lorelog COMMAND --help' explains each command",
    )


def read_contents(folder: Path) -> dict[str, dict[str, str]]:
    """Return the pages with their summaries, by group."""
    groups: dict[str, dict[str, str]] = {}
    group = ""
    for line in (folder / INDEX_PAGE).read_text("utf-8").splitlines():
        if heading := _GROUP.fullmatch(line):
            group = heading[1]
        elif entry := _ENTRY.fullmatch(line):
            groups.setdefault(group, {})[entry["file"].removesuffix("/README")] = entry["summary"]
    return groups


def find_page(folder: Path, word: str) -> Path:
    """Return the file of a page. Raise UsageError, with the nearest name, if there is none."""
    name = word.lower().removeprefix("docs/").removesuffix(".md")
    names = {path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(folder.rglob("*.md"))}
    names |= {found.removesuffix("/README"): path for found, path in names.items() if found.endswith("/README")}
    if name in names:
        return names[name]
    near = nearest_name(name, names)
    hint = f"did you mean 'lorelog docs {near}'?" if near else "'lorelog docs' lists the pages"
    raise UsageError(f"there is no page {word!r}", hint=hint)


def _page_through(text: str) -> None:
    """Print a formatted page, with the pager if it does not fit on the screen."""
    import os
    import shutil

    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    os.environ.setdefault("LESS", "-RFX")  # colours; no pager for a short page
    rendered = Markdown(terminal_markdown(text), hyperlinks=False)
    if len(console.render_lines(rendered, pad=False)) < shutil.get_terminal_size().lines:
        console.print(rendered)
        return
    with console.pager(styles=console.color_system is not None):
        console.print(rendered)


def terminal_markdown(text: str) -> str:
    """Return a page without comments and pictures, and with its links to other pages as commands."""

    def replace_link(link: re.Match[str]) -> str:
        path = link["target"].partition("#")[0]
        if link["image"] or "://" in path:
            return "" if link["image"] else link[0]
        if not path.endswith(".md") or path.startswith("../"):
            return link["text"]
        command = f"`lorelog docs {path.removesuffix('.md').removesuffix('/README')}`"
        return command if link["text"].endswith(".md") else f"{link['text']} ({command})"

    parts = _FENCE.split(_COMMENT.sub("", text))
    return "".join(part if index % 2 else _LINK.sub(replace_link, part) for index, part in enumerate(parts))


_METAVAR_COMPLETIONS = {"PATH": "FILE", "DIR": "DIRECTORY"}


def run_completion(args: argparse.Namespace) -> int:
    """Print a shell completion script.

    examples:
      lorelog completion bash > ~/.local/share/bash-completion/completions/lorelog
      lorelog completion zsh > ~/.zfunc/_lorelog
      lorelog completion fish > ~/.config/fish/completions/lorelog.fish
      lorelog completion powershell >> $PROFILE
    """
    import shtab

    parser = build_full_parser()
    for action in _iter_actions(parser):
        if isinstance(action.metavar, str) and action.metavar in _METAVAR_COMPLETIONS:
            action.complete = getattr(shtab, _METAVAR_COMPLETIONS[action.metavar])  # type: ignore[attr-defined]
    print(shtab.complete(parser, shell=args.shell))
    return 0


def _iter_actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                yield from _iter_actions(subparser)


def build_full_parser() -> argparse.ArgumentParser:
    """Return one parser of all commands, for completion. Commands themselves never build it."""
    parser = argparse.ArgumentParser(prog="lorelog", allow_abbrev=False)
    add_options(parser, {"--version": "show the version", "shared": "project tenant daemon"})
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, summary in COMMANDS.items():
        own = command_parser(name)
        commands.add_parser(name, help=summary, parents=[own], add_help=False, description=summary)
    return parser


def run_help(args: argparse.Namespace) -> int:
    """Explain a command, or list all of them.

    examples:
      lorelog help                the commands that most people need
      lorelog help all            every command
      lorelog help search         the help of one command
      lorelog help task start     the help of one of its verbs
      lorelog help options        the options that every command takes
    """
    pages = {(): format_front_page, ("all",): format_all_commands, ("options",): format_global_options}
    page = pages.get(tuple(args.topic))
    print(page() if page else _format_command(args.topic), end="\n" if page else "")
    return 0


def _format_command(words: list[str]) -> str:
    name, *verbs = words
    if name not in COMMANDS:
        raise unknown_command(name)
    parser = command_parser(name)
    for verb in verbs:
        choices = next((action.choices for action in parser._actions if isinstance(action.choices, dict)), {})
        if verb not in choices:
            listed = f"one of: {', '.join(choices)}" if choices else f"lorelog help {name}"
            raise UsageError(f"'{parser.prog}' has no verb {verb!r}", hint=listed)
        parser = choices[verb]
    return parser.format_help()


def run_config(args: argparse.Namespace) -> int:
    """Show and change settings.

    Precedence, lowest first: defaults, ~/.lorelog/config.toml, <project>/.lorelog.toml, LORELOG_* variables, options. A project's
    file cannot set providers, addresses or keys. Keys are never stored: embedding.api_key takes env:NAME.

    examples:
      lorelog config list                       every value and its origin
      lorelog config get search.k
      lorelog config set embedding.provider openai
      lorelog config set --local search.k 10    for this project
      lorelog config init                       write a commented file to edit
    """
    from lorelog.wiring import change_setting, create_settings_file, resolve_location, settings_at, settings_file

    location = resolve_location(project=args.project)
    if args.verb in {"list", "get"}:
        settings = settings_at(location)
        listed = {setting.key: {"value": setting.value, "origin": setting.origin} for setting in settings}
        reply: dict[str, object] = {"settings": listed}
        if args.verb == "get":
            reply = {"key": args.key, "value": settings.value(args.key), "origin": settings.origin(args.key)}
    elif args.verb == "init":
        reply = {"path": str(create_settings_file(location, of_project=args.local))}
    else:
        changed = change_setting(location, args.key, getattr(args, "value", None), of_project=args.local)
        reply = {"key": args.key, "path": str(settings_file(location, of_project=args.local)), "changed": changed}
    print_reply(args, reply, _show_setting)
    if args.verb in {"set", "unset"} and reply["changed"] and args.key.startswith("embedding."):
        from lorelog.operations.settings import MODEL_KEYS, model_notes

        for note in model_notes(location) if args.key in MODEL_KEYS else ():
            print_note(note)
    return 0


def _show_setting(reply: dict[str, Any], args: argparse.Namespace) -> None:
    from lorelog.wiring import format_setting

    if args.verb == "list":
        rows = [
            (key, printable(format_setting(setting["value"])), stylize(printable(setting["origin"]), "dim"))
            for key, setting in reply["settings"].items()
        ]
        print_table(rows, head="")
    elif args.verb == "get":
        value = reply["value"]
        print(printable(value if isinstance(value, str) else format_setting(value)))
    else:
        path, key = short_path(reply["path"]), reply.get("key")
        unset = f"Removed {key} from {path}." if reply.get("changed") else f"{key} was not set in {path}."
        texts = {
            "init": f"Wrote {path}.",
            "set": f"Set {key} = {getattr(args, 'value', '')} in {path}.",
            "unset": unset,
        }
        print(printable(texts[args.verb]))
