"""Definitions of a name: a digest of one that formatters do not change, and a guess whether a line is one.

The digest of the code index is made of tokens without comments and layout. Python's and JavaScript's usual formatters
also change quotes, trailing commas, semicolons and parentheses that mean nothing. A definition whose tokens differ is
unchanged if its shape is the same. There is no shape where it cannot be told; then the tokens decide.

A single line tells, in most languages, whether it may define a name, so that few files must be parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import lru_cache
from hashlib import sha256

_PYTHON = (".py", ".pyi", ".pyw")
_SCRIPTS = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts")
_MAX_CHARS = 200_000
_SCRIPT_WORDS = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)|(\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)|([\w$]+)|(=>|[^\s\w$])",
    re.DOTALL,
)
_CLOSERS = frozenset(")]}>")


def definition_shape(path: str, sources: Sequence[str], name: str) -> str:
    """Return the joint digest of a name's definitions in a file; empty if the language has none, or they are broken."""
    return _shape(path, tuple(sources), name)


@lru_cache(maxsize=1024)
def _shape(path: str, sources: tuple[str, ...], name: str) -> str:
    if sum(map(len, sources)) > _MAX_CHARS:
        return ""
    parts: list[str] = []
    for source in sources:
        if path.endswith(_PYTHON):
            part = _python_shape(source, name)
        elif path.endswith(_SCRIPTS):
            part = " ".join(_script_words(source, name))
        else:
            return ""
        if not part:
            return ""
        parts.append(part)
    return sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:24] if parts else ""


def _python_shape(source: str, name: str) -> str:
    import ast
    import warnings

    indented = source[:1] in {" ", "\t"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(f"if 1:\n{source}" if indented else source)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                node.name = "" if node.name == name else node.name
                if ast.get_docstring(node, clean=False) is not None:
                    del node.body[0]
        return ast.dump(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""


def _script_words(source: str, name: str) -> Iterable[str]:
    words: list[str] = []
    for match in _SCRIPT_WORDS.finditer(source):
        word = _requoted(match[1]) if match[1] else match[2] or match[3] or ""
        if word in {"", ";"}:
            continue
        if word in _CLOSERS and words and words[-1] == ",":
            words.pop()
        if word == "=>" and len(words) > 2 and words[-1] == ")" and words[-3] == "(":
            words[-3:] = [words[-2]]  # `(a) =>` is `a =>`
        words.append("" if word == name else word)
    return words


def _requoted(text: str) -> str:
    if text[0] == "`":
        return text
    inner = text[1:-1].replace('\\"', '"').replace("\\'", "'")
    return f'"{inner}"'


_KEYWORDS = rb"class|def|fn|func|function|interface|trait|struct|enum|type|const|let|var|val|module|namespace|object|record|union|impl|protocol|macro_rules!|\#define"
_NO_DEFINITION = re.compile(
    rb"^\s*(?://|\#(?!define)|\*|--)|\b(?:return|await|new|throw|yield|assert|raise|import|from|delete|typeof|in|not|and|or|if|elif|while|print|defer|go)\s[^\n]*$"
)
_MODIFIERS = re.compile(rb"^[\s\w*&<>,:\[\]~@?!$]*$")
_CALL_END = re.compile(rb"\)\s*[;,]?\s*$")


class DefinitionRank(IntEnum):
    """How likely a line defines a name."""

    USE = 0
    POSSIBLE = 1
    LIKELY = 2


@lru_cache(maxsize=256)
def _patterns(name: bytes) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    word = re.escape(name)
    keyword = (
        rb"(?<![\w$])(?:" + _KEYWORDS + rb")\b\*?\s*(?:\([^()\n]{0,200}\)\s*)?(?:[*&]|self\.)?(?:[\w$]+(?:\.|::))*"
    )
    assigned = rb"^\s*(?:export\s+|pub\s+|static\s+|readonly\s+|public\s+|private\s+)*(?:[\w$]+\.)*[\"']?"
    likely = re.compile(keyword + word + rb"(?![\w$])|" + assigned + word + rb"[\"']?\s*(?::|=(?![=>])|\?:)")
    called = re.compile(rb"(?<![\w$.\"'])" + word + rb"\s*(?:<[^>\n]{0,200}>|\[[^\]\n]{0,200}\])?\s*\(")
    return likely, called


def rank_line(line: bytes, name: bytes) -> DefinitionRank:
    """Return how likely a line, which contains a name, defines it."""
    likely, called = _patterns(name)
    if likely.search(line):
        return DefinitionRank.LIKELY
    match = called.search(line)
    if match is None or match.start() > 300:
        return DefinitionRank.USE
    before = line[: match.start()]
    if not _MODIFIERS.match(before) or _NO_DEFINITION.search(before + b" "):
        return DefinitionRank.USE
    is_call = not before.strip() and _CALL_END.search(line[match.end() - 1 : match.end() + 400])
    return DefinitionRank.USE if is_call else DefinitionRank.POSSIBLE
