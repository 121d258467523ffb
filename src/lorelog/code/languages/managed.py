"""Hooks for Java, Kotlin, Scala and C#.

- Java: modifiers and default visibility, and class names before a dot.
- Kotlin: modifiers, constants, and imports as one path.
- Scala: modifiers, constants, and import clauses with several, renamed or hidden names.
- C#: modifiers, default visibility, operators, and tags in documentation comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tree_sitter import Node

from lorelog.code.languages.hooks import Around, LanguageHooks, SymbolCandidate, UseParts
from lorelog.code.source import SourceText
from lorelog.core.code import ImportStatement

# Java

_LEVELS = {word: word for word in ("public", "protected", "private", "internal")}


class JavaHooks(LanguageHooks):
    doc_marks = ("/**", "///")
    annotation_nodes = frozenset({"annotation", "marker_annotation"})
    levels = _LEVELS
    class_marks = (b".", b":")
    keeps_capitals = True

    def visibility(self, candidate: SymbolCandidate, around: Around, source: SourceText) -> str:
        """Return the modifier; by default members of interfaces, enum constants and record components are public."""
        is_open = around and around[-1].kind == "interface"
        is_public = is_open or (around and candidate.node.type in {"enum_constant", "formal_parameter"})
        return self.written_level(candidate, source) or ("public" if is_public else "package")

    def adjust_use(self, use: UseParts, node: Node, source: SourceText) -> UseParts | None:
        """Drop the type `var`; a capitalized name before a dot is a type (LOG and MAX are constants)."""
        return None if use[:2] == ("var", "type") else super().adjust_use(use, node, source)


# Kotlin


class KotlinHooks(LanguageHooks):
    doc_marks = ("/**",)
    annotation_nodes = frozenset({"annotation"})
    levels = _LEVELS
    words = frozenset({"null", "true", "false", "this", "super", "it", "field", "_"})
    class_marks = (b".",)
    keeps_members = keeps_capitals = True

    def adjust_definition(self, candidate: SymbolCandidate, source: SourceText) -> SymbolCandidate | None:
        """Mark `const val` as a constant."""
        head = source.slice(candidate.node.start_byte, candidate.name_node.start_byte)
        if candidate.kind == "variable" and "const" in head.split():
            candidate.kind = "constant"
        return candidate

    def read_imports(self, captures: dict[str, list[Node]], source: SourceText) -> Iterable[ImportStatement]:
        """Read `import a.b.C as D` as module a.b, name C, alias D."""
        path, _, alias = source.text(captures["import"][0]).partition("import")[2].partition(" as ")
        module, _, name = "".join(path.split()).rstrip(";").rpartition(".")
        line, column = source.position(*captures["import.module"][0].start_point)
        alias = alias.split()[0].rstrip(";") if alias.split() else ""
        if name:
            yield ImportStatement(module or name, name if module else "", alias, line, column)


# Scala

_CLAUSE = re.compile(r"([\w$.`\s]+?)\s*(?:\.\s*(?:\{([^}]*)\}|([_*])))?\s*(?:\bas\s+([\w$]+))?\s*(?:,|$)")
_MAX_NAMES = 500


class ScalaHooks(LanguageHooks):
    doc_marks = ("/**",)
    annotation_nodes = frozenset({"annotation"})
    levels = _LEVELS
    words = frozenset({"this", "_"})

    def adjust_nested(self, candidate: SymbolCandidate, around: Around, source: SourceText) -> SymbolCandidate | None:
        """Mark a capitalized `val` as a constant."""
        is_value = candidate.node.type in {"val_definition", "val_declaration"}
        if candidate.kind == "variable" and is_value and candidate.name[:1].isupper():
            candidate.kind = "constant"
        return candidate

    def read_imports(self, captures: dict[str, list[Node]], source: SourceText) -> Iterable[ImportStatement]:
        """Split a clause: `import a.{B, C => D, _}` is three imports."""
        node = captures["import"][0]
        line, column = source.position(*node.start_point)
        text = " ".join(
            source.slice(node.start_byte, min(node.end_byte, node.start_byte + 1_000)).partition("import")[2].split()
        )
        for match in list(_CLAUSE.finditer(text))[:_MAX_NAMES]:
            path = match[1].replace(" ", "")
            if not path:
                continue
            if match[2] is None and match[3] is None:
                module, _, name = path.rpartition(".")
                yield ImportStatement(module or name, name if module else "", match[4] or "", line, column)
            elif match[3] is not None:
                yield ImportStatement(path, "*", "", line, column)
            else:
                yield from _selected_imports(path, match[2], line, column)


def _selected_imports(path: str, names: str, line: int, column: int) -> Iterable[ImportStatement]:
    for part in names.split(",")[:_MAX_NAMES]:
        name, _, alias = (word.strip() for word in part.replace("=>", " as ").partition(" as "))
        if name and alias != "_":
            yield ImportStatement(path, "*" if name in {"_", "*"} else name, alias, line, column)


# C#

_TAGS = re.compile(r"</?[a-z]\w*[^>\n]*>")
_TYPES = frozenset({"class", "interface", "enum", "type"})


class CSharpHooks(LanguageHooks):
    skipped_before_head = frozenset({"attribute_list"})
    annotation_nodes = frozenset({"attribute_list"})
    levels = _LEVELS
    words = frozenset({"nameof", "var", "_"})
    class_marks = (b".",)
    keeps_members = True

    def adjust_definition(self, candidate: SymbolCandidate, source: SourceText) -> SymbolCandidate | None:
        """Mark `const` and `static readonly` fields as constants, and name destructors and operators."""
        words = {source.text(child) for child in candidate.node.children[:8] if child.type == "modifier"}
        if candidate.kind == "variable" and ("const" in words or {"static", "readonly"} <= words):
            candidate.kind = "constant"
        if candidate.node.type == "destructor_declaration":
            candidate.name = f"~{candidate.name}"
        elif candidate.node.type in {"operator_declaration", "conversion_operator_declaration"}:
            candidate.name = (
                f"operator{candidate.name}" if candidate.name[:1] in "+-*/%&|^!~<>=" else f"operator {candidate.name}"
            )
        return candidate

    def docstring(self, candidate: SymbolCandidate, source: SourceText) -> str:
        """Return the documentation without XML tags."""
        return _TAGS.sub("", super().docstring(candidate, source)).strip()

    def read_imports(self, captures: dict[str, list[Node]], source: SourceText) -> Iterable[ImportStatement]:
        """Remove type arguments from an alias."""
        for statement in super().read_imports(captures, source):
            yield statement._replace(module=statement.module.partition("<")[0])

    def visibility(self, candidate: SymbolCandidate, around: Around, source: SourceText) -> str:
        """Return the modifier; by default types are internal, interface and enum members public, others private."""
        if level := self.written_level(candidate, source):
            return level
        owner = around[-1] if around else None
        if candidate.kind == "module" or (owner is not None and owner.kind in {"interface", "enum"}):
            return "public"
        if candidate.node.type == "parameter":
            return "public"
        return "private" if owner is not None and owner.kind in _TYPES else "internal"
