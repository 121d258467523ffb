"""Hooks for Go, Rust, Swift, C and C++.

- Go: exported names are capitalized; a single spec has the range of its declaration.
- Rust: visibility, use trees, and bases from `impl Trait for Type`.
- Swift: access levels, constants, and imports of single declarations.
- C: macros that break the grammar, false definitions, constants and static visibility.
- C++: templates, operators, qualified names and access specifiers.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache

from tree_sitter import Node

from lorelog.code.extract import blank_bytes
from lorelog.code.languages.hooks import (
    CALLABLES,
    CONTAINER,
    Around,
    LanguageHooks,
    SymbolCandidate,
    UseParts,
    format_head,
)
from lorelog.code.source import SourceText
from lorelog.code.symbols import strip_type_arguments
from lorelog.core.code import ImportStatement

# Go

_WORDS = (
    "any bool byte comparable complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune string uint uint8"
    " uint16 uint32 uint64 uintptr true false nil iota"
)
_PREDECLARED = frozenset(_WORDS.split())
"""Predeclared identifiers, which are not stored as uses."""


class GoHooks(LanguageHooks):
    def adjust_definition(self, candidate: SymbolCandidate, source: SourceText) -> SymbolCandidate | None:
        """Drop the blank name; extend a single spec to its `type …`, `const …` or `var …`."""
        if candidate.name == "_":
            return None
        for whole in candidate.captures.get("h.whole", ()):
            if whole.child_count > 1 and whole.child(1) == candidate.node:
                candidate.node = whole
        return candidate

    def visibility(self, candidate: SymbolCandidate, around: Around, source: SourceText) -> str:
        """Return public for a capitalized name."""
        return "public" if candidate.name[:1].isupper() else "package"

    def adjust_use(self, use: UseParts, node: Node, source: SourceText) -> UseParts | None:
        """Drop predeclared identifiers."""
        name, kind, receiver = use
        return None if not receiver and (name == "_" or (kind != "call" and name in _PREDECLARED)) else use

    def read_imports(self, captures: dict[str, list[Node]], source: SourceText) -> Iterable[ImportStatement]:
        """Read `import . "x"` as an import of all names."""
        for statement in super().read_imports(captures, source):
            yield statement._replace(name="*", alias="") if statement.alias == "." else statement


# Rust

_IMPLS = re.compile(rb"^[ \t]*(?:unsafe[ \t]+)?impl\b([^{;]{1,600}?)(?:\bwhere\b|[{;])", re.MULTILINE)
_MAX_NAMES = 2_000
"""Limit of names in one `use`. Real code has a dozen."""


class RustHooks(LanguageHooks):
    doc_marks = ("///", "/**", "//!", "/*!")
    skipped_before_head = frozenset({"attribute_item"})
    words = frozenset({"Self", "_"})
    class_marks = (b"::",)

    def adjust_definition(self, candidate: SymbolCandidate, source: SourceText) -> SymbolCandidate | None:
        """Set the bases of a type from `impl Trait for Type`."""
        if candidate.kind in {"class", "enum"}:
            candidate.bases = tuple(_traits(source).get(candidate.name, ()))
        return candidate

    def adjust_nested(self, candidate: SymbolCandidate, around: Around, source: SourceText) -> SymbolCandidate | None:
        """Set the trait that an item of `impl Trait for Type` belongs to: the type may be of another file or crate."""
        if around and around[-1].kind == CONTAINER and not candidate.bases:
            traits = around[-1].captures.get("h.trait", ())
            candidate.bases = tuple(strip_type_arguments(source.text(trait)) for trait in traits)
        return candidate

    def visibility(self, candidate: SymbolCandidate, around: Around, source: SourceText) -> str:
        """Return public for `pub`, internal for `pub(crate)`; variants and trait items are as their owner."""
        written = next((child for child in candidate.node.children if child.type == "visibility_modifier"), None)
        if written is not None:
            return "internal" if written.child_count > 1 else "public"
        owner = around[-1] if around else None
        if owner is None:
            return "private"
        if owner.kind == "interface" or candidate.node.type == "enum_variant" or owner.node.type == "enum_variant":
            return owner.visibility or self.visibility(owner, around[:-1], source)
        if owner.kind == CONTAINER and "h.trait" in owner.captures:
            return "public"
        return "private"

    def read_imports(self, captures: dict[str, list[Node]], source: SourceText) -> Iterable[ImportStatement]:
        """Split a use tree: `use a::{b, c as d, e::*}` is three imports."""
        modules = captures.get("import.module", ())
        if captures["import"][0].type != "use_declaration":
            yield from super().read_imports(captures, source)
            return
        stack: list[tuple[str, Node]] = [("", module) for module in modules]
        count = 0
        while stack and count < _MAX_NAMES:
            path, node = stack.pop()
            if node.type == "use_list":
                stack += [(path, child) for child in reversed(node.named_children)]
            elif node.type == "scoped_use_list":
                below, names = node.child_by_field_name("path"), node.child_by_field_name("list")
                if names is not None:
                    stack.append((_join_path(path, source.text(below) if below is not None else ""), names))
            elif node.type not in self.comments:
                count += 1
                yield _build_import(path, node, source)


@lru_cache(maxsize=1)
def _traits(source: SourceText) -> dict[str, list[str]]:
    """Return the traits that a file implements, by type."""
    traits: dict[str, list[str]] = {}
    for head in _IMPLS.finditer(source.data):
        words = strip_type_arguments(head[1].decode("utf-8", "replace").replace("->", " ")).split()
        if "for" in words[1:-1]:
            at = words.index("for", 1)
            name = words[at + 1 if words[at + 1] not in {"&", "mut", "&mut"} else -1].lstrip("&").rpartition("::")[2]
            traits.setdefault(name, []).append(words[at - 1])
    return traits


def _join_path(path: str, below: str) -> str:
    return f"{path}::{below}" if path and below else path or below


def _build_import(path: str, node: Node, source: SourceText) -> ImportStatement:
    """Convert one name of a use tree."""
    alias, text = "", source.text(node)
    if node.type == "use_as_clause":
        named, called = node.child_by_field_name("path"), node.child_by_field_name("alias")
        text = source.text(named) if named is not None else ""
        alias = source.text(called) if called is not None else ""
    line, column = source.position(*node.start_point)
    module, _, name = _join_path(path, "".join(text.split())).rpartition("::")
    if not module and node.type != "use_wildcard":
        return ImportStatement(name, "", alias, line, column)
    if name == "self":
        return ImportStatement(module, "", alias, line, column)
    return ImportStatement(module, name, "" if alias == name else alias, line, column)


# Swift

_LEVELS = {"open": "public", "fileprivate": "private", "public": "public", "private": "private", "internal": "internal"}


class SwiftHooks(LanguageHooks):
    comments = frozenset({"comment", "multiline_comment"})
    annotation_nodes = frozenset({"attribute"})
    levels = _LEVELS
    words = frozenset({"_"})
    class_marks = (b".",)
    keeps_members = True

    def adjust_nested(self, candidate: SymbolCandidate, around: Around, source: SourceText) -> SymbolCandidate | None:
        """Mark a top-level `let` and `static let` as constants."""
        if candidate.kind == "variable":
            words = source.slice(candidate.node.start_byte, candidate.name_node.start_byte).split()
            if "let" in words and (not around or "static" in words):
                candidate.kind = "constant"
        return candidate

    def visibility(self, candidate: SymbolCandidate, around: Around, source: SourceText) -> str:
        """Return the access level; by default that of the owner for requirements and enum cases, else internal."""
        if level := self.written_level(candidate, source):
            return level
        if around and (around[-1].kind == "interface" or candidate.node.type == "enum_entry"):
            return around[-1].visibility or self.visibility(around[-1], (), source)
        return "internal"

    def adjust_use(self, use: UseParts, node: Node, source: SourceText) -> UseParts | None:
        """Drop `$0`."""
        return None if not use[2] and use[0].startswith("$") else super().adjust_use(use, node, source)

    def read_imports(self, captures: dict[str, list[Node]], source: SourceText) -> Iterable[ImportStatement]:
        """Read `import struct A.B` as name B from module A."""
        words = source.text(captures["import"][0]).split()
        for statement in super().read_imports(captures, source):
            module, _, name = statement.module.rpartition(".")
            is_declaration = len(words) > 2 and words[-3:-1][-1] not in {"import", "@testable"}
            yield (
                ImportStatement(module, name, "", statement.line, statement.column)
                if is_declaration and module
                else statement
            )


# C

_C_WORDS = (
    "if else for while do switch case default return sizeof goto break continue struct union enum typedef static extern"
    " const volatile defined void int char"
)
_C_KEYWORDS = frozenset(_C_WORDS.split())
"""After a macro that breaks a statement, the parser reads the next one as a function named `if`."""
_C_DECLARATIONS = frozenset({"declaration", "field_declaration"})


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

    keywords = _C_KEYWORDS
    has_tags = True

    def repair(self, data: bytes) -> bytes:
        """Blank out macros that only a preprocessor could handle."""
        for pattern in _MACROS:
            blanked = bytearray(data)
            for macro in pattern.finditer(data):
                blanked[macro.start(1) : macro.end(1)] = blank_bytes(macro[1])
            data = bytes(blanked)
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

    def adjust_nested(self, candidate: SymbolCandidate, around: Around, source: SourceText) -> SymbolCandidate | None:
        """Drop prototypes inside of functions: `Lock lock(mutex);` looks like one, and defines a local variable."""
        is_inside = any(container.kind in CALLABLES for container in around)
        is_prototype = candidate.kind in CALLABLES and candidate.node.type in _C_DECLARATIONS
        return None if is_prototype and is_inside else candidate

    def visibility(self, candidate: SymbolCandidate, around: Around, source: SourceText) -> str:
        """Return private for static definitions."""
        if around or candidate.node.type not in {"function_definition", "declaration"}:
            return "public"
        return "private" if source.data.startswith(b"static", candidate.node.start_byte) else "public"


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
            sign = " ".join(candidate.name.removeprefix("operator").split())  # `operator+=`, `operator new`
            candidate.name = f"operator {sign}" if sign[:1].isalpha() else f"operator{sign.replace(' ', '')}"
        if candidate.kind == "function" and candidate.of:
            candidate.kind = "method"
        return candidate

    def adjust_nested(self, candidate: SymbolCandidate, around: Around, source: SourceText) -> SymbolCandidate | None:
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

    def visibility(self, candidate: SymbolCandidate, around: Around, source: SourceText) -> str:
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
        head = source.slice(owner.node.start_byte, owner.name_node.start_byte)
        is_class = "class" in head.rpartition(">")[2].split() or head.rstrip().endswith("class")
        return "private" if is_class else "public"
