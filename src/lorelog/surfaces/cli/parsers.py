"""How words are parsed: argparse, with our own way to tell of mistakes. Apart from `main`, so that hooks need not load it."""

from __future__ import annotations

import argparse
import sys

from lorelog.core.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """Raises what argparse would print and exit with, so that mistakes in words are told like any other."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(message, hint=f"{self.prog} --help")


class HelpLayout(argparse.RawDescriptionHelpFormatter):
    """Lays help out as written. Argparse makes one for every argument it declares, and asks for the terminal each time."""

    def __init__(self, prog: str, indent_increment: int = 2, max_help_position: int = 24, width: int = 0) -> None:
        """Take the terminal's width only where help is asked for: `shutil` takes 4 ms to import."""
        if not width and any(word in sys.argv for word in ("-h", "--help")):
            import shutil

            width = shutil.get_terminal_size().columns - 2
        super().__init__(prog, indent_increment, max_help_position, width or 100)
