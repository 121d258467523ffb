"""Roots that are to be indexed no longer, and what was indexed from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lorelog.core.errors import NotFound
from lorelog.core.paths import is_below
from lorelog.core.ports import Store
from lorelog.services.reach import real_path
from lorelog.services.roots import Roots


def forget(paths: Sequence[str], roots: Roots, store: Store, is_page: Callable[[str], bool]) -> int:
    """Drop the roots at some paths, and those inside them; return how many documents that were.

    Raise NotFound when a path holds no root, before anything is dropped. Pages of records lie in folders that nobody chose: they
    stay as long as their records do.
    """
    indexed = {document.root for document in store.documents()}
    known = {root.path for root in roots.all()} | {one for one in indexed if not is_page(one)}
    wanted: set[str] = set()
    for path in map(real_path, paths):
        inside = {root for root in known if is_below(root, path)}
        if not inside:
            named = ", ".join(sorted(known)) or "none"
            raise NotFound(f"{path} was not indexed as a root", hint=f"the roots are: {named}")
        wanted |= inside
    return drop(wanted, roots, store)


def drop(paths: set[str], roots: Roots, store: Store) -> int:
    """Forget roots and what was indexed from them; return how many documents that were.

    The list goes first: whoever follows changes at this moment sees afterwards that a root has left it.
    """
    with store.writer() as writer:
        roots.forget(paths)
        dropped = writer.remove([one.source for one in store.documents() if one.root in paths])
        writer.sweep()
    return dropped
