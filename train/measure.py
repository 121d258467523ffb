"""Measures vectors on the judged sets: nDCG@10 of the dense lane alone, as cosines give it.

python -m train.measure --judged FILE --vocabulary FILE --student FILE [--teachers DIR] [--device cuda] [--limit 1000]
python -m train.measure --wanted wanted.jsonl.xz --vocabulary FILE --student model.onnx --vectors rows.npy [--jobs 16]

A student is what `train.distil` wrote (.npz) or `train.quantise` wrote (.onnx, run by onnxruntime, one text at a time).
The second form measures nothing: it writes the vectors (float16) of the texts that `train.wanted` listed, in their order, made
in many processes of one thread each.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from train.tokens import END, PASSAGE_PREFIX, QUESTION_PREFIX, START, Sequences, WordPieces, read_arrays

UNCOUNTED = frozenset({"small_projects"})
"""Given later than the others: shown, but not in the mean, so that it compares with what was measured before."""

Embed = Callable[[Sequences, bool], Any]
"""Takes texts, and whether they are questions; returns a row of unit length for each."""


class JudgedSet:
    """A set's texts, which passages may answer which questions, and which do."""

    def __init__(self, arrays: Mapping[str, Any], name: str, limit: int = 0) -> None:
        self.name = name
        self.passages = Sequences(arrays[f"{name}/passages"], arrays[f"{name}/passage_lengths"])
        questions = Sequences(arrays[f"{name}/questions"], arrays[f"{name}/question_lengths"])
        gains: dict[int, dict[int, float]] = defaultdict(dict)
        for question, passage, gain in arrays[f"{name}/relevant"]:
            gains[int(question)][int(passage)] = float(gain)
        kept = sorted(gains)[: limit or None]
        which = np.zeros(questions.lengths.size, bool)
        which[kept] = True
        self.questions = questions.chosen(which)
        self.gains = [gains[question] for question in kept]
        self.question_group = arrays[f"{name}/question_group"][kept]
        self.passage_group = arrays[f"{name}/passage_group"]

    def ndcg(self, asked: Any, told: Any, depth: int = 10) -> float:
        total = 0.0
        for group in np.unique(self.question_group):
            rows = np.flatnonzero(self.question_group == group)
            columns = np.flatnonzero(self.passage_group == group) if group >= 0 else np.arange(told.shape[0])
            scores = asked[rows] @ told[columns].T
            best = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
            for row, ranked in zip(rows, best, strict=True):
                gains = self.gains[row]
                reached = sum(
                    gains.get(int(columns[place]), 0) / math.log2(rank + 2) for rank, place in enumerate(ranked)
                )
                ideal = sum(
                    gain / math.log2(rank + 2) for rank, gain in enumerate(sorted(gains.values())[::-1][:depth])
                )
                total += reached / ideal
        return total / max(1, len(self.gains))


def read_sets(path: Path, limit: int) -> list[JudgedSet]:
    arrays = read_arrays(path)
    return [JudgedSet(arrays, name, limit) for name in sorted({key.partition("/")[0] for key in arrays})]


def measure(sets: list[JudgedSet], embed: Embed) -> dict[str, float]:
    """Return nDCG@10 by set, and the mean of those that count."""
    return with_mean(
        {judged.name: judged.ndcg(embed(judged.questions, True), embed(judged.passages, False)) for judged in sets}
    )


def with_mean(scores: Mapping[str, float]) -> dict[str, float]:
    """Return the scores of sets with the mean of those that count."""
    counted = [score for name, score in scores.items() if name not in UNCOUNTED]
    return {**scores, "mean": sum(counted) / max(1, len(counted))}


def table(columns: Mapping[str, Mapping[str, float]]) -> str:
    names = list(next(iter(columns.values())))
    lines = ["set".ljust(26) + "".join(column.rjust(12) for column in columns)]
    lines += [name.ljust(26) + "".join(f"{scores[name]:12.3f}" for scores in columns.values()) for name in names]
    return "\n".join(lines)


