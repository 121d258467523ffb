"""Index the code of working trees, keep it up to date, and find definitions, uses, callers and imports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from lorelog.services.places.workspace import Workspace

if TYPE_CHECKING:
    from lorelog.code.tables import CodeTables


class CodeScope(Struct, frozen=True):
    """The code tables and the workspace of a request."""

    tables: CodeTables
    workspace: Workspace
    all_projects: bool = False
    """Whether the code of all working trees is searched."""

    @property
    def root(self) -> str:
        """Real path of the current working tree: linked worktrees have code of their own, and share memories."""
        return self.workspace.project.root
