"""Short codes of vectors: of a million, a query estimates a quarter from them and reads two thousand exactly.

Each row of the matrix is called a line here, because `row` is the chunk's row in the catalog. Lines are grouped into
lists by their nearest centre. For each line the difference from its centre is stored as one bit per dimension (its
sign), its length, and its product with the centre. A query estimates the lines of the nearest lists from these bits and
returns the best to the caller, which scores them exactly from the matrix. So a code can hide a line but never give it a
wrong score. `docs/decisions/stores.md` has the reasons and refers to the measurements.

A file is never changed. It is written under a new name, mapped when read, and covers the first lines of a matrix that
only grows; the caller scans later lines. How many lines to look at is measured when a file is built, on lines of the
matrix itself, since models differ; if even the widest setting misses too many, no file is written.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, to_builtins
from msgspec.structs import replace

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


CODES_FORMAT = 1
_HEADER_BYTES = 512
_ALIGNMENT = 64
MAX_LOOK_SHARE = 1 / 2
"""From this share on, estimating all lines is as fast as collecting the nearest lists, so all lines are estimated."""
_LINES_PER_BLOCK = 1 << 13
"""Few enough that their codes stay in the processor's cache and that no memory is requested from the system in each search: with
all lines at once, 700 page faults took 1 ms of 2.5."""
_ALL_LINES = 1.0
"""The share if large lists were tried and missed too much: they are not tried again."""
_MIN_LINES_LOOKED_AT = 20_000
_SAMPLE_INTERVAL = 16
_NAMES_IN_FILE = {"look_share": "share", "max_returned": "handed"}
"""Fields of the header that have other names in the file."""


class CodesHeader(Struct, frozen=True, kw_only=True):
    """The start of a file: the sizes of its arrays, and how far queries look."""

    format: int
    dimension: int
    count: int
    lists: int
    trained: int
    """Number of lines when the centres were trained."""
    look_share: float
    """Share of the lines that a query estimates, unless `_MIN_LINES_LOOKED_AT` or its limit requires more."""
    max_returned: int
    """Number of lines that a query returns to be scored exactly, unless three times its limit is more."""
    sums: tuple[int, int] = (0, 0)
    """Checksums: of `centres` and `starts`, verified when a file is opened, and of all other arrays."""

    @property
    def words(self) -> int:
        return -(-self.dimension // 64)

    def parts(self) -> Iterator[tuple[str, str, tuple[int, ...], int]]:
        """Yield name, type, shape and offset of every array. Those before `planes` have their own checksum."""
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
            offset += -(-size // _ALIGNMENT) * _ALIGNMENT

    def bytes(self) -> int:
        _, kind, shape, offset = list(self.parts())[-1]
        return offset + math.prod(shape) * int(kind[2])


class VectorLines(Protocol):
    """Vectors by line: a matrix, or something that reads them when asked."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, lines: Any, /) -> Array: ...


