"""What is seen of the code from a working tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lorelog.services.place import Place

if TYPE_CHECKING:
    from lorelog.code.tables import CodeTables


@dataclass(frozen=True, slots=True)
class CodeSight:
    """What the verbs on code need."""

    tables: CodeTables
    place: Place
    all_projects: bool = False
    """Whether the code of other working trees is looked at, too."""

    @property
    def root(self) -> str:
        """Real path of the working tree one stands in: linked ones have code of their own, and share memories."""
        return self.place.project.root
