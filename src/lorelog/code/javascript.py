"""JavaScript and TypeScript: what is exported, what an assignment defines, and how far a definition reaches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from lorelog.code.hooks import Found, Hooks, one_line
from lorelog.code.mending import blank
from lorelog.code.source import Source
from lorelog.core.code import Import

if TYPE_CHECKING:
    from tree_sitter import Node

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
_WORDS = frozenset({"undefined", "arguments", "bigint"})
_HEAD = re.compile(rb"(?:export\s+)?(?:declare\s+)?(const|let|var|function|class|interface|type)\s+[\w$]+")
_TAILS = {b"function": b"(){}", b"class": b"{}", b"interface": b"{}", b"type": b"=0"}
_FLOW = (
    re.compile(rb"([:<|(,=&]\s*)(\?)(?=[\w$({\[<'*])"),  # ?Type
    re.compile(rb"(\{)(\|)"),  # {| exact |}
    re.compile(rb"()(\|)(?=\})"),
    re.compile(rb"(^[ \t]*|[{,]\s*)([+-])(?=[\w$]+\??\s*:|\[)", re.MULTILINE),  # +readonly: Type
    re.compile(rb"([,{|;]\s*)(\.\.\.)(?=\s*\})"),  # {…, ...}
    re.compile(rb"(^[ \t]*(?:export[ \t]+)?)(opaque)(?=[ \t]+type)", re.MULTILINE),
    re.compile(rb"(import[ \t]+type)(of)(?=[ \t])"),
    re.compile(rb"([=(,:?&|!\[]\s*\([\w$.\[\]]+)(:\s*[\w$.<>]+)(?=\)(?!\s*(?:=>|\{|:)))"),  # (value: Type)
)
"""What Flow writes otherwise than TypeScript: blanked out where a file does not parse with it."""
_QUOTES = "\"'`"


class JavaScriptHooks(Hooks):
    """What the grammars of JavaScript and TypeScript do not say."""

    between = frozenset({"decorator"})
    heralds = frozenset({"decorator"})
    tops = re.compile(
        rb"^(?:export|import|const|let|var|function|async|class|abstract|interface|type|enum|namespace|declare)\b",
        re.MULTILINE,
    )

    def mended(self, data: bytes) -> bytes:
        """Blank out variance (`<in out T>`), and end members before the next line's `<T>(…)`, which the grammar joins."""
        if b"@flow" in data[:2_000]:
            for pattern in _FLOW:
                data = pattern.sub(lambda found: found[1] + b" " * len(found[2]), data)
        data = _VARIANCE.sub(lambda found: found[1] + b" " * len(found[2]), data)
        return _SIGNATURES.sub(lambda found: found[1] + found[2][:-1] + b";<", data)

    def stub(self, part: bytes) -> bytes:
        """`export const f: {…} = …` becomes `export const f`, and so on."""
        head = _HEAD.match(part)
        if head is None:
            return blank(part)
        tail, rest = _TAILS.get(head[1], b""), bytearray(blank(part[head.end() :]))
        at = rest.find(b" " * len(tail))
        if at >= 0:
            rest[at : at + len(tail)] = tail
        return head[0] + bytes(rest)

    def defined(self, found: Found, source: Source) -> Found | None:
        """Name what an assignment defines, and widen what stands alone in its declaration or is exported."""
        found.name = found.name.strip(_QUOTES)
        if not _is_defined(found, source):
            return None
        _widen(found)
        found.is_member = "h.constructor" in found.captures or found.node.type in _PARAMETERS
        return found

    def visibility(self, found: Found, around: Sequence[Found], source: Source) -> str:
        """What is written; a module shows what it exports, and a script shows everything."""
        if found.name.startswith("#"):
            return "private"
        written = next((child for child in found.node.children[:4] if child.type == "accessibility_modifier"), None)
        if written is not None:
            return source.text(written)
        if around or found.kind == "method":
            return "public"
        names = _exported(source)
        is_shown = names is None or found.name in names or "h.export" in found.captures or "h.object" in found.captures
        return "public" if is_shown else "private"

    def signature(self, found: Found, source: Source) -> str:
        """The head; an alias of a type is all head."""
        if found.kind == "type":
            return one_line(source.text(found.node))
        return super().signature(found, source).removesuffix("=>").rstrip()

    def imported(self, captures: dict[str, list[Node]], source: Source) -> Iterable[Import]:
        """A default import takes `default`; `require` in a declaration is told by the declaration's own pattern."""
        whole = captures["import"][0]
        if "h.bare" in captures and _DECLARED.search(source.data, max(0, whole.start_byte - 400), whole.start_byte):
            return
        default = captures.get("h.default")
        for taken in super().imported(captures, source):
            if default:
                line, column = source.place(*default[0].start_point)
                yield Import(taken.module, "default", source.text(default[0]), line, column)
            else:
                yield taken

    def used(self, name: str, kind: str, receiver: str, node: Node, source: Source) -> tuple[str, str, str] | None:
        """Some words of the language are identifiers in its grammar."""
        return None if name in _WORDS and not receiver else (name, kind, receiver)


def _is_defined(found: Found, source: Source) -> bool:
    """Tell definitions from what looks like one: computed names, required modules, `exports.f = f`."""
    captures = found.captures
    if found.name.startswith("["):
        return False
    if "h.called" in captures:
        found.kind = "constant" if _is_const(found, source) else "variable"
        return source.text(captures["h.called"][0]) != "require"
    if "h.object" in captures and not _assigned(found, source.text(captures["h.object"][0])):
        return False
    if any(source.text(value) == found.name for value in captures.get("h.value", ())):
        return False
    return all(source.text(method) == "constructor" for method in captures.get("h.constructor", ()))


def _widen(found: Found) -> None:
    """Let a definition reach as far as its `const …;`, its `declare`, its `export`."""
    for whole in found.captures.get("h.declaration", ()):
        if whole.named_child_count == 1:
            found.node = whole
    for whole in found.captures.get("h.ambient", ()):
        found.node = whole
    for whole in found.captures.get("h.export", ()):
        inner = whole.child_by_field_name("declaration")
        if inner is None or inner.type not in _DECLARATIONS or inner.named_child_count == 1:
            found.node = whole


def _is_const(found: Found, source: Source) -> bool:
    declarations = found.captures.get("h.declaration", ())
    return any(source.data.startswith(b"const", declaration.start_byte) for declaration in declarations)


def _assigned(found: Found, to: str) -> bool:
    """Say of what an assignment's target is a member: `exports.f`, `A.prototype.f`, `A.f`, `this.f`."""
    if (to, found.name) == ("module", "exports") or found.name == "prototype":
        return False
    owner = to.removesuffix(".prototype")
    if to in _EXPORTS or owner in _EXPORTS:
        found.kind = "function" if found.kind == "method" else found.kind
        return True
    if owner == "this" or not owner.replace(".", "").replace("$", "").isidentifier():
        return found.kind != "variable"
    if found.kind == "variable" and (not owner[:1].isupper() or "." in owner):
        return False
    found.of = owner
    return True


@lru_cache(maxsize=1)
def _exported(source: Source) -> frozenset[str] | None:
    """Return the names that a module exports in lists; None for a script, which has no exports."""
    if not _MODULE.search(source.data):
        return None
    names: set[str] = set()
    for listed in _LISTED.finditer(source.data):
        for part in (listed[1] or listed[2] or listed[3] or b"").split(b","):
            words = part.split()
            if words:
                names.add(words[-3 if b"as" in words and len(words) >= 3 else -1].decode("utf-8", "replace"))
    return frozenset(names)


HOOKS = JavaScriptHooks()