class VectorCodes:
    """An open file of codes."""

    def __init__(self, header: CodesHeader, arrays: dict[str, Array]) -> None:
        self.header = header
        self.arrays = arrays
        self._centres, self._starts = arrays["centres"], arrays["starts"]
        self._planes, self._places = arrays["planes"], arrays["places"]
        self._lengths, self._products = arrays["lengths"], arrays["products"]
        self.count = header.count

    def positions(self, mask: Array) -> Array:
        """Return the positions in the lists of the lines that a mask admits, for `propose`."""
        import numpy as np

        return np.flatnonzero(mask.take(self._places, mode="clip"))

    def propose(self, query: Array, within: Array | None, limit: int) -> Array:
        """Return the most promising lines in no order, restricted to the positions `within` unless it is None."""
        import numpy as np

        with np.errstate(all="ignore"):  # a damaged file may hold any numbers
            estimated = self._score_nearest(query, within, limit)
        if estimated is None:
            return np.empty(0, dtype=np.int64)
        spans, scores = estimated
        returned = max(self.header.max_returned, 3 * limit)
        chosen = choose_best(scores, returned) if returned < len(scores) else np.arange(len(scores))
        if spans is not None:
            firsts, ends = spans
            chosen += firsts.take(np.searchsorted(ends, chosen, side="right"))
        lines = np.sort(self._places[chosen if within is None else within[chosen]])
        if lines[0] < 0 or lines[-1] >= self.count or not np.diff(lines).all():  # a damaged file
            lines = np.unique(lines[(lines >= 0) & (lines < self.count)])
        return lines

    def _score_nearest(
        self, query: Array, within: Array | None, limit: int
    ) -> tuple[tuple[Array, Array] | None, Array] | None:
        """Estimate the lines of the nearest lists; return which they are, and their scores.

        Which: by list, what to add to the place of a score to get that of its line in `within`, or among all lines, and where
        the list's scores end. None if there is a score for each.
        """
        import numpy as np

        if self.header.look_share >= MAX_LOOK_SHARE:
            scores = self._score_lists(query, np.arange(self.header.lists))
            return None, (scores if within is None else scores.take(within, mode="clip"))
        edges = self._starts if within is None else np.searchsorted(within, self._starts)
        sizes = np.diff(edges)
        near = np.argsort(-dot(self._centres, query))
        # Few admitted lines are spread thinly over many lists: use the mean of their number and that of all lines.
        target = max(_MIN_LINES_LOOKED_AT, int(math.sqrt(edges[-1] * self.count) * self.header.look_share), 12 * limit)
        lists = near[: np.searchsorted(np.cumsum(sizes[near]), target) + 1]
        lists = np.sort(lists[sizes[lists] > 0])
        if not len(lists):
            return None
        sizes, firsts = sizes[lists], edges[lists]
        ends = np.cumsum(sizes)
        spans = firsts - (ends - sizes), ends
        if within is None:
            return spans, self._score_lists(query, lists)
        positions = within[np.arange(ends[-1]) + np.repeat(spans[0], sizes)]
        return spans, self._score_positions(query, lists, sizes, positions)

    def _score_lists(self, query: Array, lists: Array) -> Array:
        """Estimate all lines of these lists, in their order.

        From half of the lines on, estimating all costs no more than collecting the nearest lists, and misses nothing in the
        others: recall@10 .9985 instead of .988 with synthetic vectors.
        """
        import numpy as np

        offsets = query - self._centres[lists]
        distances, centre_products = np.linalg.norm(offsets, axis=1), dot(self._centres[lists], query)
        starts, stops = self._starts[lists], self._starts[lists + 1]
        ends = np.cumsum(stops - starts)
        signs = pack_signs(offsets)[:, :, None]
        lists_and_spans = list(enumerate(zip(starts.tolist(), stops.tolist(), strict=True)))
        cosines = np.empty(ends[-1], dtype=np.float32)
        blocks = list(_blocks_of_lists(ends))
        limits = [0, *ends[[last - 1 for _, last in blocks]].tolist()]
        scratch = _Scratch(self.header.words, max(end - begin for begin, end in pairwise(limits)))
        for (first, last), (begin, end) in zip(blocks, pairwise(limits), strict=True):
            spans, estimates = lists_and_spans[first:last], cosines[begin:end]
            at = 0
            for number, (start, stop) in spans:
                part = scratch.differing[:, at : (at := at + stop - start)]
                np.bitwise_xor(self._planes[:, start:stop], signs[number], out=part)
            scratch.estimate(self.header.dimension, estimates)
            at = 0
            for number, (start, stop) in spans:
                part = estimates[at : (at := at + stop - start)]
                part *= distances[number]
                part *= self._lengths[start:stop]
                part += self._products[start:stop]
                part += centre_products[number]
        return cosines

    def _score_positions(self, query: Array, lists: Array, sizes: Array, positions: Array) -> Array:
        """Estimate the lines at these positions, so many of each list."""
        import numpy as np

        offsets = query - self._centres[lists]
        signs, ends = pack_signs(offsets).T, np.cumsum(sizes)
        cosines = np.empty(len(positions), dtype=np.float32)
        for first, last in _blocks_of_lists(ends):
            block = slice(ends[first] - sizes[first], ends[last - 1])
            scratch, estimates = _Scratch(self.header.words, ends[last - 1] - block.start), cosines[block]
            self._planes.take(positions[block], axis=-1, mode="clip", out=scratch.differing)
            scratch.differing ^= np.repeat(signs[:, first:last], sizes[first:last], axis=1)
            scratch.estimate(self.header.dimension, estimates)
            estimates *= self._lengths.take(positions[block])
        cosines *= np.repeat(np.linalg.norm(offsets, axis=1), sizes)
        cosines += self._products.take(positions)
        cosines += np.repeat(dot(self._centres[lists], query), sizes)
        return cosines


