"""Making the codes of vectors: choosing centres, sorting lines into their lists, and trying out how far to look.

What a file holds and how it is searched is in `codes`. How far to look is tried out on lines of the matrix itself, since
models differ; where even the widest look misses too many, there is no file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorelog.stores.embedded.codes import FORMAT, WIDEST, Codes, Header, signs_of, write_codes

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_BLOCK = 4096
_SAMPLED_A_LIST = 40
_TRAINING_ROUNDS = 8
_LOOKS = ((1 / 8, 2000), (1 / 4, 2000), (1 / 2, 2000), (1 / 2, 8000))
"""Shares of the lines to look at, and how many of them to hand over: the first that finds enough for stored lines, and twice
its share, is taken."""
_GOOD_RECALL = 0.99
_TRIALS = 32
_TRIAL_HITS = 10


def build_codes(path: Path, matrix: Array, rows: Array) -> bool:
    """Choose centres for a matrix and write its codes; False when they would not find enough to be worth having."""
    import numpy as np

    count, dimension = matrix.shape
    lists = max(16, round(math.sqrt(count)))
    centres = _train(matrix, lists)
    of_list, arrays = _encode(matrix, 0, centres)
    arrays |= _by_row(rows)
    header = Header(FORMAT, dimension, count, lists, count, *_LOOKS[0])
    arrays |= {"centres": centres, "places": np.arange(count, dtype=np.int32)}
    arrays = _sort(arrays, of_list, lists)
    tried = _first_good_look(header, arrays, matrix)
    if tried is None:
        return False
    write_codes(path, tried, arrays)
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
    write_codes(path, replace(old.header, count=len(matrix)), arrays | {"centres": known["centres"]})


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
        planes.append(signs_of(away).T)
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


def _blocks(matrix: Array, start: int = 0) -> Iterator[Array]:
    for first in range(start, len(matrix), _BLOCK):
        yield matrix[first : first + _BLOCK]


def _first_good_look(header: Header, arrays: dict[str, Array], matrix: Array) -> Header | None:
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
            return replace(tried, share=min(2 * share, max(share, WIDEST)))
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
