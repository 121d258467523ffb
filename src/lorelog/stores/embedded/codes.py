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
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

FORMAT = 1
_HEADER_BYTES = 512
_ALIGNED = 64
WIDEST = 1 / 2
"""A look at half of the lines or more is one at all of them."""
_LINES_AT_ONCE = 1 << 17
_LEAST_LOOKED_AT = 20_000
_SAMPLED_EVERY = 16


@dataclass(frozen=True, slots=True)
class Header:
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

    def __init__(self, header: Header, arrays: dict[str, Array]) -> None:
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
        chosen = choose_best(scores, handed) if handed < len(scores) else np.arange(len(scores))
        places = np.sort(self._places[chosen if positions is None else positions[chosen]])
        if places[0] < 0 or places[-1] >= self.count or not np.diff(places).all():  # a damaged file
            places = np.unique(places[(places >= 0) & (places < self.count)])
        return places

    def _look(self, question: Array, within: Array | None, limit: int) -> tuple[Array | None, Array] | None:
        """Estimate the lines of the nearest lists; return their positions, None where these are all, and scores."""
        import numpy as np

        edges = self._starts if within is None else np.searchsorted(within, self._starts)
        sizes = np.diff(edges)
        if within is None and self.header.share >= WIDEST:
            return None, self._look_at_all(question)
        near = np.argsort(-dot(self._centres, question))
        # Few admitted ones lie thinly in many lists: between their own number and that of all lines.
        wanted = max(_LEAST_LOOKED_AT, int(math.sqrt(edges[-1] * self.count) * self.header.share), 12 * limit)
        lists = near[: np.searchsorted(np.cumsum(sizes[near]), wanted) + 1]
        lists = np.sort(lists[sizes[lists] > 0])
        if not len(lists):
            return None
        centres = self._centres[lists]
        away = question - centres
        sizes, firsts = sizes[lists], edges[lists]
        if within is None:
            spans = _spans(firsts, sizes)
            # Slices put together: half of what an exclusive-or list by list takes, each call of which costs 8 µs.
            planes = np.concatenate([self._planes[:, span] for span in spans], axis=1)
            lengths, products = (
                np.concatenate([each[span] for span in spans]) for each in (self._lengths, self._products)
            )
            ends = np.cumsum(sizes)
            positions = np.arange(ends[-1]) + np.repeat(firsts - (ends - sizes), sizes)
        else:
            positions = np.concatenate([within[span] for span in _spans(firsts, sizes)])
            planes, lengths, products = (
                each.take(positions, axis=-1) for each in (self._planes, self._lengths, self._products)
            )
        differing = np.repeat(signs_of(away).T, sizes, axis=1)
        differing ^= planes
        cosines = _estimate(differing, lengths, self.header.dimension)
        cosines *= np.repeat(np.linalg.norm(away, axis=1), sizes)
        cosines += products
        cosines += np.repeat(dot(centres, question), sizes)
        return positions, cosines

    def _look_at_all(self, question: Array) -> Array:
        """Estimate every line, in the order of the lists.

        Beyond half of them this costs no more than putting the nearest lists together (2.1 ms with 100,000), and loses
        nothing that lies in the others: recall@10 .9985 in place of .988 with made-up vectors.
        """
        import numpy as np

        away = question - self._centres
        signs, sizes = signs_of(away).T, np.diff(self._starts)
        cosines = np.empty(self.count, dtype=np.float32)
        # As many lists at a time as take a few megabytes: what differs is as large as all the codes.
        cuts = np.unique(np.searchsorted(self._starts, range(0, self.count, _LINES_AT_ONCE))).tolist()
        for first, last in pairwise([*cuts, len(sizes)]):
            span = slice(self._starts[first], self._starts[last])
            differing = np.repeat(signs[:, first:last], sizes[first:last], axis=1)
            differing ^= self._planes[:, span]
            cosines[span] = _estimate(differing, self._lengths[span], self.header.dimension)
        cosines *= np.repeat(np.linalg.norm(away, axis=1), sizes)
        cosines += self._products
        cosines += np.repeat(dot(self._centres, question), sizes)
        return cosines


