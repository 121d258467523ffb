"""Short codes of vectors: what lets the dense lane look at a quarter of a million lines, and read two thousand of them.

Lines are sorted into lists by the nearest of some centres, and each line's difference from its centre is kept as one
bit a dimension (its sign), its length, and its product with the centre. A question looks into the nearest lists only,
estimates every line there from its bits, and hands the best of them to the caller, who scores them exactly from
the matrix. So a code can hide a line, never give it a wrong score. `ARCHITECTURE.md` has the measurements.

A file is never changed. It is written under a new name, mapped when read, and covers the first lines of a matrix that
only grows; what came after is the caller's to scan. How far to look is tried out when it is built, on lines of the
matrix itself, since models differ; where even the widest look misses too many, there is no file.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_FORMAT = 1
_HEADER_BYTES = 512
_ALIGNED = 64
_BLOCK = 4096
_SAMPLED_A_LIST = 40
_TRAINING_ROUNDS = 8
_LOOKS = ((1 / 8, 2000), (1 / 4, 2000), (1 / 2, 2000), (1 / 2, 8000))
"""Shares of the lines to look at, and how many of them to hand over: the first that finds enough for stored lines, and twice
its share, is taken."""
_WIDEST = 1 / 2
_LEAST_LOOKED_AT = 20_000
_GOOD_RECALL = 0.99
_TRIALS = 32
_TRIAL_HITS = 10


@dataclass(frozen=True, slots=True)
class _Header:
    """What a file holds. `sums` are checksums: of the part that everything rests on, and of the rest."""

    format: int
    dimension: int
    count: int
    lists: int
    trained: int
    """How many lines the matrix had when the centres were chosen."""
    share: float
    handed: int
    sums: tuple[int, int] = (0, 0)

    @property
    def words(self) -> int:
        return -(-self.dimension // 64)

    def parts(self) -> Iterator[tuple[str, str, tuple[int, ...], int]]:
        """Give name, type, shape and offset of every array. Those before `planes` are what everything rests on."""
        lists, count = self.lists, self.count
        offset = _HEADER_BYTES
        for name, kind, shape in (
            ("centres", "<f4", (lists, self.dimension)),
            ("starts", "<i8", (lists + 1,)),
            ("planes", "<u8", (self.words, count)),
            ("lengths", "<f4", (count,)),
            ("products", "<f4", (count,)),
            ("places", "<i4", (count,)),
            ("sorted_rows", "<i8", (count,)),
            ("by_row", "<i4", (count,)),
        ):
            yield name, kind, shape, offset
            size = math.prod(shape) * int(kind[2])
            offset += -(-size // _ALIGNED) * _ALIGNED

    def bytes(self) -> int:
        _, kind, shape, offset = list(self.parts())[-1]
        return offset + math.prod(shape) * int(kind[2])


class Codes:
    """An opened file of codes."""

    def __init__(self, header: _Header, arrays: dict[str, Array]) -> None:
        self.header = header
        self.arrays = arrays
        self._centres, self._starts = arrays["centres"], arrays["starts"]
        self._planes, self._places = arrays["planes"], arrays["places"]
        self._lengths, self._products = arrays["lengths"], arrays["products"]
        self.count = header.count
        self.trained = header.trained
        self.sorted_rows, self.by_row = arrays["sorted_rows"], arrays["by_row"]

    @property
    def mapped_bytes(self) -> int:
        """Return the size of the file."""
        return self.header.bytes()

    def positions(self, mask: Array) -> Array:
        """Return where the lines that a mask admits stand in the lists, as `propose` wants it."""
        import numpy as np

        return np.flatnonzero(mask.take(self._places, mode="clip"))

    def propose(self, question: Array, within: Array | None, limit: int) -> Array:
        """Return the places of the most promising lines, in no order; only those at `within`, unless it is None."""
        import numpy as np

        with np.errstate(all="ignore"):  # a damaged file may hold any numbers
            looked = self._look(question, within, limit)
        if looked is None:
            return np.empty(0, dtype=np.int64)
        positions, scores = looked
        handed = max(self.header.handed, 3 * limit)
        if handed < len(scores):
            positions = positions[np.argpartition(scores, len(scores) - handed)[-handed:]]
        places = np.sort(self._places[positions])
        if places[0] < 0 or places[-1] >= self.count or not np.diff(places).all():  # a damaged file
            places = np.unique(places[(places >= 0) & (places < self.count)])
        return places

    def _look(self, question: Array, within: Array | None, limit: int) -> tuple[Array, Array] | None:
        """Estimate the lines of the nearest lists; return their positions and scores."""
        import numpy as np

        edges = self._starts if within is None else np.searchsorted(within, self._starts)
        sizes = np.diff(edges)
        near = np.argsort(-(self._centres @ question))
        # Few admitted ones lie thinly in many lists: between their own number and that of all lines.
        wanted = max(_LEAST_LOOKED_AT, int(math.sqrt(edges[-1] * self.count) * self.header.share), 12 * limit)
        lists = near[: np.searchsorted(np.cumsum(sizes[near]), wanted) + 1]
        lists = np.sort(lists[sizes[lists] > 0])
        if not len(lists):
            return None
        centres = self._centres[lists]
        away = question - centres
        signs, sizes, firsts = _signs(away), sizes[lists], edges[lists]
        ends = np.cumsum(sizes)
        if within is None:
            positions = np.arange(ends[-1]) + np.repeat(firsts - (ends - sizes), sizes)
            differing = np.empty((len(self._planes), ends[-1]), dtype=np.uint64)
            for own, start, size, end in zip(signs, firsts.tolist(), sizes.tolist(), ends.tolist(), strict=True):
                there = self._planes[:, start : start + size]
                np.bitwise_xor(there, own[:, None], out=differing[:, end - size : end])
        else:
            spans = zip(firsts.tolist(), sizes.tolist(), strict=True)
            positions = np.concatenate([within[start : start + size] for start, size in spans])
            differing = self._planes[:, positions] ^ np.repeat(signs.T, sizes, axis=1)
        apart = np.bitwise_count(differing).sum(axis=0, dtype=np.uint16)
        # Two directions that differ in this many signs stand at about this angle; near a right angle cosine is linear.
        cosines = np.float32(math.pi / 2) - np.float32(math.pi / self.header.dimension) * apart
        cosines *= self._lengths[positions]
        cosines *= np.repeat(np.linalg.norm(away, axis=1), sizes)
        cosines += self._products[positions]
        cosines += np.repeat(centres @ question, sizes)
        return positions, cosines


# -- files -----------------------------------------------------------------------------------------------------------


def open_codes(path: Path, dimension: int, most: int) -> Codes | None:
    """Map a file of codes for a matrix of at most so many lines; None when there is none that can be trusted."""
    try:
        header = _read_header(path)
        if header.dimension != dimension or not 0 < header.count <= most:
            return None
        return Codes(header, _map(path, header))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def is_whole(path: Path) -> bool:
    """Say whether every byte of a file is as it was written. Reads all of it."""
    try:
        header = _read_header(path)
        with path.open("rb") as file:
            file.seek(_rest_offset(header))
            return _sum_of(file) == header.sums[1]
    except (OSError, ValueError, TypeError, KeyError):
        return False


def _read_header(path: Path) -> _Header:
    with path.open("rb") as file:
        header = _Header(**json.loads(file.read(_HEADER_BYTES)))
        if header.format != _FORMAT or path.stat().st_size != header.bytes():
            raise ValueError("another format, or cut off")
        base = file.read(_rest_offset(header) - _HEADER_BYTES)
    if zlib.crc32(base) != header.sums[0]:
        raise ValueError("damaged")
    return header


def _rest_offset(header: _Header) -> int:
    return next(offset for name, _, _, offset in header.parts() if name == "planes")


def _sum_of(file: Any) -> int:
    total = 0
    while piece := file.read(1 << 20):
        total = zlib.crc32(piece, total)
    return total


def _map(path: Path, header: _Header) -> dict[str, Array]:
    import numpy as np

    whole = np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))
    return {
        name: whole[offset : offset + math.prod(shape) * int(kind[2])].view(kind).reshape(shape)
        for name, kind, shape, offset in header.parts()
    }


def _write(path: Path, header: _Header, arrays: dict[str, Array]) -> None:
    import numpy as np

    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b") as file:
        for name, kind, _, offset in header.parts():
            file.seek(offset)
            np.ascontiguousarray(arrays[name], dtype=kind).tofile(file)
        file.flush()
        rest = _rest_offset(header)
        file.seek(_HEADER_BYTES)
        base = zlib.crc32(file.read(rest - _HEADER_BYTES))
        file.seek(rest)
        header = replace(header, sums=(base, _sum_of(file)))
        file.seek(0)
        file.write(json.dumps(asdict(header)).encode().ljust(_HEADER_BYTES))
        file.flush()
        os.fsync(file.fileno())


# -- building --------------------------------------------------------------------------------------------------------


def build_codes(path: Path, matrix: Array, rows: Array) -> bool:
    """Choose centres for a matrix and write its codes; False when they would not find enough to be worth having."""
    import numpy as np

    count, dimension = matrix.shape
    lists = max(16, round(math.sqrt(count)))
    centres = _train(matrix, lists)
    of_list, arrays = _encode(matrix, 0, centres)
    arrays |= _by_row(rows)
    header = _Header(_FORMAT, dimension, count, lists, count, *_LOOKS[0])
    arrays |= {"centres": centres, "places": np.arange(count, dtype=np.int32)}
    arrays = _sort(arrays, of_list, lists)
    tried = _first_good_look(header, arrays, matrix)
    if tried is None:
        return False
    _write(path, tried, arrays)
    return True


def extend_codes(path: Path, old: Codes, matrix: Array, rows: Array) -> None:
    """Write the codes of a matrix that has grown: what was coded is copied, and the new lines join the nearest lists."""
    import numpy as np

    known = old.arrays
    of_list, new = _encode(matrix, old.count, known["centres"])
    new["places"] = np.arange(old.count, len(matrix), dtype=np.int32)
    arrays = {name: np.concatenate([known[name], new[name]], axis=-1) for name in new}
    before = np.repeat(np.arange(old.header.lists, dtype=np.uint32), np.diff(known["starts"]))
    arrays = _sort(arrays, np.concatenate([before, of_list]), old.header.lists) | _by_row(rows)
    _write(path, replace(old.header, count=len(matrix)), arrays | {"centres": known["centres"]})


def _train(matrix: Array, lists: int) -> Array:
    """Return centres: directions of what is nearest to them, after a few rounds over a sample.

    They have unit length, because so have questions: with plain means 2 points of recall were lost.
    """
    import numpy as np

    luck = np.random.default_rng(0)
    count = min(len(matrix), lists * _SAMPLED_A_LIST)
    sample = np.array(matrix[np.sort(luck.choice(len(matrix), count, replace=False))])
    centres = sample[luck.choice(count, lists, replace=False)]
    for _ in range(_TRAINING_ROUNDS):
        of_list = np.concatenate([_nearest(part, centres) for part in _blocks(sample)])
        order = np.argsort(of_list, kind="stable")
        filled, starts = np.unique(of_list[order], return_index=True)
        # A centre that nothing is near to starts again elsewhere.
        centres = sample[luck.choice(count, lists, replace=False)]
        sums = np.add.reduceat(sample[order], starts, axis=0)
        centres[filled] = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)
    return np.asarray(centres, dtype=np.float32)


def _encode(matrix: Array, start: int, centres: Array) -> tuple[Array, dict[str, Array]]:
    """Return the list of each line from `start` on, and its code."""
    import numpy as np

    lists, planes, lengths, products = list[Any](), list[Any](), list[Any](), list[Any]()
    for lines in _blocks(matrix, start):
        nearest = _nearest(lines, centres)
        centre = centres[nearest]
        away = lines - centre
        lists.append(nearest)
        planes.append(_signs(away).T)
        lengths.append(np.linalg.norm(away, axis=1))
        products.append(np.einsum("ij,ij->i", away, centre))
    codes = {"lengths": np.concatenate(lengths), "products": np.concatenate(products)}
    return np.concatenate(lists), codes | {"planes": np.concatenate(planes, axis=1)}


def _sort(arrays: dict[str, Array], of_list: Array, lists: int) -> dict[str, Array]:
    import numpy as np

    order = np.argsort(of_list, kind="stable")
    moved = {name: arrays[name][..., order] for name in ("planes", "lengths", "products", "places")}
    return arrays | moved | {"starts": np.searchsorted(of_list[order], np.arange(lists + 1))}


def _by_row(rows: Array) -> dict[str, Array]:
    import numpy as np

    order = np.argsort(rows, kind="stable")
    return {"sorted_rows": rows[order], "by_row": order.astype(np.int32)}


def _nearest(lines: Array, centres: Array) -> Array:
    import numpy as np

    return np.asarray((lines @ centres.T).argmax(axis=1), dtype=np.uint32)


def _signs(lines: Array) -> Array:
    """Return each line's signs, 64 to a word; what a word has over is the same for all."""
    import numpy as np

    bits = np.packbits(lines > 0, axis=1)
    if over := bits.shape[1] % 8:
        bits = np.pad(bits, ((0, 0), (0, 8 - over)))
    return np.asarray(bits.view("<u8"))


