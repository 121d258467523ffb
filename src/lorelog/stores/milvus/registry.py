"""The registry in which machines that share one Milvus publish what their indexes share.

Each index has a few rows in one collection of its tenant and model. An index in the registry shares its rows; after it leaves,
others no longer find them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import urandom
from pathlib import Path
from typing import Any, NamedTuple

from lorelog.core.dataclasses import dataclass
from lorelog.core.errors import StoreError
from lorelog.core.options import DEFAULT_COLLECTION
from lorelog.core.paths import is_below
from lorelog.core.patterns import lazy_pattern
from lorelog.stores.embedded.catalog_reader import CatalogReader
from lorelog.stores.milvus.client import is_missing_collection
from lorelog.stores.milvus.collections import Collections
from lorelog.stores.milvus.rows import Row, row_key, text_row
from lorelog.stores.milvus.schema import UNKNOWN_WIDTH, in_values, is_collection_of, quote, registry_name
from lorelog.stores.milvus.state import MilvusState

_PART_LETTERS = 60_000
_UNSAFE_IN_NAME = lazy_pattern(r"[^\w.-]+")


class SharedProject(NamedTuple):
    """Where an index keeps the chunks of a shared project, and how many there are."""

    collection: str
    chunks: int
    vectors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerIndex:
    """The published description of an index."""

    machine: str
    analyser: str
    width: int
    projects: Mapping[str, SharedProject]
    """By shared name."""
    supersedes: Sequence[tuple[str, str, str]] = ()
    """Old memory id, new memory id, and the project's shared name."""
    home: str = ""
    revision: str = ""
    """Changes with every write."""


class PeerRegistry:
    """The collection that holds the registry."""

    def __init__(self, collections: Collections, prefix: str, tenant: str, space: str) -> None:
        self.name = registry_name(prefix, tenant, space)
        self._is_ours = partial(is_collection_of, tenant=tenant, space=space)
        self._collections = collections

    def publish(self, index: PeerIndex, parts_before: int) -> int:
        """Replace the published description, which had some parts before; return the number of its parts."""
        self._collections.ensure(self.name, UNKNOWN_WIDTH)
        description = json.dumps(_as_json(index))
        parts = [description[start : start + _PART_LETTERS] for start in range(0, len(description), _PART_LETTERS)]
        revision = urandom(8).hex()
        rows = [
            {
                **text_row(index.home, number, text, UNKNOWN_WIDTH),
                "heading": revision,
                "heading_level": len(parts),
            }
            for number, text in enumerate(parts)
        ]
        self._collections.send(self.name, rows)
        surplus = range(len(parts), parts_before)
        self._collections.delete(self.name, [row_key(index.home, number) for number in surplus])
        return len(parts)

    def is_published(self, home: str) -> bool:
        """Return True if the index is in the registry."""
        try:
            return bool(self._collections.read(self.name, in_values("key", [row_key(home, 0)]), ["key"]))
        except StoreError as fault:
            if is_missing_collection(fault):
                return False
            raise

    def peers(self, home: str) -> list[PeerIndex]:
        """Return the descriptions of all other indexes, without those that are being written or cannot be parsed."""
        rows = self._collections.read(
            self.name, f"home != {quote(home)} and row >= 0", ["home", "row", "text", "heading", "heading_level"]
        )
        by_home: dict[str, list[Row]] = {}
        for row in rows:
            by_home.setdefault(row["home"], []).append(row)
        peers = (self._parse_peer(peer_home, peer_rows) for peer_home, peer_rows in sorted(by_home.items()))
        return [peer for peer in peers if peer is not None]

    def _parse_peer(self, home: str, rows: list[Row]) -> PeerIndex | None:
        rows.sort(key=lambda row: int(row["row"]))
        revision = rows[0]["heading"]
        if len(rows) != rows[0]["heading_level"] or any(row["heading"] != revision for row in rows):
            return None
        try:
            description = json.loads("".join(row["text"] for row in rows))
            return _from_json(description, home, revision, self._is_ours)
        except (ValueError, TypeError, KeyError, AttributeError):
            return None


def machine_name(name: str) -> str:
    """Return a machine's name in a form that is safe before a path."""
    return _UNSAFE_IN_NAME.sub("-", name).strip("-.")[:64] or "unnamed"


def _as_json(index: PeerIndex) -> dict[str, Any]:
    return {
        "machine": index.machine,
        "analyser": index.analyser,
        "width": index.width,
        "projects": index.projects,
        "supersedes": list(index.supersedes),
    }


def _from_json(fields: Mapping[str, Any], home: str, revision: str, is_ours: Callable[[str], bool]) -> PeerIndex:
    """Return another machine's description. Only collections of our own tenant and model are accepted from it."""
    projects = {
        str(name): SharedProject(str(collection), int(chunks), int(vectors))
        for name, (collection, chunks, vectors) in fields["projects"].items()
        if name and is_ours(str(collection))
    }
    return PeerIndex(
        machine=machine_name(str(fields["machine"])),
        analyser=str(fields["analyser"]),
        width=int(fields["width"]),
        projects=projects,
        supersedes=tuple((str(old), str(new), str(name)) for old, new, name in fields["supersedes"]),
        home=home,
        revision=str(revision),
    )


def no_shared_name(project: str) -> str:
    """Return an empty name: the project is known to this machine only."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOwner:
    """The tenant, model and machine that rows belong to."""

    tenant: str
    space: str
    analyser: str
    per_project: bool
    prefix: str = DEFAULT_COLLECTION
    """What the names of collections begin with."""
    shared_name_of: Callable[[str], str] = no_shared_name
    """Returns the name that all machines use for a project, or an empty one."""
    folder: Path = Path()
    """The index folder: files below it are derived and not shared."""
    machine: str = ""
    """This machine's name for others if it shares, otherwise empty."""

    def is_derived(self, source: str) -> bool:
        """Return True if a file is derived, and therefore not shared."""
        return is_below(source, str(self.folder))


def describe_index(catalog: CatalogReader, state: MilvusState, owner: IndexOwner, home: str) -> PeerIndex:
    """Return the description that an index publishes."""
    projects: dict[str, SharedProject] = {}
    for project, (chunks, waiting) in catalog.project_counts().items():
        name = state.names.get(project)
        if name and project in state.collections:
            # Two clones of one repository are one project to others.
            other = projects.get(name, SharedProject("", 0, 0))
            vectors = chunks - waiting if state.dimension else 0
            projects[name] = SharedProject(state.collections[project], other.chunks + chunks, other.vectors + vectors)
    superseding = [
        (supersession.old, supersession.new, name)
        for supersession in catalog.supersessions()
        if (name := state.names.get(supersession.project))
    ]
    return PeerIndex(
        machine=owner.machine,
        analyser=owner.analyser,
        width=state.dimension or UNKNOWN_WIDTH,
        projects=projects,
        supersedes=superseding,
        home=home,
    )
