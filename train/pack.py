"""Turns text into tokens: the judged sets, to measure with, and the gathered pairs, without what the judged sets hold.

python -m train.pack --data DIR --vocabulary FILE --judged judged.npz.xz                (the sets)
python -m train.pack --text DIR --vocabulary FILE --judged judged.npz.xz --out DIR      (the pairs, as shard-NN.npz and held.npz)
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from train.overlap import JudgedText, judged_sequences
from train.tokens import (
    KINDS,
    MAX_QUESTION_TOKENS,
    MAX_TOKENS,
    Pairs,
    Sequences,
    WordPieces,
    joined,
    word_mask,
    write_arrays,
    write_pairs,
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m train.pack", description="Turns text into tokens.")
    parser.add_argument("--data", type=Path, metavar="DIR", help="holds retrieval/SET/corpus.jsonl.gz")
    parser.add_argument("--text", type=Path, metavar="DIR", help="what train.gather wrote")
    parser.add_argument("--vocabulary", type=Path, required=True, metavar="FILE", help="vocab.txt of uncased BERT")
    parser.add_argument("--judged", type=Path, required=True, metavar="FILE")
    parser.add_argument("--out", type=Path, metavar="DIR")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    if args.data:
        write_arrays(args.judged, pack_judged(args.data, WordPieces(args.vocabulary)))
    if args.text and args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        with ProcessPoolExecutor(args.jobs) as pool:
            paths = sorted([*args.text.glob("texts-*.jsonl.xz"), *args.text.glob("held.jsonl.xz")])
            same = ([args.out], [args.judged], [args.vocabulary])
            for said in pool.map(pack_part, paths, *(item * len(paths) for item in same)):
                print(said, flush=True)
    return 0


def pack_judged(data: Path, pieces: WordPieces) -> dict[str, Any]:
    """Return the arrays of all sets: texts, groups, and rows of question, passage and gain."""
    arrays: dict[str, Any] = {}
    for folder in sorted(path for path in (data / "retrieval").iterdir() if path.is_dir()):
        corpus, asked = _lines(folder / "corpus.jsonl.gz"), _lines(folder / "queries.jsonl.gz")
        passages = pieces([f"{entry.get('title') or ''} {entry['text']}".strip() for entry in corpus], MAX_TOKENS)
        questions = pieces([entry["text"] for entry in asked], MAX_TOKENS)
        groups = {entry.get("group"): number for number, entry in enumerate(corpus)}
        groups[None] = -1
        place_of = {entry["id"]: number for number, entry in enumerate(corpus)}
        question_of = {entry["id"]: number for number, entry in enumerate(asked)}
        relevant = []
        for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:]:
            parts = line.split("\t")
            if parts[0] in question_of and parts[-2] in place_of and float(parts[-1]) > 0:
                relevant.append((question_of[parts[0]], place_of[parts[-2]], float(parts[-1])))
        name = folder.name
        arrays |= {
            f"{name}/passages": passages.tokens,
            f"{name}/passage_lengths": passages.lengths,
            f"{name}/questions": questions.tokens,
            f"{name}/question_lengths": questions.lengths,
            f"{name}/passage_group": np.array([groups[entry.get("group")] for entry in corpus], np.int64),
            f"{name}/question_group": np.array([groups.get(entry.get("group"), -1) for entry in asked], np.int64),
            f"{name}/relevant": np.array(relevant, np.float64),
        }
    return arrays


def _lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def pack_part(path: Path, out: Path, judged_file: Path, vocabulary: Path) -> str:
    """Write a part of the text as a shard, or the held pairs as `held.npz`."""
    pieces = WordPieces(vocabulary)
    judged = JudgedText(judged_sequences(judged_file), word_mask(vocabulary))
    pairs = [json.loads(line) for line in lzma.decompress(path.read_bytes()).decode().split("\n") if line]
    asked: list[Sequences] = []
    told: list[Sequences] = []
    kept: list[Any] = []
    for start in range(0, len(pairs), 10_000):
        part = pairs[start : start + 10_000]
        questions = pieces([pair[0] for pair in part], MAX_QUESTION_TOKENS)
        passages = pieces([pair[1] for pair in part], MAX_TOKENS)
        clean = ~(judged.shared(questions) | judged.shared(passages))
        if path.name.startswith("held"):
            clean &= (questions.lengths > 0) & (passages.lengths > 0)
        kept.append(clean)
        asked.append(questions.chosen(clean))
        told.append(passages.chosen(clean))
    questions, passages, clean = joined(asked), joined(told), np.concatenate(kept)
    kinds = np.array([KINDS.index(pair[2]) for pair in pairs], np.uint8)[clean]
    shard = path.name.removesuffix(".jsonl.xz").replace("texts", "shard")
    write_pairs(out / f"{shard}.part", Pairs(questions, passages, kinds))
    (out / f"{shard}.part").rename(out / f"{shard}.npz")
    tokens = questions.tokens.size + passages.tokens.size
    dropped = int((~clean).sum())
    return (
        f"{path.name}: {questions.lengths.size} pairs, {tokens / 1e6:.1f} million tokens, {dropped} left out as judged"
    )


if __name__ == "__main__":
    sys.exit(main())
