"""Both lanes in Milvus: one row a chunk, with its words and its vector, in the collection of its project.

The rows follow the catalog's change log. How far they have is written down here after Milvus has taken them; if the
process dies in between, the same changes are sent again, by key, and give the same rows. A collection that is gone, or is
not the one that was written, is found out by the mark in it, and all rows are pushed anew from the catalog.
"""

from __future__ import annotations

import os
import sqlite3
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from lorelog.core.errors import ModelFault, StoreDamaged, StoreError
from lorelog.core.ports import Vector
from lorelog.core.query import Filters, Term
from lorelog.stores.embedded import log
from lorelog.stores.embedded.faults import translating
from lorelog.stores.embedded.reading import CatalogReader
from lorelog.stores.milvus.collections import Asked, Collections
from lorelog.stores.milvus.comparing import Differences, compare_rows
from lorelog.stores.milvus.faults import is_gone
from lorelog.stores.milvus.filters import expression, owned
from lorelog.stores.milvus.lexicon import Lexicon
from lorelog.stores.milvus.registry import Registry
from lorelog.stores.milvus.remote import Remote
from lorelog.stores.milvus.rows import Owner, key_of, mark_row, rows_of
from lorelog.stores.milvus.schema import FORMAT, UNKNOWN_WIDTH, collection_name
from lorelog.stores.milvus.sharing import Whose, what_is_told
from lorelog.stores.milvus.state import Home, MilvusState, Places
from lorelog.stores.milvus.tokens import asked_as

Answer = TypeVar("Answer")

_MOST_CANDIDATES = 16_384
"""A server gives no more."""
_SPARE = 1.5
"""Milvus ranks words by other numbers than we do: so much more is asked for than wanted."""
_LOOKED_FOR_S = 1.0
_NAMED_FOR_S = 60.0
"""What projects are called is read from files, one for each."""
_STRONG_FOR_S = 30.0
"""After a write, searches wait until Milvus shows it; later they need not, since none lags so long."""
_ALL_WORDS_UP_TO = 20_000
"""Chunks. In more than that, words that one chunk alone holds are half of all, and are not told of: nearly as rare as unknown ones."""
_SAVED_EVERY = 10_000
"""Rows, while all are pushed anew."""


