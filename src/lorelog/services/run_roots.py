"""Which roots are remembered while an index run lasts, and after it.

Before: what a run that is stopped leaves in the index must lie in a root that is known, or nobody could ask for it again
or be rid of it. After: a root that turned out to be none is taken back, and so is every change of a run that failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress

from lorelog.core.errors import LorelogError
from lorelog.core.paths import is_below
from lorelog.core.ports import Store
from lorelog.services.roots import Root, Roots


class RunRoots:
    """The roots of one run, and the list they are remembered in."""

    def __init__(self, roots: Sequence[Root], remembered: Roots, store: Store) -> None:
        self._roots = roots
        self._list = remembered
        self._store = store
        self._known = remembered.all()
        excluded = [path for root in roots for path in root.exclude]
        self._left_out = {root.path for root in roots if any(is_below(root.path, path) for path in excluded)}
        self._early: set[str] = set()

    @contextmanager
    def remembered(self) -> Iterator[None]:
        """Remember what is there while a run lasts, and go back to what was known if it fails."""
        there = [root for root in self._roots if root.exists() and root.path not in self._left_out]
        self._list.remember(there)
        self._early = {root.path for root in there}
        try:
            yield
        except BaseException:
            with suppress(LorelogError):  # the first fault is the one to tell
                self._take_back(self._early)
            raise

    def settle(self, bad: AbstractSet[str], *, named: bool) -> set[str]:
        """Let the list be as the run found the roots; return those that someone removed from it meanwhile."""
        removed = self._early - {root.path for root in self._list.all()}
        unusable = self._early | self._left_out | bad
        self._list.remember(root for root in self._roots if root.exists() and root.path not in unusable)
        gone = set() if named else {root.path for root in self._known if root.is_gone_file()}
        self._list.forget(self._left_out | gone)
        self._take_back(self._early & bad)
        return removed

    def replaced(self) -> list[str]:
        """Say where a root was named again with other exclusions than before."""
        before = {root.path: root for root in self._known}
        return [
            f"the exclusions of {root.path} are replaced: {', '.join((*old.exclude, *old.patterns)) or 'none'} before"
            for root in self._roots
            if (old := before.get(root.path)) and (old.exclude, old.patterns) != (root.exclude, root.patterns)
        ]

    def _take_back(self, paths: set[str]) -> None:
        """Let roots be as they were; one that was not known stays only if something was indexed from it."""
        listed = {root.path for root in self._list.all()}
        self._list.remember(root for root in self._known if root.path in paths & listed)
        indexed = {document.root for document in self._store.documents()}
        self._list.forget(paths - indexed - {root.path for root in self._known})
