"""Turns text into tokens: the judged sets, to measure with, and the gathered pairs, without what the judged sets hold.

python -m train.pack --data DIR --vocabulary FILE --judged judged.npz.xz                (the sets)
python -m train.pack --text DIR --vocabulary FILE --judged judged.npz.xz --out DIR      (the pairs, as shard-NN.npz)
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
    MAX_QUESTION_TOKENS,
    MAX_TOKENS,
    Sequences,
    WordPieces,
    joined,
    word_mask,
    write_arrays,
    write_shard,
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
            paths = sorted(args.text.glob("texts-*.jsonl.xz"))
            for said in pool.map(_pack_part, paths, [args] * len(paths)):
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


def _pack_part(path: Path, args: argparse.Namespace) -> str:
    pieces = WordPieces(args.vocabulary)
    judged = JudgedText(judged_sequences(args.judged), word_mask(args.vocabulary))
    pairs = [json.loads(line) for line in lzma.decompress(path.read_bytes()).decode().splitlines()]
    asked: list[Sequences] = []
    told: list[Sequences] = []
    dropped = 0
    for start in range(0, len(pairs), 10_000):
        part = pairs[start : start + 10_000]
        questions = pieces([pair[0] for pair in part], MAX_QUESTION_TOKENS)
        passages = pieces([pair[1] for pair in part], MAX_TOKENS)
        clean = ~(judged.shared(questions) | judged.shared(passages))
        dropped += int((~clean).sum())
        asked.append(questions.chosen(clean))
        told.append(passages.chosen(clean))
    questions, passages = joined(asked), joined(told)
    write_shard(args.out / f"{path.name.removesuffix('.jsonl.xz').replace('texts', 'shard')}.npz", questions, passages)
    tokens = questions.tokens.size + passages.tokens.size
    return (
        f"{path.name}: {questions.lengths.size} pairs, {tokens / 1e6:.1f} million tokens, {dropped} left out as judged"
    )


if __name__ == "__main__":
    sys.exit(main())