class _Scratch:
    """Arrays for the lines of one block, used again for the next: new ones would take pages from the system each time."""

    def __init__(self, words: int, lines: int) -> None:
        import numpy as np

        self.differing = np.empty((words, lines), dtype=np.uint64)
        """Signs in which the lines differ from the query, as bits."""
        self._counts = np.empty((words, lines), dtype=np.uint8)

    def estimate(self, dimension: int, cosines: Array) -> None:
        """Write the cosines between the lines' offsets from their centres and the query's."""
        import numpy as np

        lines = len(cosines)
        counts = np.bitwise_count(self.differing[:, :lines], out=self._counts[:, :lines])
        # Three words at a time, whose sum fits 8 bits: half of the time of 16 bits from the start.
        sums = [np.add.reduce(counts[first : first + 3], axis=0, dtype=np.uint8) for first in range(0, len(counts), 3)]
        apart = sum(sums[1:], start=sums[0].astype(np.uint16))
        # The share of differing signs is proportional to the angle; near a right angle the cosine is linear.
        np.multiply(apart, np.float32(-math.pi / dimension), out=cosines)
        cosines += np.float32(math.pi / 2)


def dot(lines: Array, query: Array) -> Array:
    """Return the product of each line with a query, using only this thread.

    `lines @ query` uses threads of BLAS that keep spinning for some 25 ms after a product of this size: a search took twice its CPU
    time, and twice its time if the other core was busy. `vecdot` calls BLAS line by line, which uses one thread, and takes a third of
    the time of `einsum`.
    """
    import numpy as np

    return np.asarray(np.vecdot(lines, query))


def choose_best(scores: Array, count: int) -> Array:
    """Return the positions of the `count` highest scores, in no order.

    A sample gives a lower bound of them, so that only few have to be partitioned: a third of the time with 50,000.
    """
    import numpy as np

    sample = scores[::_SAMPLE_INTERVAL]
    likely = len(sample) * count // len(scores) * 5 // 4
    if 0 < likely < len(sample):
        cutoff = np.partition(sample, len(sample) - likely)[len(sample) - likely]
        chosen = np.flatnonzero(scores >= cutoff)
        if len(chosen) >= count:
            return np.asarray(chosen[np.argpartition(scores[chosen], len(chosen) - count)[-count:]])
    return np.argpartition(scores, len(scores) - count)[-count:]


def pack_signs(lines: Array) -> Array:
    """Return each line's signs, 64 per word; the unused bits of a word are the same for all lines."""
    import numpy as np

    bits = np.packbits(lines > 0, axis=1)
    if extra := bits.shape[1] % 8:
        bits = np.pad(bits, ((0, 0), (0, 8 - extra)))
    return np.asarray(bits.view("<u8"))


def _blocks_of_lists(ends: Array) -> Iterator[tuple[int, int]]:
    """Yield ranges of lists, given where each ends, that have about `_LINES_PER_BLOCK` lines each."""
    import numpy as np

    cuts = np.unique(np.searchsorted(ends, range(0, int(ends[-1]), _LINES_PER_BLOCK), side="right")).tolist()
    yield from pairwise([*cuts, len(ends)])


# -- files -----------------------------------------------------------------------------------------------------------


def open_codes(path: Path, dimension: int, max_lines: int) -> VectorCodes | None:
    """Map a file of codes for a matrix of at most `max_lines` lines; return None if it is missing or damaged."""
    try:
        header = _read_header(path)
        if header.dimension != dimension or not 0 < header.count <= max_lines:
            return None
        import numpy as np

        whole = np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))
        arrays = {
            name: whole[offset : offset + math.prod(shape) * int(kind[2])].view(kind).reshape(shape)
            for name, kind, shape, offset in header.parts()
        }
        return VectorCodes(header, arrays)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def is_intact(path: Path) -> bool:
    """Return True if every byte of a file is as written. Reads the whole file."""
    try:
        header = _read_header(path)
        with path.open("rb") as file:
            file.seek(_tail_offset(header))
            return _checksum(file) == header.sums[1]
    except (OSError, ValueError, TypeError, KeyError):
        return False


def _read_header(path: Path) -> CodesHeader:
    with path.open("rb") as file:
        fields = dict(**json.loads(file.read(_HEADER_BYTES)))  # TypeError unless it is an object
        names = {name: field for field, name in _NAMES_IN_FILE.items()}
        header = CodesHeader(**{names.get(name, name): value for name, value in fields.items()})
        if header.format != CODES_FORMAT or path.stat().st_size != header.bytes():
            raise ValueError("another format, or truncated")
        base = file.read(_tail_offset(header) - _HEADER_BYTES)
    if zlib.crc32(base) != header.sums[0]:
        raise ValueError("damaged")
    return header


