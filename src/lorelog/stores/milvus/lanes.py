"""Both search lanes in Milvus: one row per chunk, with its words and its vector, in the collection of its project.

The rows follow the catalog's change log. The state file is written after Milvus has accepted the rows; if the process dies in
between, the same changes are sent again by key and give the same rows. A collection that is missing or was replaced is detected
by the mark in it, and all rows are pushed again from the catalog.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from lorelog.core.errors import ModelFault, StoreError
from lorelog.core.options import DEFAULT_COLLECTION
from lorelog.core.paths import is_below
from lorelog.core.ports import Analyser, Vector
from lorelog.core.query import Candidate, Filters, Term
from lorelog.stores.embedded import change_log
from lorelog.stores.embedded.catalog_reader import CatalogReader
from lorelog.stores.embedded.connection import translate_errors
from lorelog.stores.milvus import schema
from lorelog.stores.milvus.client import CollectionMissing, Collections, MilvusConnection
from lorelog.stores.milvus.peers import PeerIndex, PeerRegistry, SharedProject

_MAX_CANDIDATES = 16_384
"""Limit of a Milvus server."""
_CHECK_TTL_S = 1.0
_NAMES_TTL_S = 60.0
"""How long the shared names of projects are cached; each is read from a file."""
_STRONG_READ_S = 30.0
"""After a write, searches require strong consistency; later they do not, since Milvus never lags for this long."""
_SAVE_INTERVAL_ROWS = 10_000
"""How often the state is saved while all rows are pushed."""


class IndexOwner(Struct, frozen=True, kw_only=True):
    """The tenant, model and machine that rows belong to."""

    tenant: str
    space: str
    analyser: Analyser
    per_project: bool
    prefix: str = DEFAULT_COLLECTION
    """What the names of collections begin with."""
    shared_name_of: Callable[[str], str] = lambda project: ""
    """Returns the name that all machines use for a project, or an empty one."""
    folder: Path = Path()
    """The index folder: files below it are derived and not shared."""
    machine: str = ""
    """This machine's name for others if it shares, otherwise empty."""


class MilvusState(Struct, frozen=True, kw_only=True):
    """Where the rows of one model are, and how far they have followed the log."""

    format: int
    place: str
    """Hash of the address, which may be confidential."""
    space: str
    analyser: str
    dimension: int
    """Of the vectors; 0 if there are none yet."""
    mark: str
    """Content of a special row in each collection: a collection with another mark is not the one we wrote."""
    applied: int
    per_project: bool = True
    prefix: str = DEFAULT_COLLECTION
    through: int = -1
    """The last row sent while all rows are pushed; -1 if all are there. A state with a push in progress has its own file, and
    searches use the previous one."""
    written_at: float = 0.0
    collections: Mapping[str, str] = field(default_factory=dict)
    """By project."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Names of the projects that all machines share, as in their rows; empty for a project without one."""
    registry: str = ""
    """Collection in which shared projects are published; empty if nothing is shared."""
    told: Mapping[str, int] = field(default_factory=dict)
    """The publication: its number of parts, and a digest of the catalog's revision."""


class IndexIdentity(Struct, frozen=True):
    """Identity of an index. It survives a reset, so that rows left behind still belong to it."""

    id: str
    left: list[str] = field(default_factory=list)
    """Collections with rows of this index that could not be deleted."""


