"""Texts of Python source: heads of definitions, docstrings, names in annotations that are strings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lorelog.code.hooks import MOST_DOCSTRING, MOST_SIGNATURE, one_line

if TYPE_CHECKING:
    from tree_sitter import Node

    from lorelog.code.source import Source

_STRING = re.compile(r"""([A-Za-z]*)(\"{3}|'{3}|"|')(.*)\2\Z""", re.DOTALL)
_COMMENT = re.compile(r"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|#[^\n]*""")
_NAMES = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_EXPORTED = re.compile(rb"""["'](\w+)["']""")
_MOST_LIST = 200_000
_NO_NAMES = frozenset({"None", "True", "False", "and", "or", "not", "if", "else", "for", "in", "is", "lambda"})


def head(source: Source, start: int, end: int) -> str:
    """Return the head of a definition on one line, without comments and the colon."""
    text = source.slice(start, min(end, start + MOST_SIGNATURE * 8))
    if "#" in text:
        text = _COMMENT.sub(lambda found: found[1] or "", text)
    line = one_line(text.rstrip().removesuffix(":"))
    return line.replace("( ", "(").replace(", )", ")").replace(",)", ")") if "\n" in text else line


def docstring_node(body: Node | None) -> Node | None:
    """Return the string that a body begins with."""
    if body is None:
        return None
    for index in range(min(body.named_child_count, 8)):
        statement = body.named_child(index)
        if statement is not None and statement.type != "comment":
            return string_of(statement)
    return None


def string_of(statement: Node) -> Node | None:
    """Return the string that a statement consists of; None where it does something."""
    if statement.type != "expression_statement" or statement.named_child_count != 1:
        return None
    inner = statement.named_child(0)
    return inner if inner is not None and inner.type in ("string", "concatenated_string") else None


def docstring(node: Node | None, source: Source) -> str:
    """Return what a docstring says, its indentation taken off, escapes left as they are written."""
    if node is None:
        return ""
    found = _STRING.match(source.slice(node.start_byte, min(node.end_byte, node.start_byte + 100_000)))
    if found is None or not set(found[1].lower()) <= {"r", "u"}:
        return ""
    said = _dedented(found[3])
    return said if len(said) <= MOST_DOCSTRING else f"{said[: MOST_DOCSTRING - 1]}…"


def annotated_names(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield where names are in an annotation that is a string, each with what stands before its dot."""
    for found in _NAMES.finditer(text):
        offset, before = found.start(), ""
        for name in found[0].split("."):
            if name not in _NO_NAMES:
                yield offset, name, before
            offset += len(name) + 1
            before = f"{before}.{name}" if before else name


def exported_names(source: Source, node: Node) -> set[str]:
    """Return the names that an assignment to `__all__` lists."""
    text = source.data[node.start_byte : min(node.end_byte, node.start_byte + _MOST_LIST)]
    return {name.decode() for name in _EXPORTED.findall(text)}


def visibility(name: str, *, in_class: bool) -> str:
    """Return who may use a name, by its underscores."""
    if not name.startswith("_") or (name.startswith("__") and name.endswith("__") and len(name) > 4):
        return "public"
    if in_class and not name.startswith("__"):
        return "protected"
    return "private"


def _dedented(text: str) -> str:
    lines = text.expandtabs().splitlines()
    rest = [line for line in lines[1:] if line.strip()]
    margin = min((len(line) - len(line.lstrip()) for line in rest), default=0)
    return "\n".join([*(line.strip() for line in lines[:1]), *(line[margin:].rstrip() for line in lines[1:])]).strip()