def _estimate(differing: Array, lengths: Array, dimension: int) -> Array:
    """Return the cosine of each line's difference from its centre with the question's, times the line's length."""
    import numpy as np

    counts = np.bitwise_count(differing)
    # Of three words at a time, which 8 bits hold: half of the time that 16 bits take from the start.
    sums = [np.add.reduce(counts[first : first + 3], axis=0, dtype=np.uint8) for first in range(0, len(counts), 3)]
    apart = sum(sums[1:], start=sums[0].astype(np.uint16))
    # Two directions that differ in this many signs stand at about this angle; near a right angle cosine is linear.
    cosines = apart * np.float32(-math.pi / dimension)
    cosines += np.float32(math.pi / 2)
    cosines *= lengths
    return np.asarray(cosines)


def dot(lines: Array, question: Array) -> Array:
    """Return the product of each line with a question, in this thread alone.

    `lines @ question` is BLAS, whose other threads go on spinning for some 25 ms after a product of this size: it took a
    search twice its CPU time, and where the other core was busy twice its time. One thread is as fast (2.8 ms for
    32,768 lines, BLAS 2.6), since it waits for memory.
    """
    import numpy as np

    return np.asarray(np.einsum("ij,j->i", lines, question))


def choose_best(scores: Array, count: int) -> Array:
    """Return where the `count` highest scores are, in no order.

    A sample tells about where they begin, so that only few have to be sorted out: a third of the time with 50,000.
    """
    import numpy as np

    sample = scores[::_SAMPLED_EVERY]
    likely = len(sample) * count // len(scores) * 5 // 4
    if 0 < likely < len(sample):
        least = np.partition(sample, len(sample) - likely)[len(sample) - likely]
        chosen = np.flatnonzero(scores >= least)
        if len(chosen) >= count:
            return np.asarray(chosen[np.argpartition(scores[chosen], len(chosen) - count)[-count:]])
    return np.argpartition(scores, len(scores) - count)[-count:]


def signs_of(lines: Array) -> Array:
    """Return each line's signs, 64 to a word; what a word has over is the same for all."""
    import numpy as np

    bits = np.packbits(lines > 0, axis=1)
    if over := bits.shape[1] % 8:
        bits = np.pad(bits, ((0, 0), (0, 8 - over)))
    return np.asarray(bits.view("<u8"))


def _spans(firsts: Array, sizes: Array) -> list[slice]:
    """Return where lists lie, those that follow one another as one."""
    import numpy as np

    ends = firsts + sizes
    apart = firsts[1:] != ends[:-1]
    starts = firsts[np.concatenate([[True], apart])].tolist()
    return list(map(slice, starts, ends[np.concatenate([apart, [True]])].tolist()))


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


def _read_header(path: Path) -> Header:
    with path.open("rb") as file:
        header = Header(**json.loads(file.read(_HEADER_BYTES)))
        if header.format != FORMAT or path.stat().st_size != header.bytes():
            raise ValueError("another format, or cut off")
        base = file.read(_rest_offset(header) - _HEADER_BYTES)
    if zlib.crc32(base) != header.sums[0]:
        raise ValueError("damaged")
    return header


def _rest_offset(header: Header) -> int:
    return next(offset for name, _, _, offset in header.parts() if name == "planes")


def _sum_of(file: Any) -> int:
    total = 0
    while piece := file.read(1 << 20):
        total = zlib.crc32(piece, total)
    return total


def _map(path: Path, header: Header) -> dict[str, Array]:
    import numpy as np

    whole = np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))
    return {
        name: whole[offset : offset + math.prod(shape) * int(kind[2])].view(kind).reshape(shape)
        for name, kind, shape, offset in header.parts()
    }


def write_codes(path: Path, header: Header, arrays: dict[str, Array]) -> None:
    """Write a file under a new name, safe on disk when this returns."""
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
