"""Hooks for C and C++.

- C: macros that break the grammar, false definitions, constants and static visibility.
- C++: templates, operators, qualified names and access specifiers.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from lorelog.code.languages.hooks import CALLABLES, LanguageHooks, SymbolCandidate, format_head
from lorelog.code.repair import blank_bytes
from lorelog.code.source import SourceText

# C

_C_WORDS = (
    "if else for while do switch case default return sizeof goto break continue struct union enum typedef static extern"
    " const volatile defined void int char"
)
_KEYWORDS = frozenset(_C_WORDS.split())
"""After a macro that breaks a statement, the parser reads the next one as a function named `if`."""
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
    # a line that is only a macro
    re.compile(rb"^([A-Z][A-Z0-9_]{3,}(?:\([^()\n]*\))?)[ \t]*$(?!\s*[{(:=,])", re.MULTILINE),
)
"""Macros that a parser without a preprocessor reads as types. Blanked out only if the file has errors."""


class CHooks(LanguageHooks):
    """Hooks for C."""

    keywords = _KEYWORDS
    has_tags = True

    def repair(self, data: bytes) -> bytes:
        """Blank out macros that only a preprocessor could handle."""
        for pattern in _MACROS:
            data = pattern.sub(_blank_match, data)
        return data

    def adjust_definition(self, candidate: SymbolCandidate, source: SourceText) -> SymbolCandidate | None:
        """Drop definitions named like a keyword; `const` makes a variable a constant."""
        if candidate.node.type.startswith("preproc"):
            candidate.is_global = True
            return candidate
        if candidate.name in self.keywords:
            return None
        if candidate.kind == "variable" and candidate.node.type == "declaration" and _is_const(candidate, source):
            candidate.kind = "constant"
        return candidate

    def signature(self, candidate: SymbolCandidate, source: SourceText) -> str:
        """Return the head; if the name follows the body (`typedef struct { … } name`), the text around the body."""
        body = candidate.body
        if body is not None and body.end_byte <= candidate.name_node.start_byte:
            before = source.slice(candidate.node.start_byte, body.start_byte)
            return format_head(f"{before} {source.slice(body.end_byte, candidate.node.end_byte)}")
        return super().signature(candidate, source)

    def adjust_nested(
        self, candidate: SymbolCandidate, around: Sequence[SymbolCandidate], source: SourceText
    ) -> SymbolCandidate | None:
        """Drop prototypes inside of functions: `Lock lock(mutex);` looks like one, and defines a local variable."""
        if (
            candidate.kind in CALLABLES
            and candidate.node.type in _DECLARATIONS
            and any(container.kind in CALLABLES for container in around)
        ):
            return None
        return candidate

    def visibility(self, candidate: SymbolCandidate, around: Sequence[SymbolCandidate], source: SourceText) -> str:
        """Return private for static definitions."""
        if around or candidate.node.type not in {"function_definition", "declaration"}:
            return "public"
        return "private" if source.data.startswith(b"static", candidate.node.start_byte) else "public"


def _blank_match(match: re.Match[bytes]) -> bytes:
    """Blank out the first group of a match, except line breaks."""
    start, end = match.start(1) - match.start(), match.end(1) - match.start()
    text = match[0]
    return text[:start] + blank_bytes(text[start:end]) + text[end:]


def _is_const(candidate: SymbolCandidate, source: SourceText) -> bool:
    """Return True if `const` or `constexpr` precedes the name, without a non-const pointer between them."""
    head = source.slice(candidate.node.start_byte, min(candidate.name_node.start_byte, candidate.node.start_byte + 200))
    words = head.replace("*", " * ").split()
    return "constexpr" in words or ("const" in words and ("*" not in words or words[-1] == "const"))


# C++

_CPP_WORDS = (
    "and or not new delete throw catch try operator template typename class namespace using public private protected"
)
_ACCESS = "h.access"


class CppHooks(CHooks):
    """Hooks for C++."""

    keywords = CHooks.keywords | frozenset(_CPP_WORDS.split())

    def adjust_definition(self, candidate: SymbolCandidate, source: SourceText) -> SymbolCandidate | None:
        """Extend the range to `template <…>`, and normalize the names of operators."""
        if super().adjust_definition(candidate, source) is None:
            return None
        start = candidate.node.start_byte
        # `Node.parent` searches from the root, which is slow: only if a template's `>` or `requires (…)` may end here
        if source.data[max(0, start - 80) : start].rstrip()[-1:] in b">)" and start:
            around = candidate.node.parent
            if around is not None and around.type == "template_declaration":
                candidate.node = around
        if candidate.kind == "module" and candidate.node == candidate.name_node:
            candidate.is_global, candidate.signature = True, f"namespace {candidate.name}"
        if candidate.name_node.type == "operator_cast":
            candidate.name = " ".join(candidate.name.partition("(")[0].split())
        elif candidate.name_node.type == "operator_name":
            candidate.name = _operator_name(candidate.name)
        if candidate.kind == "function" and candidate.of:
            candidate.kind = "method"
        return candidate

    def adjust_nested(
        self, candidate: SymbolCandidate, around: Sequence[SymbolCandidate], source: SourceText
    ) -> SymbolCandidate | None:
        """Drop macros among members: only constructors, destructors and conversions have no type."""
        owner = around[-1] if around else None
        if (
            owner is not None
            and owner.kind == "class"
            and candidate.kind in CALLABLES
            and candidate.name_node.type in {"identifier", "field_identifier"}
            and candidate.name != owner.name
            and candidate.node.type != "template_declaration"
            and not candidate.node.type.startswith("preproc")
            and candidate.node.child_by_field_name("type") is None
        ):
            return None
        return super().adjust_nested(candidate, around, source)

    def visibility(self, candidate: SymbolCandidate, around: Sequence[SymbolCandidate], source: SourceText) -> str:
        """Return the last access specifier before a member; without one, a class is private and a struct public."""
        owner = around[-1] if around else None
        if owner is None or owner.kind != "class" or owner.body is None:
            return super().visibility(candidate, around, source)
        marks = owner.captures.get(_ACCESS)
        if marks is None:
            marks = [child for child in owner.body.children if child.type == "access_specifier"]
            owner.captures[_ACCESS] = marks
        at = bisect_right(marks, candidate.node.start_byte, key=lambda mark: mark.start_byte)
        if at:
            return source.text(marks[at - 1]).strip(" :\t\n")
        return "private" if _is_private(owner, source) else "public"


def _is_private(owner: SymbolCandidate, source: SourceText) -> bool:
    head = source.slice(owner.node.start_byte, owner.name_node.start_byte)
    return "class" in head.rpartition(">")[2].split() or head.rstrip().endswith("class")


def _operator_name(name: str) -> str:
    """Return the usual spelling of an operator: `operator+=`, `operator new`."""
    sign = " ".join(name.removeprefix("operator").split())
    return f"operator {sign}" if sign[:1].isalpha() else f"operator{sign.replace(' ', '')}"


HOOKS: dict[str, LanguageHooks] = {"c": CHooks(), "cpp": CppHooks()}
