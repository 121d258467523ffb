"""An opened matrix of vectors: what one state of the dense lane answers from.

It is made anew whenever the lane's state changes, so whatever is worked out here (which lines a filter admits, where
a row's line is) holds for as long as the object is used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorelog.core.document import Key
from lorelog.core.query import Candidate
from lorelog.stores.embedded.codes import dot

if TYPE_CHECKING:
    import numpy as np

    from lorelog.stores.embedded.codes import Codes

    Array = np.ndarray[Any, Any]

_FEW = 10_000
"""Up to so many admitted lines are read and scored, every one of them."""
_KEPT_ADMISSIONS = 4
"""Each may hold 8 bytes a line."""
_LIMITS_A_LANE = 20


@dataclass(frozen=True, slots=True)
class Admission:
    """Which lines a search may return: those of some projects, or those of some rows."""

    key: Hashable
    """Equal keys admit the same."""
    projects: tuple[str, ...] = ()
    rows: Callable[[], Sequence[int]] | None = None


def project_mark(project: str) -> bytes:
    """Return the 8 bytes that a line of this project bears."""
    return hashlib.blake2b(project.encode("utf-8", "surrogatepass"), digest_size=8).digest()


class Matrix:
    """The lines of one state. A line whose row is 0 is dead."""

    def __init__(self, vectors: Array, rows: Array, projects: Array, codes: Codes | None) -> None:
        self.vectors = vectors
        self.rows = rows
        self.codes = codes
        self.dimension = int(vectors.shape[1])
        self._projects = projects
        self._coded = 0 if codes is None else codes.count
        self._admitted: dict[Hashable, tuple[Array, Array | None]] = {}
        self._rest: tuple[Array, Array] | None = None

    def search(self, question: Array, admission: Admission | None, limit: int) -> list[Candidate]:
        """Return rows by cosine, best first."""
        import numpy as np

        places, scores = self._scored(question, admission, limit)
        rows = self.rows[places]
        alive = rows != 0
        if not alive.all():
            places, scores, rows = places[alive], scores[alive], rows[alive]
        if limit < len(scores):
            best = np.argpartition(-scores, limit - 1)[:limit]
            places, scores, rows = places[best], scores[best], rows[best]
        order = np.lexsort((places, -scores))
        return list(map(Candidate, rows[order].tolist(), scores[order].tolist()))

    def similarities(self, question: Array, wanted: Sequence[Key]) -> dict[Key, float]:
        """Return the cosine of each wanted row that has a line."""
        import numpy as np

        places = self.places_of(np.fromiter(wanted, dtype=np.int64, count=len(wanted)))
        scores = dot(self.vectors.take(places, axis=0), question)
        return dict(zip(self.rows[places].tolist(), scores.tolist(), strict=True))

    def places_of(self, wanted: Array) -> Array:
        """Return the places of these rows' lines, in order, without those that have none."""
        import numpy as np

        if self._rest is None:
            rest = self.rows[self._coded :]
            order = np.argsort(rest, kind="stable")
            self._rest = (rest[order], order + self._coded)
        known = [self._rest] if self.codes is None else [self._rest, (self.codes.sorted_rows, self.codes.by_row)]
        wanted = np.sort(wanted[wanted > 0])
        if not len(wanted):
            return wanted
        found = [np.empty(0, dtype=np.int64)]
        for ordered, places in known:
            if len(ordered):
                near = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
                found.append(places[near[ordered[near] == wanted]].astype(np.int64))
        places = np.sort(np.concatenate(found))
        places = places[(places >= 0) & (places < len(self.rows))]
        # A line may have died since it was sorted; and sorted rows that are damaged are believed only where they agree.
        there = self.rows[places]
        agreed = wanted[np.minimum(np.searchsorted(wanted, there), len(wanted) - 1)]
        return np.asarray(places[there == agreed])

    def _scored(self, question: Array, admission: Admission | None, limit: int) -> tuple[Array, Array]:
        """Return places worth returning, with their cosines."""
        import numpy as np

        admitted, positions = (None, None) if admission is None else self._admit(admission)
        if admitted is not None and len(admitted) <= max(_FEW, _LIMITS_A_LANE * limit):
            return admitted, dot(self.vectors.take(admitted, axis=0), question)
        if self.codes is None or self._coded < _LIMITS_A_LANE * limit:
            scores = dot(self.vectors, question)
            return (np.arange(len(scores)), scores) if admitted is None else (admitted, scores[admitted])
        places = self.codes.propose(question, positions, limit)
        scores = dot(self.vectors.take(places, axis=0), question)
        if self._coded < len(self.rows):
            later = dot(self.vectors[self._coded :], question)
            if admitted is None:
                rest = np.arange(self._coded, len(self.rows))
            else:
                rest = admitted[np.searchsorted(admitted, self._coded) :]
                later = later[rest - self._coded]
            places, scores = np.concatenate([places, rest]), np.concatenate([scores, later])
        return places, scores

    def _admit(self, admission: Admission) -> tuple[Array, Array | None]:
        """Return the admitted places in order and, where there are codes and many are admitted, where those stand in them."""
        known = self._admitted.get(admission.key)
        if known is not None:
            return known
        import numpy as np

        if admission.rows is not None:
            rows = admission.rows()
            places = self.places_of(np.fromiter(rows, dtype=np.int64, count=len(rows)))
        else:
            marks = np.frombuffer(b"".join(project_mark(one) for one in admission.projects), dtype="<u8")
            places = np.flatnonzero(np.isin(self._projects, marks))
        places = places.astype(np.int32)
        positions = None
        if self.codes is not None and len(places) > _FEW:
            mask = np.zeros(len(self.rows), dtype=bool)
            mask[places] = True
            positions = self.codes.positions(mask).astype(np.int32)
        if len(self._admitted) >= _KEPT_ADMISSIONS:
            self._admitted.clear()
        self._admitted[admission.key] = (places, positions)
        return places, positions


def open_matrix(files: tuple[Path, Path, Path], count: int, dimension: int, codes: Codes | None) -> Matrix:
    """Map the first `count` lines of a matrix's files."""
    import numpy as np

    vectors, rows, projects = files
    # Plain arrays over the same pages: numpy's memmap subclass costs on every operation.
    return Matrix(
        np.asarray(np.memmap(vectors, dtype="<f4", mode="r", shape=(count, dimension))),
        np.asarray(np.memmap(rows, dtype="<i8", mode="r", shape=(count,))),
        np.asarray(np.memmap(projects, dtype="<u8", mode="r", shape=(count,))),
        codes,
    )