def onnx_embed(path: Path, pieces: WordPieces, threads: int = 0) -> Embed:
    """Run the int8 model as lorelog does: one text at a time, nothing padded."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    if threads == 1:
        options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    inputs = {item.name for item in session.get_inputs()}
    prefixes = [pieces([prefix.strip()], 20).tokens for prefix in (PASSAGE_PREFIX, QUESTION_PREFIX)]

    def embed(sequences: Sequences, is_question: bool) -> Any:  # noqa: FBT001
        rows = []
        ends = np.cumsum(sequences.lengths)
        for start, end in zip(ends - sequences.lengths, ends, strict=True):
            body = sequences.tokens[start:end][: 510 - prefixes[is_question].size]
            ids = np.concatenate([[START], prefixes[is_question], body, [END]]).astype(np.int64)[None]
            feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
            (vector,) = session.run(None, {name: value for name, value in feed.items() if name in inputs})
            pooled = vector[0] if vector.ndim == 2 else vector[0].mean(axis=0)
            rows.append(pooled / np.linalg.norm(pooled))
        return np.stack(rows)

    return embed


def embed_wanted(texts: Sequence[str], model: Path, vocabulary: Path, jobs: int) -> Any:
    """Return the vectors (float16) of prefixed texts, made by an ONNX model in so many processes of one thread each."""
    order = np.argsort([-len(text) for text in texts], kind="stable")
    parts = [order[start::jobs] for start in range(jobs)]
    rows = np.empty((len(texts), 384), np.float16)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=spawn) as pool:
        waiting = [pool.submit(_embed_part, [texts[place] for place in part], model, vocabulary) for part in parts]
        for part, done in zip(parts, waiting, strict=True):
            rows[part] = done.result()
    return rows


def _embed_part(texts: Sequence[str], model: Path, vocabulary: Path) -> Any:
    pieces = WordPieces(vocabulary)
    embed = onnx_embed(model, pieces, threads=1)
    prefixes = (PASSAGE_PREFIX, QUESTION_PREFIX)
    rows = np.empty((len(texts), 384), np.float16)
    for is_question in (False, True):
        prefix = prefixes[is_question]
        places = [place for place, text in enumerate(texts) if text.startswith(prefix)]
        for start in range(0, len(places), 512):
            some = places[start : start + 512]
            bodies = [texts[place].removeprefix(prefix).encode("utf-8", "replace").decode() for place in some]
            rows[some] = embed(pieces(bodies, 510), is_question)
    return rows


def torch_embed(encoder: Any, pieces: WordPieces, device: str) -> Embed:
    """Run a network of `train.network`."""
    from train.network import TokenStore
    from train.network import embed as run
    from train.teach import student_prefixes

    question_prefix, passage_prefix = student_prefixes(pieces, device)

    def embed(sequences: Sequences, is_question: bool) -> Any:  # noqa: FBT001
        prefix = question_prefix if is_question else passage_prefix
        return run(encoder, TokenStore(sequences, device), prefix).float().cpu().numpy()

    return embed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m train.measure", description="Measures an encoder on judged sets.")
    parser.add_argument("--judged", type=Path, metavar="FILE", help="what train.pack --data wrote")
    parser.add_argument("--wanted", type=Path, metavar="FILE", help="what train.wanted wrote")
    parser.add_argument("--vectors", type=Path, metavar="FILE", help="write their vectors, .npy")
    parser.add_argument("--jobs", type=int, default=2, help="processes that make them")
    parser.add_argument("--vocabulary", type=Path, required=True, metavar="FILE")
    parser.add_argument("--student", type=Path, action="append", default=[], metavar="FILE")
    parser.add_argument("--teachers", type=Path, metavar="DIR", help="measure them and their sum, too (needs shards)")
    parser.add_argument("--taught", type=Path, metavar="FILE", help="what train.teach wrote, to fit the sum on")
    parser.add_argument("--limit", type=int, default=1000, metavar="N", help="questions of a set, at most")
    parser.add_argument("--sets", default="", metavar="A,B")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    if args.vectors:
        from train.wanted import read_wanted

        np.save(args.vectors, embed_wanted(read_wanted(args.wanted), args.student[0], args.vocabulary, args.jobs))
        return 0
    pieces = WordPieces(args.vocabulary)
    chosen = args.sets.split(",") if args.sets else None
    sets = [judged for judged in read_sets(args.judged, args.limit) if chosen is None or judged.name in chosen]
    columns: dict[str, dict[str, float]] = {}
    if args.teachers and args.taught:
        columns |= teacher_columns(sets, args.teachers, args.taught, pieces, args.device)
    for path in args.student:
        if path.suffix == ".onnx":
            columns[path.stem] = measure(sets, onnx_embed(path, pieces))
            continue
        columns[path.stem] = measure(sets, torch_embed(read_student(path, args.device), pieces, args.device))
    print(table(columns))
    if args.json:
        args.json.write_text(json.dumps(columns, indent=1) + "\n", "utf-8")
    return 0


def read_student(path: Path, device: str) -> Any:
    """Return a student's network; as if int8, if its ranges of activations were found."""
    from train.network import Encoder
    from train.weights import read

    weights = read(path)
    network = Encoder(weights).to(device).eval()
    if any(np.any(array) for name, array in weights.items() if ".range." in name):
        network.load_ranges(weights)
    return network


def teacher_columns(
    sets: list[JudgedSet], teachers: Path, path: Path, pieces: WordPieces, device: str
) -> dict[str, dict[str, float]]:
    """Measure each teacher, and their sum in its shapes: all 1,152 dimensions as they are and centred, and the main 384."""
    import torch

    from train.teach import TEACHERS, Sum, Teachers

    fitted = torch.load(path, map_location=device)
    sums = {"sum": Sum(fitted, is_centred=False), "centred": Sum(fitted)}
    scores: dict[str, dict[str, float]] = defaultdict(dict)
    taught = Teachers(teachers, pieces, device)
    for judged in sets:
        vectors = taught(judged.questions, judged.passages)
        shapes: dict[str, tuple[Any, Any]] = {teacher.name: vectors[teacher.name] for teacher in TEACHERS}
        for name, fit in sums.items():
            shapes[name] = (fit.wide(vectors, 0), fit.wide(vectors, 1))
            narrow = [torch.nn.functional.normalize(fit.narrow(vectors, part).float(), dim=-1) for part in (0, 1)]
            shapes[f"{name}-384"] = (narrow[0], narrow[1])
        for name, (asked, told) in shapes.items():
            scores[name][judged.name] = judged.ndcg(asked.float().cpu().numpy(), told.float().cpu().numpy())
    return {name: with_mean(column) for name, column in scores.items()}


if __name__ == "__main__":
    sys.exit(main())
