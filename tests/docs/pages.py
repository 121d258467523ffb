"""The pages that people read, taken apart: fenced blocks, command lines, tables, links."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md"), *ROOT.glob("examples/**/README.md")]
)

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_TABLE = re.compile(r"^\|(.+)\|$", re.MULTILINE)
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def blocks(text: str, language: str) -> list[str]:
    return [found[2] for found in _FENCE.finditer(text) if found[1] == language]


def command_lines(text: str) -> Iterator[str]:
    """Yield what a page tells its reader to type: after `$` in a console block, or in a code span of prose."""
    for block in blocks(text, "console"):
        yield from (line[2:] for line in block.split("\n") if line.startswith("$ "))
    for span in _SPAN.findall(_FENCE.sub("", text)):
        if span.startswith("lorelog ") and "COMMAND" not in span:
            yield span


def shell_lines(text: str) -> Iterator[str]:
    """Yield the lines of a page's shell blocks that begin with lorelog, without comments."""
    for block in (*blocks(text, "console"), *blocks(text, "sh")):
        for line in block.split("\n"):
            typed = line.removeprefix("$ ").split("  #")[0]
            if typed.startswith("lorelog "):
                yield typed


def lorelog_words(line: str) -> Iterator[list[str]]:
    """Yield the words of each lorelog command on a command line."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    command: list[str] = []
    for word in [*lexer, ";"]:
        if word not in {"|", "&&", ";", "||"}:
            command.append(word)
            continue
        kept = itertools.takewhile(lambda word: word not in {"<", ">", ">>"}, command)
        words = [item for item in kept if not re.fullmatch(r"[A-Z_]+=.*", item)]
        if words[:1] == ["lorelog"]:
            yield words[1:]
        command = []


def links(text: str) -> list[str]:
    """Return where a page's links lead."""
    return _LINK.findall(_FENCE.sub("", text))


def headings(text: str) -> set[str]:
    """Return the fragments that a page's headings can be linked by."""
    titles = re.findall(r"^#+ (.+)$", _FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def rows(text: str) -> list[list[str]]:
    """Return the cells of every table row, headers and rulers left out."""
    found = [[cell.strip() for cell in line.split(" | ")] for line in _TABLE.findall(_FENCE.sub("", text))]
    return [
        row
        for number, row in enumerate(found)
        if not _is_ruler(row) and not (number + 1 < len(found) and _is_ruler(found[number + 1]))
    ]


def spans(text: str) -> list[str]:
    return _SPAN.findall(text)


def sections(text: str) -> dict[str, str]:
    """Return the text below each heading of the second level."""
    parts = _SECTION.split(text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _is_ruler(row: list[str]) -> bool:
    return not "".join(row).strip("-|")
