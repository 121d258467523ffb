"""Symbols, uses and imports of a Python file, from its tree.

What is defined: functions, classes and methods wherever they are, every overload and branch of them; variables of modules and
classes where they are first assigned, in each branch that is an alternative to the others; attributes that
methods give their instance, where the class has no other definition of them. Later assignments are writes. Variables of
functions are no symbols; their uses are marked local.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lorelog.code import python_text as texts
from lorelog.code.python_definitions import DEFINITIONS
from lorelog.code.python_scopes import Kind
from lorelog.code.python_walk import STATEMENTS, Attribute, Defined, Walk
from lorelog.code.source import Source
from lorelog.code.tokens import Tokens, read_tokens
from lorelog.core.code import Import, Span, Symbol, SymbolKind, Use, UseKind

if TYPE_CHECKING:
    from tree_sitter import Node

_HANDLERS = {**STATEMENTS, **DEFINITIONS}
_COMMENTS = frozenset({"comment"})
_BLOCKS = frozenset({"block"})


def read_python(
    roots: Sequence[Node], source: Source
) -> tuple[tuple[Symbol, ...], tuple[Use, ...], tuple[Import, ...]]:
    """Return what a Python file says: one tree, or several that share the file where it is broken."""
    walk = Walk(source, _HANDLERS)
    for root in roots:
        said = texts.docstring_node(root)
        if said is not None:
            walk.docstrings.add(said.start_byte)
        walk.walk(root)
    _settle_attributes(walk)
    _settle_globals(walk)
    tokens = Tokens.joined(
        read_tokens(root, source, _COMMENTS, blocks=_BLOCKS, silent=walk.docstrings)[0] for root in roots
    )
    order = sorted(
        range(len(walk.defined)),
        key=lambda index: (walk.defined[index].node.start_byte, -walk.defined[index].node.end_byte, index),
    )
    kept, places = _without_repeats(order, walk)
    symbols = tuple(_symbol(walk.defined[index], walk, tokens) for index in kept)
    uses = _uses(walk, places)
    if len(roots) > 1:
        return symbols, tuple(dict.fromkeys(uses)), tuple(dict.fromkeys(walk.imports))
    return symbols, uses, tuple(walk.imports)


def _without_repeats(order: list[int], walk: Walk) -> tuple[list[int], dict[int, int]]:
    """Return each definition once, as it was read first, and where each of them is found then.

    A class that was read in parts is there as often.
    """
    first: dict[int, int] = {}
    for index, made in enumerate(walk.defined):
        first.setdefault(made.name_node.start_byte, index)
    kept = [index for index in order if first[walk.defined[index].name_node.start_byte] == index]
    where = {index: place for place, index in enumerate(kept)}
    places = {index: where[first[made.name_node.start_byte]] for index, made in enumerate(walk.defined)}
    return kept, {-1: -1, **places}


def _settle_attributes(walk: Walk) -> None:
    """Decide which assignments to attributes of an instance define them: the first, where the class does not."""
    known: set[tuple[int, str]] = set()
    for one in walk.attributes:
        key = (id(one.owner), one.name)
        if key in known or one.name in one.owner.bound or one.name in one.owner.shared:
            place = one.target.start_point
            walk.uses.append((one.name, UseKind.WRITE, place, one.scope, one.receiver, False))
            continue
        known.add(key)
        _define_attribute(one, walk)


def _define_attribute(one: Attribute, walk: Walk) -> None:
    signature, docstring = walk.said(one.node)
    walk.defined.append(
        Defined(
            one.name, SymbolKind.VARIABLE, one.node, one.target, one.owner, one.owner.container, signature, docstring
        )
    )


def _settle_globals(walk: Walk) -> None:
    """A name that only functions assign, declared global, is defined where the first of them does."""
    module = walk.module
    for name, node, statement, scope in walk.globals:
        if name in module.bound or name in module.shared:
            walk.uses.append((name, UseKind.WRITE, node.start_point, scope, "", False))
        else:
            walk.variable(name, node, module, statement)


def _symbol(made: Defined, walk: Walk, tokens: Tokens) -> Symbol:
    source, node = walk.source, made.node
    line, column = source.place(*made.name_node.start_point)
    is_exported = not made.container and made.name in walk.exported
    seen = texts.visibility(made.name, in_class=made.scope.binder().kind is Kind.CLASS)
    return Symbol(
        made.name,
        made.kind,
        Span(*source.place(*node.start_point), *source.place(*node.end_point)),
        line,
        column,
        made.signature,
        made.docstring,
        "public" if is_exported else seen,
        made.container,
        made.bases,
        tokens.digest(node.start_byte, node.end_byte, made.name),
    )


def _uses(walk: Walk, places: dict[int, int]) -> tuple[Use, ...]:
    place = walk.source.place
    uses = [
        Use(name, kind, *place(*point), places[scope.symbol], receiver, may_be_local and scope.is_local(name))
        for name, kind, point, scope, receiver, may_be_local in walk.uses
        if name
    ]
    uses.sort(key=_by_place)
    return tuple(uses)


def _by_place(use: Use) -> tuple[int, int]:
    return use.line, use.column
