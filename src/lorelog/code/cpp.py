"""C++: templates around a definition, names with scopes, and who may use a member."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from lorelog.code.c import CHooks
from lorelog.code.hooks import CALLABLES, Found
from lorelog.code.source import Source

_WORDS = (
    "and or not new delete throw catch try operator template typename class namespace using public private protected"
)
_ACCESS = "h.access"


class CppHooks(CHooks):
    """What C++'s grammar does not say."""

    keywords = CHooks.keywords | frozenset(_WORDS.split())

    def defined(self, found: Found, source: Source) -> Found | None:
        """Widen to `template <…>`; take names apart."""
        if super().defined(found, source) is None:
            return None
        start = found.node.start_byte
        # the parent is looked for from the root, which is dear: only where a template's `>` or `requires (…)` may end
        if source.data[max(0, start - 80) : start].rstrip()[-1:] in b">)" and start:
            around = found.node.parent
            if around is not None and around.type == "template_declaration":
                found.node = around
        if found.kind == "module" and found.node == found.name_node:
            found.is_global, found.signature = True, f"namespace {found.name}"
        if found.name_node.type == "operator_cast":
            found.name = " ".join(found.name.partition("(")[0].split())
        elif found.name_node.type == "operator_name":
            found.name = _operator(found.name)
        if found.kind == "function" and found.of:
            found.kind = "method"
        return found

    def placed(self, found: Found, around: Sequence[Found], source: Source) -> Found | None:
        """Drop macros that stand where members stand: only constructors, destructors and conversions have no type."""
        owner = around[-1] if around else None
        if (
            owner is not None
            and owner.kind == "class"
            and found.kind in CALLABLES
            and found.name_node.type in {"identifier", "field_identifier"}
            and found.name != owner.name
            and found.node.type != "template_declaration"
            and not found.node.type.startswith("preproc")
            and found.node.child_by_field_name("type") is None
        ):
            return None
        return super().placed(found, around, source)

    def visibility(self, found: Found, around: Sequence[Found], source: Source) -> str:
        """The last `private:` before a member counts; without one, a class is private and a struct public."""
        owner = around[-1] if around else None
        if owner is None or owner.kind != "class" or owner.body is None:
            return super().visibility(found, around, source)
        marks = owner.captures.get(_ACCESS)
        if marks is None:
            marks = [child for child in owner.body.children if child.type == "access_specifier"]
            owner.captures[_ACCESS] = marks
        at = bisect_right(marks, found.node.start_byte, key=lambda mark: mark.start_byte)
        if at:
            return source.text(marks[at - 1]).strip(" :\t\n")
        return "private" if _is_private(owner, source) else "public"


def _is_private(owner: Found, source: Source) -> bool:
    head = source.slice(owner.node.start_byte, owner.name_node.start_byte)
    return "class" in head.rpartition(">")[2].split() or head.rstrip().endswith("class")


def _operator(name: str) -> str:
    """Return an operator's name as it is mostly written: `operator+=`, `operator new`."""
    sign = " ".join(name.removeprefix("operator").split())
    return f"operator {sign}" if sign[:1].isalpha() else f"operator{sign.replace(' ', '')}"


HOOKS = CppHooks()