def _tail_offset(header: CodesHeader) -> int:
    return next(offset for name, _, _, offset in header.parts() if name == "planes")


def _checksum(file: Any) -> int:
    total = 0
    while piece := file.read(1 << 20):
        total = zlib.crc32(piece, total)
    return total


def write_codes(path: Path, header: CodesHeader, arrays: dict[str, Array]) -> None:
    """Write a new file and sync it to disk."""
    import numpy as np

    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b") as file:
        for name, kind, _, offset in header.parts():
            file.seek(offset)
            np.ascontiguousarray(arrays[name], dtype=kind).tofile(file)
        file.flush()
        rest = _tail_offset(header)
        file.seek(_HEADER_BYTES)
        base = zlib.crc32(file.read(rest - _HEADER_BYTES))
        file.seek(rest)
        header = replace(header, sums=(base, _checksum(file)))
        file.seek(0)
        fields = {_NAMES_IN_FILE.get(name, name): value for name, value in to_builtins(header).items()}
        file.write(json.dumps(fields).encode().ljust(_HEADER_BYTES))
        file.flush()
        os.fsync(file.fileno())


_LINES_PER_ENCODE = 4096
_SAMPLES_PER_LIST = 40
_TRAINING_ROUNDS = 8
_LOOK_SETTINGS = ((1 / 8, 2000), (1 / 4, 2000), (1 / 2, 2000), (1 / 2, 8000))
"""Shares of the lines to look at, and how many of them to return. The first setting that finds enough for stored lines is used,
with twice its share."""
_WIDE_SETTINGS = ((MAX_LOOK_SHARE, 2500), (MAX_LOOK_SHARE, 8000))
"""The same for a few large lists."""
_MIN_RECALL = 0.99
_TRIALS = 32
_TRIAL_HITS = 10


