"""Averages the weights of several students that began alike, often better than each.

python -m train.soup a.npz=1 b.npz=2 start.npz.xz=0.5 --out soup.npz [--held shards/held.npz --vocabulary FILE]

Ranges of activations are wide enough for every part; with held pairs they are found anew, which fits better.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from train.weights import averaged, read, write


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m train.soup", description="Averages students.")
    parser.add_argument("parts", nargs="+", metavar="FILE=SHARE")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    parser.add_argument("--held", type=Path, metavar="FILE", help="find ranges of activations on these pairs")
    parser.add_argument("--vocabulary", type=Path, metavar="FILE")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    named = [part.rpartition("=") for part in args.parts]
    weights = averaged([(float(share), read(Path(path))) for path, _, share in named])
    if args.held and args.vocabulary:
        weights = with_ranges(weights, args.held, args.vocabulary, args.device)
    write(args.out, weights)
    return 0


def with_ranges(weights: dict[str, Any], held: Path, vocabulary: Path, device: str) -> dict[str, Any]:
    """Return the weights with the ranges of activations that held pairs show."""
    import torch

    from train.network import Batch, Encoder, TokenStore, find_ranges
    from train.teach import student_prefixes
    from train.tokens import WordPieces, read_pairs

    pairs = read_pairs(held)
    encoder = Encoder(weights).to(device).eval()

    def batches() -> Iterator[Batch]:
        prefixes = student_prefixes(WordPieces(vocabulary), device)
        for sequences, prefix in zip((pairs.questions, pairs.passages), prefixes, strict=True):
            store = TokenStore(sequences, device)
            drawn = torch.randperm(store.lengths.shape[0], device=device)[:6000]
            for part in drawn.split(2000):
                yield store.batch(part, prefix)

    torch.manual_seed(20)
    find_ranges(encoder, batches())
    return encoder.exported()


if __name__ == "__main__":
    sys.exit(main())