class StateFiles:
    """The files: one for the index, one per address and model."""

    def __init__(self, folder: Path, uri: str) -> None:
        self._folder = folder
        self._uri = uri

    def identity(self) -> IndexIdentity | None:
        return change_log.read_state(self._folder / "home.json", IndexIdentity)

    def ensure_identity(self) -> IndexIdentity:
        """Return the identity of the index, which is created with its first write."""
        if (identity := self.identity()) is None:
            identity = IndexIdentity(os.urandom(8).hex())
            self.save_identity(identity)
        return identity

    def save_identity(self, identity: IndexIdentity) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        change_log.write_state(self._folder / "home.json", identity, durable=True)

    def file(self, space: str) -> Path:
        """Return the state file of a model's rows."""
        name = hashlib.sha256(f"{self._uri}\n{space}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return self._folder / name / "current.json"

    def push_file(self, space: str) -> Path:
        return self.file(space).with_name("pushing.json")

    def address_hash(self) -> str:
        return hashlib.sha256(self._uri.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def others(self, space: str) -> Iterator[tuple[Path, MilvusState]]:
        """Yield the states of other models at this address."""
        for path in sorted(self._folder.glob("*/current.json")):
            state = change_log.read_state(path, MilvusState)
            if state is not None and state.place == self.address_hash() and path != self.file(space):
                yield path, state

    def drop(self, path: Path) -> None:
        """Delete the state files of a model's rows."""
        with suppress(OSError):
            path.with_name("pushing.json").unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            path.parent.rmdir()


class RowDifferences(Struct, frozen=True, kw_only=True):
    """Differences between the rows in Milvus and the catalog."""

    here: int
    there: int
    missing: tuple[int, ...] = ()
    mismatched: tuple[int, ...] = ()
    """Rows in Milvus with a vector where the catalog has none, or without one where it has."""
    surplus: Mapping[str, list[int]] = field(default_factory=dict)
    """Rows in Milvus that are not in the catalog, by collection."""
    waiting: int = 0
    """Rows with changes in the log that the next write applies."""


class MilvusLanes:
    """The rows of one index for one model at one address."""

    def __init__(self, files: StateFiles, remote: MilvusConnection, owner: IndexOwner) -> None:
        self._files = files
        self._collections = Collections(remote)
        self._registry = PeerRegistry(self._collections, owner.prefix, owner.tenant, owner.space)
        self._owner = owner
        self._state_path = files.file(owner.space)
        self._checked_at = self._named_at = float("-inf")
        self._touched: set[str] = set()

    def close(self) -> None:
        """Do nothing: the store owns the connection."""

    def revision(self) -> str:
        return change_log.state_token(self._state_path)

    def forget(self) -> None:
        """Make the next `catch_up` push all rows; until then, words are found in the old ones."""
        state = self._state()
        if state is not None:
            self._save(replace(state, applied=-1, dimension=0))

    def forget_others(self) -> None:
        home, state = self._files.identity(), self._state()
        if home is not None and state is not None:
            self._delete_elsewhere(home, keep=(*state.collections.values(), self._registry.name))

    def applied(self, database: sqlite3.Connection) -> int | None:
        state = self._state()
        if state is None or not self._is_ours(state) or self._files.push_file(self._owner.space).exists():
            return None
        return state.applied if state.applied >= 0 and change_log.can_follow(database, state.applied) else None

    # -- reading -----------------------------------------------------------------------------------------------------

    def search_words(self, terms: Sequence[Term], filters: Filters, limit: int) -> list[Candidate]:
        """Return rows that contain any of the terms, by Milvus' BM25, which counts words by collection."""
        if not terms or limit < 1:
            return []
        hits = self._search("sparse_vector", schema.encode_query(terms), filters, limit)
        return [Candidate(int(hit["row"]), hit["distance"]) for hit in hits]

    def collection_names(self) -> set[str]:
        """Return the collections that hold rows of this index."""
        state = self._state()
        return set(state.collections.values()) if state is not None else set()

    def search_vectors(self, vector: Vector, filters: Filters, limit: int) -> list[int]:
        """Return rows whose vectors are near, in no particular order."""
        if not self.holds_vectors(vector) or limit < 1:
            return []
        import numpy as np

        query = np.frombuffer(vector, dtype="<f4").tolist()
        return [int(hit["row"]) for hit in self._search("dense_vector", query, filters, limit)]

    def holds_vectors(self, vector: Vector) -> bool:
        """Return True if there are vectors to compare with. Raise ModelFault if the vector does not fit them."""
        state = self._state()
        if state is None or not state.dimension:
            return False
        import numpy as np

        if len(vector) != 4 * state.dimension:
            raise ModelFault(
                f"the query's vector has {len(vector) // 4} dimensions, the index has {state.dimension} "
                f"({self._owner.space})",
                hint="the model behind this name has changed: 'lorelog index --reembed' embeds everything again",
            )
        if not np.isfinite(np.frombuffer(vector, dtype="<f4")).all():
            raise ModelFault(
                "the query's vector contains NaN or infinity", hint="this is a fault of the model; try another"
            )
        return True

    def _search(self, field: str, query: Any, filters: Filters, limit: int) -> list[schema.Row]:
        limit = min(limit, _MAX_CANDIDATES)
        state, home = self._state(), self._files.identity()
        if state is None or home is None:
            return []
        projects = state.collections if filters.projects is None else filters.projects
        names = list(dict.fromkeys(state.collections[name] for name in projects if name in state.collections))
        admitted = schema.filter_expression(
            filters, schema.owned_by(home.id, filters.projects), embedded=field == "dense_vector"
        )
        level = "Strong" if time.time() - state.written_at < _STRONG_READ_S else "Bounded"
        hits = self._collections.search(names, field, query, limit, filter=admitted, consistency_level=level)
        return sorted(hits, key=lambda hit: (-hit["distance"], hit["row"]))[:limit]

    # -- following ---------------------------------------------------------------------------------------------------

    def catch_up(self, database: sqlite3.Connection) -> int:
        """Apply the log, or push all rows again; return how far they have followed."""
        applied, state = self.applied(database), self._state()
        row = database.execute("SELECT dimension FROM spaces WHERE name = ?", (self._owner.space,)).fetchone()
        dimension = int(row[0]) if row else 0
        if applied is None or state is None or state.dimension != dimension or self._is_renamed(state):
            return self._push_all(database, dimension)
        try:
            self._check_collections(state)
            changes = change_log.changes_after(database, applied)
            if changes.head != applied:
                state = self._send(database, state, changes.added + changes.embedded + changes.moved)
                self._delete(state, changes.removed)
                self._save(replace(state, applied=changes.head, written_at=time.time()))
        except CollectionMissing:
            return self._push_all(database, dimension)
        return changes.head

    def _push_all(self, database: sqlite3.Connection, dimension: int) -> int:
        """Push every row of the catalog, or resume an interrupted push; then delete our rows in other collections.

        Searches use the old rows until all new ones are there, unless both are in the same collection.
        """
        with translate_errors(self._state_path):
            home = self._files.ensure_identity()
        state = self._resumable_push_state(database, dimension) or self._new_push_state(database, dimension)
        rows = [
            row for (row,) in database.execute("SELECT row FROM chunks WHERE row > ? ORDER BY row", (state.through,))
        ]
        for start in range(0, len(rows), _SAVE_INTERVAL_ROWS):
            part = rows[start : start + _SAVE_INTERVAL_ROWS]
            state = replace(self._send(database, state, part), through=part[-1])
            self._save(state)
        before = self._state()
        self._save(replace(state, through=-1, written_at=time.time()))
        self._files.push_file(self._owner.space).unlink(missing_ok=True)
        self._checked_at = time.monotonic()
        served = database.execute("SELECT value FROM facts WHERE name = 'space'").fetchone()
        if served is not None and served[0] == self._owner.space:
            # Only now, since searches use the served rows: rows that are pushed for a later swap do not delete them.
            self._delete_elsewhere(home, before, keep=(*state.collections.values(), self._registry.name))
        # Apply changes made during the push, or before an interrupted push was resumed.
        return self.catch_up(database) if state.applied != change_log.last_sequence(database) else state.applied

    def _new_push_state(self, database: sqlite3.Connection, dimension: int) -> MilvusState:
        """Return and save the state of a push that has sent nothing yet."""
        state = MilvusState(
            format=schema.COLLECTION_FORMAT,
            place=self._files.address_hash(),
            space=self._owner.space,
            analyser=self._owner.analyser.version,
            dimension=dimension,
            mark=os.urandom(8).hex(),
            applied=change_log.last_sequence(database),
            per_project=self._owner.per_project,
            prefix=self._owner.prefix,
            through=0,
        )
        self._save(state)
        return state

    def _resumable_push_state(self, database: sqlite3.Connection, dimension: int) -> MilvusState | None:
        """Return the state of an interrupted push that can be resumed, or None."""
        state = change_log.read_state(self._files.push_file(self._owner.space), MilvusState)
        if state is None or (state.format, state.dimension) != (schema.COLLECTION_FORMAT, dimension):
            return None
        if not self._is_ours(state) or not change_log.can_follow(database, state.applied):
            return None
        self._checked_at = float("-inf")
        try:
            self._check_collections(state)
        except CollectionMissing:
            return None
        return state

    def _send(self, database: sqlite3.Connection, state: MilvusState, rows: Sequence[int]) -> MilvusState:
        """Send rows. A new project gets its collection first, and the state records it before rows are in it."""
        if not rows:
            return state
        home = self._files.ensure_identity().id
        names = dict(state.names)

        def shared_name(project: str, source: str) -> str:
            if project not in names:
                names[project] = self._owner.shared_name_of(project)
            return "" if is_below(source, str(self._owner.folder)) else names[project]

        width = state.dimension or schema.UNKNOWN_WIDTH
        row_owner = schema.RowOwner(home, self._owner.space, width, self._owner.analyser.words, shared_name)
        for batch in schema.rows_to_send(database, rows, row_owner):
            project = batch[0]["project"]
            if project not in state.collections:
                state = self._create_collection(state, project)
            self._collections.send(state.collections[project], batch)
            self._touched.add(state.collections[project])
        return state

    def _create_collection(self, state: MilvusState, project: str) -> MilvusState:
        """Create a project's collection if necessary, delete our old rows in it, and mark it."""
        width = state.dimension or schema.UNKNOWN_WIDTH
        shared_as = self._owner.shared_name_of(project)
        own = (shared_as or project) if self._owner.per_project else None
        name = schema.collection_name(self._owner.prefix, self._owner.tenant, own, self._owner.space, width)
        home = self._files.ensure_identity().id
        if name not in state.collections.values():
            self._collections.ensure(name, width)
            self._collections.clear(name, home)
            self._collections.send(name, [schema.text_row(home, 0, state.mark, width)])
        state = replace(
            state, collections={**state.collections, project: name}, names={**state.names, project: shared_as}
        )
        self._save(state)
        return state

    def _delete(self, state: MilvusState, removed: Sequence[int]) -> None:
        """Delete rows from all collections: the catalog no longer says which project a removed row had."""
        if removed:
            home = self._files.ensure_identity().id
            for name in dict.fromkeys(state.collections.values()):
                self._collections.delete(name, [schema.row_key(home, row) for row in removed])

    def _check_collections(self, state: MilvusState) -> None:
        """Raise StoreDamaged unless every collection exists and contains our mark."""
        if time.monotonic() - self._checked_at >= _CHECK_TTL_S:
            names = tuple(dict.fromkeys(state.collections.values()))
            self._collections.check_marks(names, self._files.ensure_identity().id, state.mark)
            self._checked_at = time.monotonic()

    def recheck(self) -> None:
        """Make the next writer check whether every collection exists."""
        self._checked_at = float("-inf")

    def flush(self) -> None:
        """Flush the collections written to, which makes searches fast after many rows were sent."""
        touched, self._touched = self._touched, set()
        self._collections.flush(sorted(touched))

    def purge(self, database: sqlite3.Connection) -> None:
        """Flush the deletions, and drop files of the embedded lanes, which are not in use.

        When the deleted rows leave the server's disk is decided by its compaction.
        """
        import shutil

        state = self._state()
        if state is not None:
            self._collections.flush(sorted(set(state.collections.values())))
        for lane in ("lexical", "dense"):
            shutil.rmtree(self._owner.folder / lane, ignore_errors=True)

    # -- sharing -----------------------------------------------------------------------------------------------------

    def is_published(self) -> bool:
        """Return True if the registry matches the settings: published if shared, empty otherwise."""
        state = self._state()
        return state is None or bool(state.registry) == bool(self._owner.machine)

    def publish(self, catalog: CatalogReader) -> None:
        """Publish what other machines may find, or withdraw it if nothing is shared any more.

        Catches up first: our own searches skip rows that are no longer in the catalog, but other machines do not have it. A
        failure is retried with the next write.
        """
        state = self._state()
        if state is None or (self.is_published() and not self._owner.machine):
            return
        with suppress(StoreError):
            if not self._owner.machine:
                if self._collections.drop_rows(self._registry.name, self._files.ensure_identity().id):
                    self._save(replace(state, registry="", told={}))
                return
            self.catch_up(catalog.database)
            state = self._state() or state
            before = state.told if state.registry else {}
            revision = zlib.crc32(f"{catalog.fact('revision')} {state.mark}".encode())
            if before.get("revision") == revision:
                return
            parts = self._registry.publish(self._describe(catalog, state), before.get("parts", 0))
            self._save(replace(state, registry=self._registry.name, told={"parts": parts, "revision": revision}))

    def _describe(self, catalog: CatalogReader, state: MilvusState) -> PeerIndex:
        projects: dict[str, SharedProject] = {}
        for project, (chunks, waiting) in catalog.project_counts().items():
            name = state.names.get(project)
            if name and project in state.collections:
                # Two clones of one repository are one project to others.
                other = projects.get(name, SharedProject("", 0, 0))
                vectors = other.vectors + (chunks - waiting if state.dimension else 0)
                projects[name] = SharedProject(state.collections[project], other.chunks + chunks, vectors)
        return PeerIndex(
            machine=self._owner.machine,
            analyser=self._owner.analyser.version,
            width=state.dimension or schema.UNKNOWN_WIDTH,
            projects=projects,
            supersedes=tuple(
                (supersession.old, supersession.new, name)
                for supersession in catalog.supersessions()
                if (name := state.names.get(supersession.project))
            ),
            home=self._files.ensure_identity().id,
        )

    def _is_renamed(self, state: MilvusState) -> bool:
        """Return True if a project's shared name has changed. A project that no longer exists keeps its name."""
        if time.monotonic() - self._named_at < _NAMES_TTL_S:
            return False
        self._named_at = time.monotonic()
        names = {project: self._owner.shared_name_of(project) for project in state.names}
        return any(name and name != state.names[project] for project, name in names.items())

    # -- comparing ---------------------------------------------------------------------------------------------------

    def differences(self, database: sqlite3.Connection) -> RowDifferences:
        """Return how the rows in Milvus differ from the catalog, apart from changes that the log has not applied yet."""
        state, home = self._state(), self._files.identity()
        applied = self.applied(database)
        if state is None or home is None or applied is None:
            rows = [row for (row,) in database.execute("SELECT row FROM chunks WHERE live")]
            return RowDifferences(here=len(rows), there=0, missing=tuple(rows))
        self._collections.check_marks(tuple(dict.fromkeys(state.collections.values())), home.id, state.mark)
        chunks = database.execute("SELECT row, embedded, project FROM chunks WHERE live").fetchall()
        here = {row: bool(has_vector) for row, has_vector, _ in chunks}
        collection_of = {row: state.collections.get(project) for row, _, project in chunks}
        there: dict[int, bool] = {}
        surplus: dict[str, list[int]] = {}
        for name in dict.fromkeys(state.collections.values()):
            for row, has_vector in self._collections.rows(name, home.id):
                if collection_of.get(row) == name:
                    there[row] = has_vector
                else:
                    surplus.setdefault(name, []).append(row)
        changes = change_log.changes_after(database, applied)
        pending = {*changes.added, *changes.embedded, *changes.moved, *changes.removed}
        # If the registry has lost our entry, the next write publishes it again.
        is_unpublished = bool(state.registry) and not self._registry.is_published(home.id)
        return RowDifferences(
            here=len(here),
            there=len(there),
            missing=tuple(row for row in here if row not in there and row not in pending),
            mismatched=tuple(
                row for row, has_vector in there.items() if has_vector != here[row] and row not in pending
            ),
            surplus={
                name: left for name, rows in surplus.items() if (left := [row for row in rows if row not in pending])
            },
            waiting=len(pending) + is_unpublished,
        )

    def repair(self, database: sqlite3.Connection, differences: RowDifferences) -> None:
        """Send missing rows and delete surplus ones."""
        state = self._state()
        if state is None:
            return
        home = self._files.ensure_identity().id
        state = self._send(database, state, differences.missing + differences.mismatched)
        for name, rows in differences.surplus.items():
            self._collections.delete(name, [schema.row_key(home, row) for row in rows])
        if state.registry and not self._registry.is_published(home):
            state = replace(state, registry="", told={})
        self._save(replace(state, written_at=time.time()))

    # -- leaving -----------------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Delete all rows of this index, of every model, as part of a reset."""
        home = self._files.identity()
        if home is None:
            return
        pushing = change_log.read_state(self._files.push_file(self._owner.space), MilvusState)
        self._delete_elsewhere(home, self._state(), pushing, keep=())
        self._files.drop(self._state_path)

    def _delete_elsewhere(self, home: IndexIdentity, *states: MilvusState | None, keep: Sequence[str]) -> None:
        """Delete our rows from every collection except `keep`. A failure is remembered and retried next time."""
        others = list(self._files.others(self._owner.space))
        all_states = [*(state for _, state in others), *(state for state in states if state is not None)]
        names = {
            *home.left,
            *(name for state in all_states for name in (*state.collections.values(), state.registry) if name),
        }
        left = [name for name in sorted(names - set(keep)) if not self._collections.drop_rows(name, home.id)]
        for path, _ in others:
            self._files.drop(path)
        if left != home.left:
            self._files.save_identity(replace(home, left=left))

    # -- state -------------------------------------------------------------------------------------------------------

    def _state(self) -> MilvusState | None:
        state = change_log.read_state(self._state_path, MilvusState)
        is_known = state is not None and (state.format, state.space) == (schema.COLLECTION_FORMAT, self._owner.space)
        return state if is_known else None

    def _is_ours(self, state: MilvusState) -> bool:
        own = (self._owner.analyser.version, self._owner.per_project, self._owner.prefix)
        return (state.analyser, state.per_project, state.prefix) == own

    def _save(self, state: MilvusState) -> None:
        path = self._state_path if state.through < 0 else self._files.push_file(self._owner.space)
        with translate_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            change_log.write_state(path, state, durable=True)