def _blocks(matrix: Array, start: int = 0) -> Iterator[Array]:
    for first in range(start, len(matrix), _BLOCK):
        yield matrix[first : first + _BLOCK]


def _first_good_look(header: _Header, arrays: dict[str, Array], matrix: Array) -> _Header | None:
    import numpy as np

    questions = np.array(matrix[:: max(1, len(matrix) // _TRIALS)][:_TRIALS])
    truth = _exact(matrix, questions)
    for share, handed in _LOOKS:
        tried = replace(header, share=share, handed=handed)
        codes = Codes(tried, arrays)
        # A place that is as near as the last of the true ones is as good: texts may repeat.
        found = [_best(matrix, codes.propose(one, None, _TRIAL_HITS), one) for one in questions]
        good = sum(int((scores >= least - 1e-5).sum()) for scores, least in zip(found, truth, strict=True))
        if good >= _GOOD_RECALL * _TRIAL_HITS * len(questions):
            # Questions lie farther from the lists than lines do: at a million made-up ones an eighth was enough for lines,
            # and found .972 of what questions wanted; a quarter found .985.
            return replace(tried, share=min(2 * share, max(share, _WIDEST)))
    return None


def _best(matrix: Array, places: Array, question: Array) -> Array:
    import numpy as np

    return np.sort(matrix[places] @ question)[-_TRIAL_HITS:]


def _exact(matrix: Array, questions: Array) -> Sequence[float]:
    """Return the score of each question's last true hit."""
    import numpy as np

    best = np.full((0, len(questions)), -2, dtype=np.float32)
    for lines in _blocks(matrix):
        best = np.sort(np.concatenate([best, lines @ questions.T]), axis=0)[-_TRIAL_HITS:]
    return [float(one) for one in best[0]]
