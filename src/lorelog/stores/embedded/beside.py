"""Vectors beside those that an index serves: begun, stored and put in their place, within the writer's transactions.

Which vectors are served is one fact of the catalog, so that changing it, with the marks and ids that depend on it, is one
transaction: a reader sees all of the old state or all of the new one.
"""

from __future__ import annotations

from collections.abc import Mapping

from lorelog.core.document import chunk_id
from lorelog.core.errors import ModelFault, NotFound, UsageError
from lorelog.core.ports import Vector
from lorelog.stores.embedded import log, spaces
from lorelog.stores.embedded.reading import CatalogReader


class BesideTable:
    """The vectors of one catalog by their names. Whoever calls has begun a transaction."""

    def __init__(self, catalog: CatalogReader) -> None:
        self._catalog = catalog
        self._database = catalog.database

    def begin(self, owner: str, dimension: int) -> None:
        """Choose where a model's vectors are stored beside those served."""
        begun, served = self._catalog.fact("beside") or "", self._catalog.fact("space") or ""
        self._catalog.drop_fact("declined")
        if spaces.owner_of(begun) == owner and self._fits(begun, dimension):
            return
        if spaces.owner_of(begun) == owner:
            self.drop(begun)
        names = [*self._catalog.spaces(), served]
        chosen = spaces.newest(owner, names)
        if chosen == served or not self._fits(chosen, dimension):
            chosen = spaces.next_after(owner, names)
        self._catalog.state_fact("beside", chosen)

    def begun(self) -> str:
        """Return the name of the vectors beside."""
        name = self._catalog.fact("beside")
        if not name:
            raise UsageError("no vectors are being made beside those of the index", hint="lorelog index --reembed")
        return name

    def before(self) -> str:
        """Return the name of what was served before the last swap."""
        name = self._catalog.fact("before") or ""
        if name not in self._catalog.spaces():
            raise NotFound("there are no vectors to go back to", hint="none were put aside, or they were forgotten")
        return name

    def store(self, space: str, vectors: Mapping[str, Vector]) -> None:
        """Store vectors under a name; those that are there stay."""
        number, dimension = self._number(space, len(next(iter(vectors.values()))) // 4)
        _check(spaces.owner_of(space), vectors, dimension)
        self._database.executemany(
            "INSERT INTO vectors (space, key, vector) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            [(number, key, vector) for key, vector in vectors.items()],
        )

    def serve(self, space: str, model: str) -> None:
        """Make ids and vector marks those of these vectors. Lanes that keep ids are told of every row."""
        if self._catalog.fact("model") != model:
            self._rename(model)
        self._database.execute(
            "UPDATE chunks SET embedded = EXISTS (SELECT 1 FROM vectors v JOIN spaces s ON s.id = v.space "
            "WHERE s.name = ? AND v.key = chunks.vector_key)",
            (space,),
        )
        self._catalog.state_fact("space", space)
        self._catalog.state_fact("model", model)

    def exchange(self, space: str) -> None:
        """Serve other vectors, and note what was served until now."""
        served = self._catalog.fact("space") or ""
        self.serve(space, spaces.model_of(space))
        self._catalog.state_fact("before", served)
        if self._catalog.fact("beside") == space:
            self._catalog.drop_fact("beside")

    def drop(self, space: str) -> int:
        """Drop all vectors of a name; return how many."""
        mine = "(SELECT id FROM spaces WHERE name = ?)"
        dropped = self._database.execute(f"DELETE FROM vectors WHERE space IN {mine}", (space,)).rowcount
        self._database.execute("DELETE FROM spaces WHERE name = ?", (space,))
        return dropped

    def drop_others(self) -> int:
        """Drop all vectors but those served; return how many."""
        served = self._catalog.fact("space")
        dropped = sum(self.drop(name) for name in self._catalog.spaces() if name != served)
        for fact in ("beside", "before", "declined"):
            self._catalog.drop_fact(fact)
        return dropped

    def _rename(self, model: str) -> None:
        self._database.execute("UPDATE chunks SET id = '~' || row")
        found = self._database.execute(
            "SELECT c.row, d.source, start_line, end_line, content_hash FROM chunks c "
            "JOIN documents d ON d.id = c.document"
        ).fetchall()
        self._database.executemany(
            "UPDATE chunks SET id = ? WHERE row = ?",
            [(chunk_id(source, start, end, digest, model), row) for row, source, start, end, digest in found],
        )
        log.record(self._database, log.MOVE, [row for row, *_ in found])

    def _fits(self, space: str, dimension: int) -> bool:
        found = self._database.execute("SELECT dimension FROM spaces WHERE name = ?", (space,)).fetchone()
        return not dimension or found is None or found[0] == dimension

    def _number(self, space: str, dimension: int) -> tuple[int, int]:
        self._database.execute(
            "INSERT INTO spaces (name, dimension) VALUES (?, ?) ON CONFLICT DO NOTHING", (space, dimension)
        )
        found = self._database.execute("SELECT id, dimension FROM spaces WHERE name = ?", (space,)).fetchone()
        return int(found[0]), int(found[1])


def _check(owner: str, vectors: Mapping[str, Vector], dimension: int) -> None:
    for vector in vectors.values():
        if len(vector) != 4 * dimension:
            raise ModelFault(
                f"{owner} gave a vector of {len(vector) // 4} dimensions; the index has {dimension}",
                hint="the model changed under its name: 'lorelog index --reembed' makes all vectors anew",
            )
    import numpy as np

    for key, vector in vectors.items():
        if not np.isfinite(np.frombuffer(vector, dtype="<f4")).all():
            raise ModelFault(f"{owner} gave a vector that is not made of numbers (for {key})")
