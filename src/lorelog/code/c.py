"""C: a static function is its file's own, and what only looks like a definition is none."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lorelog.code.hooks import CALLABLES, Found, Hooks, one_line
from lorelog.code.mending import blank
from lorelog.code.source import Source

_WORDS = (
    "if else for while do switch case default return sizeof goto break continue struct union enum typedef static extern"
    " const volatile defined void int char"
)
_KEYWORDS = frozenset(_WORDS.split())
"""Where a macro breaks a statement, the parser takes the next one for a function called `if`."""
_DECLARATIONS = frozenset({"declaration", "field_declaration"})


_NOT_TYPES = rb"(?!(?:const|volatile|struct|class|union|enum|unsigned|signed|operator|return|if|while|for|else)\b)"
_MACROS = (
    # class RN_EXPORT Instance, struct __attribute__((packed)) header
    re.compile(
        rb"\b(?:class|struct|union|enum(?:\s+class)?)\s+((?:[A-Z][A-Z0-9_]{2,}(?:\([^()\n]*\))?\s+)+)(?=[A-Za-z_]\w*)"
    ),
    # LZ4LIB_API int LZ4_compress(…), static FORCE_INLINE void f(…)
    re.compile(
        rb"^[ \t]*(?:(?:static|extern|inline|virtual|explicit)\s+)*((?:[A-Z][A-Z0-9_]{2,}(?:\([^()\n]*\))?[ \t\n]+)+)"
        rb"(?=(?:(?:static|inline|const|struct|unsigned|signed|constexpr|virtual|extern)\s+)*"
        + _NOT_TYPES
        + rb"[A-Za-z_][\w:<>]*[\s*&]+[A-Za-z_~])",
        re.MULTILINE,
    ),
    # int f(void) ATTRIBUTE_UNUSED; void f() MACRO {
    re.compile(rb"\)[ \t]*((?:[A-Z][A-Z0-9_]{3,}(?:\([^()\n]*\))?[ \t\n]*)+)(?=[;{])"),
    # a line that is a macro and no more
    re.compile(rb"^([A-Z][A-Z0-9_]{3,}(?:\([^()\n]*\))?)[ \t]*$(?!\s*[{(:=,])", re.MULTILINE),
)
"""Macros that a parser without a preprocessor takes for types. Blanked only where the file does not parse with them."""


class CHooks(Hooks):
    """What C's grammar does not say."""

    keywords = _KEYWORDS
    has_tags = True

    def mended(self, data: bytes) -> bytes:
        """Blank out macros that stand where only the preprocessor allows them."""
        for pattern in _MACROS:
            data = pattern.sub(_blanked, data)
        return data

    def defined(self, found: Found, source: Source) -> Found | None:
        """Drop what has a keyword for its name; `const` makes a variable a constant."""
        if found.node.type.startswith("preproc"):
            found.is_global = True
            return found
        if found.name in self.keywords:
            return None
        if found.kind == "variable" and found.node.type == "declaration" and _is_const(found, source):
            found.kind = "constant"
        return found

    def signature(self, found: Found, source: Source) -> str:
        """The head; where the name comes after the body (`typedef struct { … } name`), what is around the body."""
        body = found.body
        if body is not None and body.end_byte <= found.name_node.start_byte:
            before = source.slice(found.node.start_byte, body.start_byte)
            return one_line(f"{before} {source.slice(body.end_byte, found.node.end_byte)}")
        return super().signature(found, source)

    def placed(self, found: Found, around: Sequence[Found], source: Source) -> Found | None:
        """Drop prototypes inside of functions: `Lock lock(mutex);` reads like one, and defines a local."""
        if (
            found.kind in CALLABLES
            and found.node.type in _DECLARATIONS
            and any(one.kind in CALLABLES for one in around)
        ):
            return None
        return found

    def visibility(self, found: Found, around: Sequence[Found], source: Source) -> str:
        """What is static does not leave its file."""
        if around or found.node.type not in {"function_definition", "declaration"}:
            return "public"
        return "private" if source.data.startswith(b"static", found.node.start_byte) else "public"


def _blanked(found: re.Match[bytes]) -> bytes:
    """Return what matched with its first group blank; lines stay lines."""
    start, end = found.start(1) - found.start(), found.end(1) - found.start()
    text = found[0]
    return text[:start] + blank(text[start:end]) + text[end:]


def _is_const(found: Found, source: Source) -> bool:
    """Tell a constant: `const` or `constexpr` before the name, and no pointer between them that may point elsewhere."""
    head = source.slice(found.node.start_byte, min(found.name_node.start_byte, found.node.start_byte + 200))
    words = head.replace("*", " * ").split()
    return "constexpr" in words or ("const" in words and ("*" not in words or words[-1] == "const"))


HOOKS = CHooks()
