"""C++: templates, operators, qualified names and access specifiers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from lorelog.code.languages.c import CHooks
from lorelog.code.languages.hooks import CALLABLES, SymbolCandidate
from lorelog.code.source import SourceText

_WORDS = (
    "and or not new delete throw catch try operator template typename class namespace using public private protected"
)
_ACCESS = "h.access"


class CppHooks(CHooks):
    """Hooks for C++."""

    keywords = CHooks.keywords | frozenset(_WORDS.split())

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


HOOKS = CppHooks()
