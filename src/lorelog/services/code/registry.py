"""Which working trees a person had indexed: those, and no others, are kept up to date unasked.

Beside code.db and not in it, as with Markdown's roots: what can be deleted at any time must not be the only one to know.
"""

from __future__ import annotations

from pathlib import Path

from lorelog.services.roots import Root, Roots

FILE = "code_roots.json"


class Registry:
    """The registered working trees of one tenant. Which folders of one are indexed stands where other roots have patterns."""

    def __init__(self, tenant_folder: Path) -> None:
        self.path = tenant_folder / FILE
        self._roots = Roots(self.path)

    def all(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Return the project of each, and which folders of it are indexed (none: all of it)."""
        return {root.path: (root.project, root.patterns) for root in self._roots.all()}

    def add(self, path: str, project: str, parts: tuple[str, ...]) -> None:
        """Register a working tree, or change which folders of it are indexed."""
        self._roots.remember([Root(path, project, patterns=parts)])

    def remove(self, path: str) -> bool:
        """Register one no longer; return whether it was."""
        known = path in self.all()
        self._roots.forget([path])
        return known
