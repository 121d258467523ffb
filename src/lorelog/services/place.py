"""Where one stands, and where a tenant's files are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from lorelog.core.document import GLOBAL
from lorelog.core.errors import StoreUnwritable
from lorelog.core.paths import is_below
from lorelog.services.roots import Root
from lorelog.services.scope import Project

JOURNALS = Path(".lorelog") / "memory"
"""Of the default tenant, where every tool that reads journals looks for them."""
DEFAULT_TENANT = "default"
TENANTS = ".lorelog/tenants"
"""Where a project keeps the journals of other tenants: no scan looks into it from above."""

PAGES = Path("index") / "records"
"""Where, below a tenant's folder, the pages lie that records are found by."""


@dataclass(frozen=True, slots=True)
class Place:
    """A project to stand in and a tenant to remember for."""

    project: Project
    home: Path
    tenant: str
    configured_roots: tuple[str, ...] = ()
    claude: Path | None = None
    """Where Claude Code keeps what it remembers; None where its files are not to be indexed unasked."""

    @property
    def tenant_folder(self) -> Path:
        """Everything of one tenant."""
        return self.home / "tenants" / self.tenant

    @property
    def journals(self) -> Path:
        """The project's journals: in the main worktree, so that removing a linked one loses nothing.

        Each tenant has its own: nothing that one remembers may be found by another that works in the same project.
        """
        own = JOURNALS if self.tenant == DEFAULT_TENANT else Path(TENANTS) / self.tenant / "memory"
        return Path(self.project.id) / own

    @property
    def global_journals(self) -> Path:
        """The journals of no project."""
        return self.tenant_folder / "memory"

    def journal_root(self, *, to_global: bool) -> Root:
        """Return the root that new memories go to. Raise StoreUnwritable when a link would lead them elsewhere.

        A repository is someone else's work: a linked `.lorelog/memory` in it must not choose where we write.
        """
        directory, within = (self.global_journals, self.home) if to_global else (self.journals, Path(self.project.id))
        real = os.path.realpath(directory)
        if not is_below(real, os.path.realpath(within)):
            raise StoreUnwritable(
                f"{directory} is a link that leads out of {within}", hint="make it a directory, or use --global"
            )
        return Root(real, GLOBAL if to_global else self.project.id)

    def found(self) -> None:
        """Make the home and the tenant's folder, for their owner's eyes only: what lies below inherits it."""
        try:
            for folder in (self.home, self.home / "tenants", self.tenant_folder):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnwritable(
                f"{error.filename or self.home} cannot be made: {error.strerror}",
                hint="make its parent writable or point LORELOG_HOME elsewhere",
            ) from error
