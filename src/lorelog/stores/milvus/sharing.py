"""Whose rows these are, and what other machines are told of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lorelog.core.paths import is_below
from lorelog.stores.embedded.reading import CatalogReader
from lorelog.stores.milvus.lexicon import Lexicon
from lorelog.stores.milvus.registry import Place, Told
from lorelog.stores.milvus.schema import UNKNOWN_WIDTH
from lorelog.stores.milvus.state import MilvusState


def nameless(project: str) -> str:
    """Return no name."""
    return ""


@dataclass(frozen=True, slots=True)
class Whose:
    """Whose rows these are."""

    tenant: str
    space: str
    analyser: str
    per_project: bool
    name_of: Callable[[str], str] = nameless
    """What all machines call a project; empty where only this one knows it."""
    folder: Path = Path()
    """Of the index: what lies below it is derived, and for nobody else."""
    machine: str = ""
    """What this machine is called by others, where they may find what it has; empty where they may not."""

    def is_derived(self, source: str) -> bool:
        """Say whether a file is made from something else, and is for nobody else."""
        return is_below(source, str(self.folder))


def what_is_told(catalog: CatalogReader, state: MilvusState, lexicon: Lexicon, whose: Whose, home: str) -> Told:
    """Return what others are to know of an index."""
    projects: dict[str, Place] = {}
    for project, (chunks, waiting) in catalog.tallies().items():
        name = state.names.get(project)
        if name and project in state.collections:
            # Two clones of one repository are one project to others.
            known = projects.get(name, Place("", 0, 0))
            vectors = chunks - waiting if state.dimension else 0
            projects[name] = Place(state.collections[project], known.chunks + chunks, known.vectors + vectors)
    superseding = [
        (one.old, one.new, name) for one in catalog.supersessions() if (name := state.names.get(one.project))
    ]
    words = lexicon.statistics(())
    width = state.dimension or UNKNOWN_WIDTH
    return Told(whose.machine, whose.analyser, width, words.count, words.total, projects, superseding, home)
