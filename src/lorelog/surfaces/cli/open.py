"""Open a search hit or memory in your editor, at its line.

ID is shown by search and list; its first characters are enough. The editor is $VISUAL or $EDITOR, with its options. vim, nano,
emacs, VS Code, Cursor, Zed, Sublime Text, Helix, the JetBrains editors and those like them start at the line; other editors
get the file only.

examples:
  lorelog open 65fcbf6e
  EDITOR="code --wait" lorelog open 65fcbf6e
"""

from __future__ import annotations

import os

from lorelog.core.errors import LorelogError, NotFound, UsageError
from lorelog.surfaces.cli.arguments import add_project_option, add_scope_options
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import RECORD_TIERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.replies import Json


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("id", metavar="ID", help="id of a hit or memory, or its first characters")
    add_project_option(parser)
    add_scope_options(parser)


def run(args: argparse.Namespace) -> int:
    """Open the file; the exit status is 1 if the editor's is not 0."""
    reply = call_operation(args, "memory.expand", {"id": args.id, "lines": 0})
    return 1 if open_in_editor(reply) else 0


def open_in_editor(reply: Json) -> int:
    """Run the editor on the file of an expanded hit, and return its exit status."""
    from subprocess import run as run_program

    from lorelog.core.editor import EDITOR_HINT, editor_command

    command = editor_command(reply["source"], reply["start_line"], os.environ)
    if reply["trust"]["tier"] in RECORD_TIERS:
        raise UsageError("a record has no file to open; it is in the ledger", hint=f"lorelog show {reply['id'][:8]}")
    if not os.path.isfile(reply["source"]):  # noqa: PTH113  (pathlib takes longer to import than a warm command)
        raise NotFound(f"{reply['source']} is not on this machine", hint=f"lorelog show {reply['id'][:8]}")
    try:
        return run_program(command, check=False).returncode
    except OSError as error:
        raise LorelogError(f"the editor {command[0]!r} does not start: {error.strerror}", hint=EDITOR_HINT) from None
