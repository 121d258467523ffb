"""What variables of a function are known to hold, said behind the receiver of a use.

`x.close()` means something only if one knows what `x` is. Annotations of parameters, attributes and variables of modules
stand in signatures; those of a function's variables stand nowhere but in its body, so they are noted while it is walked:
`x=Foo` for a variable that was given a call of `Foo`, `x:Foo` for one that is annotated, or that `isinstance` was asked about,
`x~y.z` for one that was given another name, `x*y.z` and `x*=f` for one that goes over what is in a name or comes of a
call, and `?=Foo` for a call itself. What was said last above the use counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorelog.code.matching import MOST_NAME
from lorelog.code.python_scopes import Kind, Scope
from lorelog.code.source import Source

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST_SCOPES = 50
_AROUND = frozenset({"parenthesized_expression", "await"})
_SAME_ITEMS = frozenset({"reversed", "sorted", "list", "tuple", "set", "frozenset", "iter"})
_MOST_CONDITIONS = 20
_MOST_NOTES = 50


def hint_of(statement: Node | None, target: Node, source: Source) -> str:
    """Return what an assignment says of its only target; empty where it says nothing."""
    if statement is None or statement.child_by_field_name("left") != target:
        return ""
    typed = statement.child_by_field_name("type")
    if typed is not None:
        text = source.text(typed)
        return f":{text}" if len(text) <= MOST_NAME and "\n" not in text else ""
    return value_of(statement.child_by_field_name("right"), source)


def value_of(node: Node | None, source: Source) -> str:
    """Return what an expression is: a call of a plain name, or a plain name itself."""
    for _ in range(3):
        if node is None or node.type not in _AROUND or node.named_child_count != 1:
            break
        node = node.named_child(0)
    if node is None:
        return ""
    if node.type == "call":
        name = plain_name(node.child_by_field_name("function"), source)
        return f"={name}" if name else ""
    name = plain_name(node, source)
    return f"~{name}" if name else ""


def caught(node: Node | None, source: Source) -> str:
    """Return what `as` gives a name to: what a call gives, or an error of a class. Other things are seldom classes."""
    value = value_of(node, source)
    if value.startswith("~"):
        return f":{value[1:]}" if value.rpartition(".")[2].lstrip("~_")[:1].isupper() else ""
    return value


def narrow(scope: Scope, condition: Node, end: int, source: Source) -> None:
    """Take note of what `isinstance` says in a condition that holds up to a place."""
    if scope.kind in (Kind.MODULE, Kind.CLASS):
        return
    waiting = [condition]
    for _ in range(_MOST_CONDITIONS):
        if not waiting:
            return
        node = waiting.pop()
        is_chain = node.type == "boolean_operator" and any(one.type == "and" for one in node.children)
        if is_chain or node.type == "parenthesized_expression":
            waiting += node.named_children
        elif node.type == "call":
            name, said = _asked(node, source)
            if said and known(scope, name, node.end_byte) != f":{said}":  # a condition is met again inside of it
                before = known(scope, name, node.start_byte)
                note(scope, name, node.end_byte, f":{said}")
                note(scope, name, end, before)


def _asked(node: Node, source: Source) -> tuple[str, str]:
    """Return what `isinstance` is asked about, and for which classes."""
    function, given = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    if function is None or given is None or source.text(function) != "isinstance" or given.named_child_count != 2:
        return "", ""
    about, classes = given.named_children
    if about.type != "identifier":
        return "", ""
    names = [plain_name(one, source) for one in (classes.named_children if classes.type == "tuple" else [classes])]
    return source.text(about), " | ".join(names) if all(names) and len(names) <= _MOST_CONDITIONS else ""


def go_over(target: Node | None, value: Node | None, source: Source) -> dict[str, str]:
    """Return what a loop says of its variables."""
    if target is None or value is None:
        return {}
    names = [source.text(one) if one.type == "identifier" else "" for one in target.named_children]
    function = value.child_by_field_name("function") if value.type == "call" else None
    called = plain_name(function, source)
    given = value.child_by_field_name("arguments") if called else None
    first = given.named_child(0) if given is not None and given.named_child_count else None
    if target.type == "identifier":
        if called in _SAME_ITEMS and first is not None:
            value = first
        said = value_of(value, source)
        return {source.text(target): f"*{said.lstrip('~')}"} if said else {}
    if len(names) != 2 or not called:
        return {}
    if called == "enumerate" and first is not None:
        said = value_of(first, source)
        return {names[1]: f"*{said.lstrip('~')}"} if said and names[1] else {}
    owner, _, last = called.rpartition(".")
    if last != "items" or not owner:
        return {}
    return {name: f"*={owner}.{one}" for name, one in zip(names, ("keys", "values"), strict=True) if name}


def plain_name(node: Node | None, source: Source) -> str:
    """Return a name, with dots or without; empty for anything else."""
    if node is None or node.type not in ("identifier", "attribute") or node.end_byte - node.start_byte > MOST_NAME:
        return ""
    text = source.text(node)
    return text if all(part.isidentifier() for part in text.split(".")) else ""


def note(scope: Scope, name: str, end: int, hint: str) -> None:
    """Take note of what a function's variable holds from a place on."""
    if scope.held or hint:
        scope.held.setdefault(name, []).append((end, hint))


def known(scope: Scope, receiver: str, start: int) -> str:
    """Return what is known at a place of the variable that a receiver begins with."""
    name = receiver.partition(".")[0]
    around: Scope | None = scope
    for _ in range(_MOST_SCOPES):
        if around is None or around.kind is Kind.MODULE:
            return ""
        if name in around.held:
            return max(
                ((end, hint) for end, hint in around.held[name][-_MOST_NOTES:] if end <= start), default=(0, "")
            )[1]
        if name in around.bound and around.kind is not Kind.CLASS:
            return ""
        around = around.parent
    return ""
