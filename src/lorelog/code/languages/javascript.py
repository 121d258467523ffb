"""JavaScript and TypeScript: exports, definitions by assignment, and the range of a definition."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from tree_sitter import Node

from lorelog.code.languages.hooks import Around, LanguageHooks, SymbolCandidate, format_head
from lorelog.code.source import SourceText
from lorelog.core.code import ImportStatement

_EXPORTS = frozenset({"exports", "module.exports"})
_MODULE = re.compile(rb"^[ \t]*(?:export|import)\b", re.MULTILINE)
_LISTED = re.compile(
    rb"^[ \t]*export\s*(?:type\s*)?\{([^}]*)\}|^[ \t]*export\s+default\s+(\w+)|^[ \t]*export\s*=\s*(\w+)", re.MULTILINE
)
_DECLARATIONS = frozenset({"lexical_declaration", "variable_declaration"})
_PARAMETERS = frozenset({"required_parameter", "optional_parameter"})
_DECLARED = re.compile(rb"(?:const|let|var|,)\s+(?:[\w$]+|\{[^{}]*\})\s*=\s*$")
_VARIANCE = re.compile(rb"([<,]\s*)((?:(?:in|out|const)\s+){1,2})(?=[A-Za-z_$])")
_SIGNATURES = re.compile(
    rb"((?:[\w$>)\]}\"']|\*/)[ \t]*(?:\r?\n[ \t]*//[^\n]*|\r?\n[ \t]*(?:/?\*[^\n]*)?)*\r?\n)([ \t]+)<(?=[\w$]+[\s,>])"
)
_QUOTES = "\"'`"


class JavaScriptHooks(LanguageHooks):
    """Hooks for JavaScript and TypeScript."""

    skipped_before_head = frozenset({"decorator"})
    annotation_nodes = frozenset({"decorator"})
    words = frozenset({"undefined", "arguments", "bigint"})

    def repair(self, data: bytes) -> bytes:
        """Blank out variance (`<in out T>`), and end members before a line `<T>(…)`, which the grammar joins."""
        data = _VARIANCE.sub(lambda match: match[1] + b" " * len(match[2]), data)
        return _SIGNATURES.sub(lambda match: match[1] + match[2][:-1] + b";<", data)

    def adjust_definition(self, candidate: SymbolCandidate, source: SourceText) -> SymbolCandidate | None:
        """Drop false definitions, and extend single or exported declarations to the whole statement."""
        candidate.name = candidate.name.strip(_QUOTES)
        if not _is_defined(candidate, source):
            return None
        captures = candidate.captures
        for whole in captures.get("h.declaration", ()):
            candidate.node = whole if whole.named_child_count == 1 else candidate.node
        for whole in (*captures.get("h.ambient", ()), *captures.get("h.export", ())):
            inner = whole.child_by_field_name("declaration") if whole in captures.get("h.export", ()) else None
            if inner is None or inner.type not in _DECLARATIONS or inner.named_child_count == 1:
                candidate.node = whole
        candidate.is_member = "h.constructor" in captures or candidate.node.type in _PARAMETERS
        return candidate

    def visibility(self, candidate: SymbolCandidate, around: Around, source: SourceText) -> str:
        """Return the modifier; by default a module's exports are public, and everything in a script is."""
        if candidate.name.startswith("#"):
            return "private"
        written = next((child for child in candidate.node.children[:4] if child.type == "accessibility_modifier"), None)
        if written is not None:
            return source.text(written)
        if around or candidate.kind == "method":
            return "public"
        names = _exported_names(source)
        is_shown = (
            names is None
            or candidate.name in names
            or "h.export" in candidate.captures
            or "h.object" in candidate.captures
        )
        return "public" if is_shown else "private"

    def signature(self, candidate: SymbolCandidate, source: SourceText) -> str:
        """Return the head; a type alias has no body."""
        if candidate.kind == "type":
            return format_head(source.text(candidate.node))
        return super().signature(candidate, source).removesuffix("=>").rstrip()

    def read_imports(self, captures: dict[str, list[Node]], source: SourceText) -> Iterable[ImportStatement]:
        """Read a default import as `default`; skip a `require` that the pattern of a declaration already matches."""
        whole = captures["import"][0]
        if "h.bare" in captures and _DECLARED.search(source.data, max(0, whole.start_byte - 400), whole.start_byte):
            return
        default = captures.get("h.default")
        for statement in super().read_imports(captures, source):
            if default:
                line, column = source.position(*default[0].start_point)
                yield ImportStatement(statement.module, "default", source.text(default[0]), line, column)
            else:
                yield statement


def _is_defined(candidate: SymbolCandidate, source: SourceText) -> bool:
    """Return False for false definitions: computed names, required modules, `exports.f = f`."""
    captures = candidate.captures
    if candidate.name.startswith("["):
        return False
    if "h.called" in captures:
        declared = captures.get("h.declaration", ())
        is_const = any(source.data.startswith(b"const", declaration.start_byte) for declaration in declared)
        candidate.kind = "constant" if is_const else "variable"
        return source.text(captures["h.called"][0]) != "require"
    if "h.object" in captures and not _is_member_assignment(candidate, source.text(captures["h.object"][0])):
        return False
    if any(source.text(value) == candidate.name for value in captures.get("h.value", ())):
        return False
    return all(source.text(method) == "constructor" for method in captures.get("h.constructor", ()))


def _is_member_assignment(candidate: SymbolCandidate, to: str) -> bool:
    """Set the container of an assigned member (`exports.f`, `A.prototype.f`, `A.f`); return False if it is not one."""
    if (to, candidate.name) == ("module", "exports") or candidate.name == "prototype":
        return False
    owner = to.removesuffix(".prototype")
    if to in _EXPORTS or owner in _EXPORTS:
        candidate.kind = "function" if candidate.kind == "method" else candidate.kind
        return True
    if owner == "this" or not owner.replace(".", "").replace("$", "").isidentifier():
        return candidate.kind != "variable"
    if candidate.kind == "variable" and (not owner[:1].isupper() or "." in owner):
        return False
    candidate.of = owner
    return True


@lru_cache(maxsize=1)
def _exported_names(source: SourceText) -> frozenset[str] | None:
    """Return the names in a module's export lists; None for a script."""
    if not _MODULE.search(source.data):
        return None
    names: set[str] = set()
    for listed in _LISTED.finditer(source.data):
        for part in (listed[1] or listed[2] or listed[3] or b"").split(b","):
            words = part.split()
            if words:
                names.add(words[-3 if b"as" in words and len(words) >= 3 else -1].decode("utf-8", "replace"))
    return frozenset(names)
