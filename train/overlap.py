"""Nothing of the judged sets may be in the training text: checked by hash and by runs of 13 word pieces.

python -m train.overlap --shards DIR --judged FILE --vocabulary FILE   (0: nothing shared; 1: so many texts are)

A run of 13 pieces is at most 13 words, so this is stricter than the usual check of 13 words. Case and punctuation do not count.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from train.tokens import Sequences, read_arrays, read_pairs, word_mask

RUN = 13
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class JudgedText:
    """The texts of judged sets, known by a hash of each whole text and of each run of 13 word pieces."""

    def __init__(self, texts: Iterable[Sequences], mask: Any) -> None:
        self._mask = mask
        whole: set[bytes] = set()
        runs = [np.empty(0, np.uint64)]
        for sequences in texts:
            words = sequences.only(mask)
            whole.update(_digests(words))
            runs.append(_runs(words)[0])
        self._whole = whole
        self._known = np.unique(np.concatenate(runs))

    def shared(self, sequences: Sequences) -> Any:
        """Return for each sequence whether it holds a judged text, or a run of one."""
        words = sequences.only(self._mask)
        found = np.fromiter((digest in self._whole for digest in _digests(words)), bool, words.lengths.size)
        found &= words.lengths > 0
        runs, owners = _runs(words)
        if runs.size and self._known.size:
            places = np.minimum(np.searchsorted(self._known, runs), self._known.size - 1)
            found[owners[self._known[places] == runs]] = True
        return found


def _digests(sequences: Sequences) -> Iterable[bytes]:
    ends = np.cumsum(sequences.lengths)
    for start, end in zip(ends - sequences.lengths, ends, strict=True):
        yield hashlib.blake2b(sequences.tokens[start:end].tobytes(), digest_size=8).digest()


def _runs(sequences: Sequences) -> tuple[Any, Any]:
    """Return a hash of each run, and the sequence it is in. Runs do not reach over the end of a sequence."""
    tokens = sequences.tokens.astype(np.uint64) + np.uint64(1)
    size = tokens.size - RUN + 1
    if size <= 0:
        return np.empty(0, np.uint64), np.empty(0, np.int64)
    owners = np.repeat(np.arange(sequences.lengths.size), sequences.lengths)
    runs = np.zeros(size, np.uint64)
    for place in range(RUN):  # a polynomial modulo 2**64: the order counts
        runs = runs * _FACTOR + tokens[place : place + size]
    runs ^= runs >> np.uint64(29)
    within = owners[:size] == owners[RUN - 1 :]
    return runs[within], owners[:size][within]


def judged_sequences(path: Path) -> list[Sequences]:
    """Return the questions and passages of a file that `train.pack --data` wrote."""
    arrays = read_arrays(path)
    names = sorted(name.removesuffix("_lengths") for name in arrays if name.endswith("_lengths"))
    return [Sequences(arrays[f"{name}s"], arrays[f"{name}_lengths"]) for name in names]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m train.overlap", description="Finds judged text in training text.")
    parser.add_argument("--shards", type=Path, required=True, metavar="DIR", help="what train.pack wrote")
    parser.add_argument("--judged", type=Path, required=True, metavar="FILE", help="what train.pack --data wrote")
    parser.add_argument("--vocabulary", type=Path, required=True, metavar="FILE")
    args = parser.parse_args()
    judged = JudgedText(judged_sequences(args.judged), word_mask(args.vocabulary))
    checked = shared = 0
    for path in sorted(args.shards.glob("shard-*.npz")):
        pairs = read_pairs(path)
        for sequences in (pairs.questions, pairs.passages):
            checked += sequences.lengths.size
            shared += int(judged.shared(sequences).sum())
    print(f"{checked} texts checked, {shared} shared with the judged sets")
    return 1 if shared or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