class MilvusLanes:
    """The rows of one index under one model, at one address."""

    def __init__(self, places: Places, remote: Remote, lexicon: Lexicon, whose: Whose) -> None:
        self._places = places
        self._collections = Collections(remote)
        self._registry = Registry(self._collections, whose.tenant, whose.space)
        self._lexicon = lexicon
        self._whose = whose
        self._state_path = places.file(whose.space)
        self._looked_at = self._named_at = float("-inf")
        self._touched: set[str] = set()

    def close(self) -> None:
        """Whoever made the connection closes it."""

    def revision(self) -> str:
        """Return what tells this state of the lanes from every other."""
        return log.state_token(self._state_path)

    def forget(self) -> None:
        """Have all rows pushed anew when next following; words are found by the old ones until then."""
        state = self._state()
        if state is not None:
            self._save(replace(state, applied=-1, dimension=0))

    def forget_others(self) -> None:
        """Delete the rows of other vectors than these."""
        home, state = self._places.home(), self._state()
        if home is not None and state is not None:
            self._leave_behind(home, keep=(*state.collections.values(), self._registry.name))

    def applied(self, database: sqlite3.Connection) -> int | None:
        """Return how far the rows have followed, or None when they must be pushed anew."""
        state = self._state()
        words = self._lexicon.applied(database)
        if state is None or words is None or not self._is_ours(state):
            return None
        if self._places.unfinished(self._whose.space).exists():
            return None
        if state.applied < 0 or not log.follows(database, state.applied):
            return None
        return min(state.applied, words)

    # -- reading -----------------------------------------------------------------------------------------------------

    def search_words(self, terms: Sequence[Term], filters: Filters, limit: int) -> list[int]:
        """Return rows that contain any of the terms, in no order that counts."""
        if not terms or limit < 1:
            return []
        wanted = min(int(limit * _SPARE) + 10, _MOST_CANDIDATES)
        return self._search("sparse_vector", asked_as(terms), filters, wanted)

    def search_vectors(self, vector: Vector, filters: Filters, limit: int) -> list[int]:
        """Return rows with vectors near this one, in no order that counts."""
        if not self.holds_vectors(vector) or limit < 1:
            return []
        import numpy as np

        question = np.frombuffer(vector, dtype="<f4").tolist()
        return self._search("dense_vector", question, filters, min(limit, _MOST_CANDIDATES))

    def holds_vectors(self, vector: Vector) -> bool:
        """Say whether there are vectors to compare one with; raise ModelFault when it is not of their kind."""
        state = self._state()
        if state is None or not state.dimension:
            return False
        import numpy as np

        if len(vector) != 4 * state.dimension:
            raise ModelFault(
                f"the query's vector has {len(vector) // 4} dimensions, the index has {state.dimension} "
                f"({self._whose.space})",
                hint="the model changed under its name: 'lorelog index --reembed' makes all vectors anew",
            )
        if not np.isfinite(np.frombuffer(vector, dtype="<f4")).all():
            raise ModelFault(
                "the query's vector has values that are no numbers", hint="the model is at fault; try another"
            )
        return True

    def _search(self, field: str, question: Any, filters: Filters, limit: int) -> list[int]:
        """Return the rows that all the collections in question propose."""
        state, home = self._state(), self._places.home()
        if state is None or home is None:
            return []
        names = _collections(state, filters)
        admitted = expression(filters, owned(home.id, filters.projects), embedded=field == "dense_vector")
        fresh = time.time() - state.written_at < _STRONG_FOR_S
        hits = self._collections.search(names, Asked(field, question, admitted, limit, strong=fresh))
        if len(names) > 1 and field == "dense_vector":
            hits = sorted(hits, key=lambda hit: -hit["distance"])[:limit]
        return list(dict.fromkeys(int(hit["row"]) for hit in hits))

    # -- following ---------------------------------------------------------------------------------------------------

    def catch_up(self, database: sqlite3.Connection) -> int:
        """Send what the log says, or push all rows anew; return how far they have followed."""
        applied, state = self.applied(database), self._state()
        dimension = self._dimension(database)
        if applied is None or state is None or state.dimension != dimension or self._is_renamed(state):
            return self._push_anew(database, dimension)
        try:
            self._look(state)
            changes = log.changes_after(database, applied)
            if changes.head != applied:
                state = self._send(database, state, changes.added + changes.embedded + changes.moved)
                self._delete(state, changes.removed)
                self._save(replace(state, applied=changes.head, written_at=time.time()))
                self._lexicon.remove(changes.removed)
                self._lexicon.followed(changes.head)
        except StoreDamaged as fault:
            if not is_gone(fault):
                raise
            return self._push_anew(database, dimension)
        return changes.head

    def _push_anew(self, database: sqlite3.Connection, dimension: int) -> int:
        """Push every row of the catalog, or go on where a push was broken off; then delete what is left elsewhere.

        Searches go by the old rows until all of the new ones are there, unless they stand in the same collection.
        """
        with translating(self._state_path):
            home = self._places.found_home()
        state = self._broken_off(database, dimension) or self._begun(database, dimension)
        rows = [
            row for (row,) in database.execute("SELECT row FROM chunks WHERE row > ? ORDER BY row", (state.through,))
        ]
        for start in range(0, len(rows), _SAVED_EVERY):
            part = rows[start : start + _SAVED_EVERY]
            state = replace(self._send(database, state, part), through=part[-1])
            self._save(state)
        before = self._state()
        self._save(replace(state, through=-1, written_at=time.time()))
        self._places.unfinished(self._whose.space).unlink(missing_ok=True)
        self._looked_at = time.monotonic()
        served = database.execute("SELECT value FROM facts WHERE name = 'space'").fetchone()
        if served is not None and served[0] == self._whose.space:
            # Rows that are about to be served leave those that are: searches go by them until then.
            self._leave_behind(home, before, keep=(*state.collections.values(), self._registry.name))
        # What happened meanwhile, and before a push that was broken off was taken up again.
        return self.catch_up(database) if state.applied != log.head(database) else state.applied

    def _begun(self, database: sqlite3.Connection, dimension: int) -> MilvusState:
        """Return the state of a push that begins: nothing is there yet."""
        state = MilvusState(
            FORMAT,
            self._places.place(),
            self._whose.space,
            self._whose.analyser,
            dimension,
            os.urandom(8).hex(),
            log.head(database),
            self._whose.per_project,
            through=0,
        )
        self._save(state)
        words = self._lexicon.applied(database)
        if words is None:
            self._lexicon.begin()
        else:
            self._lexicon.remove(log.changes_after(database, words).removed)
        # The words of rows that are not sent yet are not known yet: that the push is unfinished says so.
        self._lexicon.followed(state.applied)
        return state

    def _broken_off(self, database: sqlite3.Connection, dimension: int) -> MilvusState | None:
        """Return the state of a push that can go on, or None."""
        state = log.read_state(self._places.unfinished(self._whose.space), MilvusState)
        if state is None or state.format != FORMAT or state.dimension != dimension or not self._is_ours(state):
            return None
        if not log.follows(database, state.applied) or self._lexicon.applied(database) is None:
            return None
        self._looked_at = float("-inf")
        try:
            self._look(state)
        except StoreDamaged as fault:
            if not is_gone(fault):
                raise
            return None
        return state

    def _send(self, database: sqlite3.Connection, state: MilvusState, wanted: Sequence[int]) -> MilvusState:
        """Send rows; a project that is new gets its collection first, and the state knows of it before rows are in it."""
        if not wanted:
            return state
        self._lexicon.add(database, wanted)
        home = self._places.found_home().id
        names = dict(state.names)

        def shared_name(project: str, source: str) -> str:
            if project not in names:
                names[project] = self._whose.name_of(project)
            return "" if self._whose.is_derived(source) else names[project]

        owner = Owner(home, self._whose.space, state.dimension or UNKNOWN_WIDTH, shared_name)
        for batch in rows_of(database, self._lexicon, wanted, owner):
            project = batch[0]["project"]
            if project not in state.collections:
                state = self._found(state, project)
            self._collections.send(state.collections[project], batch)
            self._touched.add(state.collections[project])
        return state

    def _found(self, state: MilvusState, project: str) -> MilvusState:
        """Make a project's collection where it is not there, empty it of our own rows, and mark it."""
        width = state.dimension or UNKNOWN_WIDTH
        shared_as = self._whose.name_of(project)
        own = (shared_as or project) if self._whose.per_project else None
        name = collection_name(self._whose.tenant, own, self._whose.space, width)
        home = self._places.found_home().id
        if name not in state.collections.values():
            self._collections.ensure(name, width)
            self._collections.clear(name, home)
            self._collections.send(name, [mark_row(home, state.mark, width)])
        state = replace(
            state, collections={**state.collections, project: name}, names={**state.names, project: shared_as}
        )
        self._save(state)
        return state

    def _delete(self, state: MilvusState, removed: Sequence[int]) -> None:
        """Delete rows from the collection of their project; where that is not known any more, from all."""
        if not removed:
            return
        home = self._places.found_home().id
        projects = self._lexicon.projects(removed)
        everywhere = tuple(dict.fromkeys(state.collections.values()))
        doomed: dict[str, list[str]] = {}
        for row in removed:
            known = state.collections.get(projects.get(row, "\0"))
            for name in everywhere if known is None else (known,):
                doomed.setdefault(name, []).append(key_of(home, row))
        for name, keys in doomed.items():
            self._collections.delete(name, keys)

    def _look(self, state: MilvusState) -> None:
        """Raise StoreDamaged unless every collection is there and bears our mark."""
        if time.monotonic() - self._looked_at >= _LOOKED_FOR_S:
            names = tuple(dict.fromkeys(state.collections.values()))
            self._collections.look(names, self._places.found_home().id, state.mark)
            self._looked_at = time.monotonic()

    def look_again(self) -> None:
        """Have the next writer look whether every collection is there."""
        self._looked_at = float("-inf")

    def settle(self) -> None:
        """Do what makes searches quick after many rows were sent."""
        touched, self._touched = self._touched, set()
        self._collections.settle(sorted(touched))

    # -- sharing -----------------------------------------------------------------------------------------------------

    def is_told(self) -> bool:
        """Say whether others know what they are to know: nothing, where nothing is shared."""
        state = self._state()
        return state is None or bool(state.registry) == bool(self._whose.machine)

    def tell(self, catalog: CatalogReader) -> None:
        """Take away there what is gone here, and tell other machines what they may find, or that it is nothing any more.

        An own search passes over rows that the catalog has no more; another machine has no catalog of ours. What cannot be told
        now is told with the next write.
        """
        state = self._state()
        if state is None or (self.is_told() and not self._whose.machine):
            return
        with suppress(StoreError):
            if not self._whose.machine:
                if self._collections.vacate(self._registry.name, self._places.found_home().id):
                    self._save(replace(state, registry="", told={}))
                return
            self.catch_up(catalog.database)
            state = self._state() or state
            before = state.told if state.registry else {}
            revision = zlib.crc32(f"{catalog.fact('revision')} {state.mark}".encode())
            if before.get("revision") == revision:
                return
            told = what_is_told(catalog, state, self._lexicon, self._whose, self._places.found_home().id)
            least = 1 if told.count <= _ALL_WORDS_UP_TO else 2
            said = self._registry.tell(told, partial(self._lexicon.vocabulary, least), before)
            self._save(replace(state, registry=self._registry.name, told={**said, "revision": revision}))

    def _is_renamed(self, state: MilvusState) -> bool:
        """Say whether a project has another name by now, and its rows the old one. One that is gone keeps what it had."""
        if time.monotonic() - self._named_at < _NAMED_FOR_S:
            return False
        self._named_at = time.monotonic()
        names = {project: self._whose.name_of(project) for project in state.names}
        return any(name and name != state.names[project] for project, name in names.items())

    # -- comparing ---------------------------------------------------------------------------------------------------

    def differences(self, database: sqlite3.Connection) -> Differences:
        """Return how the rows there differ from the catalog's; what the log has yet to tell them is no difference."""
        state, home = self._state(), self._places.home()
        applied = self.applied(database)
        if state is None or home is None or applied is None:
            here = [row for (row,) in database.execute("SELECT row FROM chunks WHERE live")]
            return Differences(len(here), 0, tuple(here))
        self._collections.look(tuple(dict.fromkeys(state.collections.values())), home.id, state.mark)
        found = compare_rows(database, state, applied, lambda name: self._collections.rows(name, home.id))
        # Where others do not know any more what is shared, the next write tells them.
        forgotten = bool(state.registry) and not self._registry.has(home.id)
        return replace(found, waiting=found.waiting + forgotten)

    def mend(self, database: sqlite3.Connection, found: Differences) -> None:
        """Send what is missing there, and delete what is too much."""
        state = self._state()
        if state is None:
            return
        home = self._places.found_home().id
        state = self._send(database, state, found.missing + found.unlike)
        for name, rows in found.surplus.items():
            self._collections.delete(name, [key_of(home, row) for row in rows])
        if state.registry and not self._registry.has(home):
            state = replace(state, registry="", told={})
        self._save(replace(state, written_at=time.time()))

    # -- leaving -----------------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Delete all rows of this index, of every model, as part of a reset."""
        home = self._places.home()
        if home is None:
            return
        begun = log.read_state(self._places.unfinished(self._whose.space), MilvusState)
        self._leave_behind(home, self._state(), begun, keep=())
        self._places.drop(self._state_path)

    def _leave_behind(self, home: Home, *states: MilvusState | None, keep: Sequence[str]) -> None:
        """Delete our rows from every collection but those to keep. What cannot be deleted now is tried again next time."""
        others = list(self._places.others(self._whose.space))
        known = [*(state for _, state in others), *(state for state in states if state is not None)]
        names = {
            *home.left,
            *(name for state in known for name in (*state.collections.values(), state.registry) if name),
        }
        left = [name for name in sorted(names - set(keep)) if not self._collections.vacate(name, home.id)]
        for path, _ in others:
            self._places.drop(path)
        if left != home.left:
            self._places.keep_home(replace(home, left=left))

    # -- state -------------------------------------------------------------------------------------------------------

    def _state(self) -> MilvusState | None:
        state = log.read_state(self._state_path, MilvusState)
        return state if state is not None and state.format == FORMAT and state.space == self._whose.space else None

    def _is_ours(self, state: MilvusState) -> bool:
        return state.analyser == self._whose.analyser and state.per_project == self._whose.per_project

    def _save(self, state: MilvusState) -> None:
        path = self._state_path if state.through < 0 else self._places.unfinished(self._whose.space)
        with translating(path):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            log.write_state(path, state)

    def _dimension(self, database: sqlite3.Connection) -> int:
        found = database.execute("SELECT dimension FROM spaces WHERE name = ?", (self._whose.space,)).fetchone()
        return int(found[0]) if found else 0


def _collections(state: MilvusState, filters: Filters) -> list[str]:
    if filters.projects is None:
        named = list(state.collections.values())
    else:
        named = [state.collections[one] for one in filters.projects if one in state.collections]
    return list(dict.fromkeys(named))