def build_codes(path: Path, matrix: VectorLines, rows: Array) -> bool:
    """Train centres for a matrix and write its codes; return False if they would miss too much."""
    count = len(matrix)
    index, trials = _row_index(rows), _Trials.choose(matrix)
    header, arrays = _build_lists(matrix, max(16, round(math.sqrt(count))))
    measured = trials.measure(header, arrays, _LOOK_SETTINGS)
    if measured is None or measured.look_share >= MAX_LOOK_SHARE:
        # The lists do not tell where the nearest lines are, so all lines are estimated. Large lists are faster then.
        header, large = _build_lists(matrix, max(1, count // _LINES_PER_BLOCK))
        widest = trials.measure(header, large, _WIDE_SETTINGS)
        if widest is not None:
            measured, arrays = widest, large
        elif measured is not None:
            measured = replace(measured, look_share=_ALL_LINES)
    if measured is None:
        return False
    write_codes(path, measured, arrays | index)
    return True


def _build_lists(matrix: VectorLines, lists: int) -> tuple[CodesHeader, dict[str, Array]]:
    """Return the codes of a matrix in so many lists; how far to look is still to be measured."""
    import numpy as np

    count, dimension = matrix.shape
    centres = _train(matrix, lists)
    list_of_line, arrays = _encode(matrix, 0, centres)
    arrays |= {"centres": centres, "places": np.arange(count, dtype=np.int32)}
    look_share, max_returned = _LOOK_SETTINGS[0]
    header = CodesHeader(
        format=CODES_FORMAT,
        dimension=dimension,
        count=count,
        lists=lists,
        trained=count,
        look_share=look_share,
        max_returned=max_returned,
    )
    return header, _sort_into_lists(arrays, list_of_line, lists)


def extend_codes(path: Path, old: VectorCodes, matrix: VectorLines, rows: Array) -> None:
    """Write the codes of a matrix that has grown: existing codes are copied, and new lines join the nearest lists."""
    import numpy as np

    known = old.arrays
    list_of_line, new = _encode(matrix, old.count, known["centres"])
    new["places"] = np.arange(old.count, len(matrix), dtype=np.int32)
    arrays = {name: np.concatenate([known[name], new[name]], axis=-1) for name in new}
    before = np.repeat(np.arange(old.header.lists, dtype=np.uint32), np.diff(known["starts"]))
    arrays = _sort_into_lists(arrays, np.concatenate([before, list_of_line]), old.header.lists) | _row_index(rows)
    write_codes(path, replace(old.header, count=len(matrix)), arrays | {"centres": known["centres"]})


def _train(matrix: VectorLines, lists: int) -> Array:
    """Return centres: the mean directions of the lines nearest to them, after a few rounds over a sample.

    They have unit length because queries do: with plain means recall was 2 points lower.
    """
    import numpy as np

    rng = np.random.default_rng(0)
    count = min(len(matrix), lists * _SAMPLES_PER_LIST)
    sample = np.array(matrix[np.sort(rng.choice(len(matrix), count, replace=False))])
    centres = sample[rng.choice(count, lists, replace=False)]
    for _ in range(_TRAINING_ROUNDS):
        list_of_line = np.concatenate([_nearest_centres(part, centres) for part in _matrix_blocks(sample)])
        order = np.argsort(list_of_line, kind="stable")
        filled, starts = np.unique(list_of_line[order], return_index=True)
        # A centre without lines is replaced by a random line.
        centres = sample[rng.choice(count, lists, replace=False)]
        sums = np.add.reduceat(sample[order], starts, axis=0)
        centres[filled] = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)
    return np.asarray(centres, dtype=np.float32)


def _encode(matrix: VectorLines, start: int, centres: Array) -> tuple[Array, dict[str, Array]]:
    import numpy as np

    lists, planes, lengths, products = list[Any](), list[Any](), list[Any](), list[Any]()
    for lines in _matrix_blocks(matrix, start):
        nearest = _nearest_centres(lines, centres)
        centre = centres[nearest]
        offsets = lines - centre
        lists.append(nearest)
        planes.append(pack_signs(offsets).T)
        lengths.append(np.linalg.norm(offsets, axis=1))
        products.append(np.einsum("ij,ij->i", offsets, centre))
    codes = {"lengths": np.concatenate(lengths), "products": np.concatenate(products)}
    return np.concatenate(lists), codes | {"planes": np.concatenate(planes, axis=1)}


def _sort_into_lists(arrays: dict[str, Array], list_of_line: Array, lists: int) -> dict[str, Array]:
    import numpy as np

    order = np.argsort(list_of_line, kind="stable")
    moved = {name: arrays[name][..., order] for name in ("planes", "lengths", "products", "places")}
    return arrays | moved | {"starts": np.searchsorted(list_of_line[order], np.arange(lists + 1))}


def _row_index(rows: Array) -> dict[str, Array]:
    import numpy as np

    order = np.argsort(rows, kind="stable")
    return {"sorted_rows": rows[order], "by_row": order.astype(np.int32)}


def _nearest_centres(lines: Array, centres: Array) -> Array:
    import numpy as np

    return np.asarray((lines @ centres.T).argmax(axis=1), dtype=np.uint32)


def _matrix_blocks(matrix: VectorLines, start: int = 0) -> Iterator[Array]:
    for first in range(start, len(matrix), _LINES_PER_ENCODE):
        yield matrix[first : first + _LINES_PER_ENCODE]


class _Trials(Struct, frozen=True):
    """Lines of a matrix that serve as queries, and the score of the last exact hit of each."""

    matrix: VectorLines
    queries: Array
    cutoffs: Sequence[float]

    @classmethod
    def choose(cls, matrix: VectorLines) -> _Trials:
        import numpy as np

        queries = np.array(matrix[:: max(1, len(matrix) // _TRIALS)][:_TRIALS])
        best = np.full((0, len(queries)), -2, dtype=np.float32)
        for lines in _matrix_blocks(matrix):
            best = np.sort(np.concatenate([best, lines @ queries.T]), axis=0)[-_TRIAL_HITS:]
        return cls(matrix, queries, [float(score) for score in best[0]])

    def measure(
        self, header: CodesHeader, arrays: dict[str, Array], settings: Sequence[tuple[float, int]]
    ) -> CodesHeader | None:
        """Return the header with the first setting that finds enough; None if none does."""
        import numpy as np

        for share, max_returned in settings:
            candidate = replace(header, look_share=share, max_returned=max_returned)
            codes = VectorCodes(candidate, arrays)
            # A line as near as the last exact hit counts as a hit: texts may repeat.
            hits = 0
            for query, cutoff in zip(self.queries, self.cutoffs, strict=True):
                scores = np.sort(self.matrix[codes.propose(query, None, _TRIAL_HITS)] @ query)[-_TRIAL_HITS:]
                hits += int((scores >= cutoff - 1e-5).sum())
            if hits >= _MIN_RECALL * _TRIAL_HITS * len(self.queries):
                # Queries are farther from the lists than lines are: at a million synthetic lines an eighth was enough for
                # lines but had a recall of .972 for queries; a quarter had .985.
                return replace(candidate, look_share=min(2 * share, max(share, MAX_LOOK_SHARE)))
        return None
