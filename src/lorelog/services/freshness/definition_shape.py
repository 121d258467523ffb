"""A digest of a definition that formatters do not change, for languages whose formatters change more than white space.

The digest of the code index is made of tokens without comments and layout. Python's and JavaScript's usual formatters
also change quotes, trailing commas, semicolons and parentheses that mean nothing. A definition whose tokens differ is
unchanged if its shape is the same. There is no shape where it cannot be told; then the tokens decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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
