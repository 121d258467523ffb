"""Commands and options that messages, hints and help texts name."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from lorelog.surfaces.cli.arguments import with_default_verb
from lorelog.surfaces.cli.commands import COMMANDS, DEFAULT_VERBS
from lorelog.surfaces.cli.parser import command_parser

SOURCE = Path(__file__).resolve().parents[2] / "src"
COMMAND = re.compile(r"(['`(]?)\blorelog ([^\n'\"`,;()]+)")
FORMER = {"expand", "get", "artifact", "roots", "stats", "cost", "warm"}
"""Commands of earlier versions, which even prose must not name."""


def strings() -> Iterator[tuple[str, str]]:
    """Yield where each string of the package is, and the string; `{}` stands for what is filled in."""
    for path in SOURCE.rglob("*.py"):
        source = path.read_text("utf-8")
        if "lorelog " not in source:
            continue
        parts: set[ast.AST] = set()
        for node in ast.walk(ast.parse(source)):
            place = f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.JoinedStr):
                parts.update(node.values)
                yield (
                    place,
                    "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values),
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts:
                yield place, node.value


@cache
def parser_of(command: str) -> argparse.ArgumentParser:
    return command_parser(command)


def verbs_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return next(
        (dict(action.choices) for action in parser._actions if isinstance(action, argparse._SubParsersAction)), {}
    )


def unknown_word(words: list[str], *, is_quoted: bool) -> str:
    """Return the first word of a command line that is no command, verb or option, or ''."""
    if words[0] not in COMMANDS:
        is_command = is_quoted and words[0].isalpha() and words[0].islower() and words[0] not in {"version", "is"}
        return words[0] if is_command or words[0] in FORMER else ""
    parser = parser_of(words[0])
    for number, word in enumerate(with_default_verb(words[1:], DEFAULT_VERBS.get(words[0], ""))):
        verbs = verbs_of(parser)
        if verbs and word in verbs:
            parser = verbs[word]
        elif verbs and not number and word.isalpha() and word.islower():
            return word
        if word.startswith("--") and word.partition("=")[0] not in parser._option_string_actions:
            return word
    return ""


@pytest.mark.slow
def test_strings_name_commands_that_exist() -> None:
    """The parser of each command that a message or help text names accepts the verb and the options there."""
    wrong = []
    for place, text in strings():
        for found in COMMAND.finditer(text.replace("&& lorelog", "\nlorelog")):
            unknown = unknown_word(found[2].rstrip(".").split() or [""], is_quoted=bool(found[1]))
            wrong += [f"{place}: lorelog {found[2][:60]}: {unknown}"] if unknown else []

    assert wrong == []
