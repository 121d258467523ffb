"""The teachers: three public encoders, and what their sum says of a question and a passage.

python -m train.teach --shards DIR --teachers DIR --vocabulary FILE --out FILE [--device cuda]

Each teacher's cosines are centred and divided by their spread, then added with weights. A sum of dot products is a dot product:
the teachers' centred vectors, scaled and put side by side, give the same sum. Their main 384 directions are the student's aim.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from train.network import Encoder, TokenStore, embed
from train.tokens import PASSAGE_PREFIX, QUESTION_PREFIX, Pairs, Sequences, WordPieces, read_pairs
from train.weights import read


@dataclass(frozen=True, slots=True)
class Teacher:
    """An encoder, how its texts begin, how its states are pooled, and its weight in the sum."""

    name: str
    question_prefix: str
    passage_prefix: str
    pooling: str
    weight: float


TEACHERS = (
    Teacher("e5", "query: ", "passage: ", "mean", 1.4),
    Teacher("bge", "Represent this sentence for searching relevant passages: ", "", "cls", 1.0),
    Teacher("ml", "", "", "mean", 0.8),
    Teacher("own", "query: ", "passage: ", "mean", 1.4),
)


def prefix_tokens(pieces: WordPieces, text: str, device: str) -> Tensor:
    return torch.tensor(
        pieces([text.strip()], 20).tokens.astype("int64") if text else [], dtype=torch.long, device=device
    )


def student_prefixes(pieces: WordPieces, device: str) -> tuple[Tensor, Tensor]:
    """Return how the student's questions and passages begin."""
    return prefix_tokens(pieces, QUESTION_PREFIX, device), prefix_tokens(pieces, PASSAGE_PREFIX, device)


def find_weights(folder: Path, name: str) -> Path:
    for candidate in (
        f"{name}.npz",
        f"{name}.npz.xz",
        f"{name}/model.onnx",
        f"{name}/model.safetensors",
        f"{name}.onnx",
    ):
        if (folder / candidate).is_file():
            return folder / candidate
    raise FileNotFoundError(f"{folder} has no weights of {name}")


def read_shards(folder: Path) -> Pairs:
    return read_pairs(*sorted(folder.glob("shard-*.npz")))


Taught = dict[str, tuple[Tensor, Tensor]]
"""By teacher: the vectors of questions and of passages."""


class Teachers:
    """The teachers, loaded."""

    def __init__(self, folder: Path, pieces: WordPieces, device: str) -> None:
        self._device = device
        self._encoders = {
            teacher.name: Encoder(read(find_weights(folder, teacher.name)), teacher.pooling).to(device).eval()
            for teacher in TEACHERS
        }
        self._prefixes = {
            teacher.name: [
                prefix_tokens(pieces, prefix, device) for prefix in (teacher.question_prefix, teacher.passage_prefix)
            ]
            for teacher in TEACHERS
        }

    def __call__(self, questions: Sequences, passages: Sequences) -> Taught:
        """Return each teacher's vectors of questions and passages."""
        asked, told = TokenStore(questions, self._device), TokenStore(passages, self._device)
        vectors = {}
        for name, encoder in self._encoders.items():
            prefixes = self._prefixes[name]
            vectors[name] = (embed(encoder, asked, prefixes[0]), embed(encoder, told, prefixes[1]))
        return vectors


class Sum:
    """The teachers' weighted sum as one vector space, fitted on training text."""

    def __init__(self, vectors: Taught, *, width: int = 384, is_centred: bool = True) -> None:
        self.is_centred = is_centred
        self.means: dict[str, Tensor] = {}
        self.scales: dict[str, float] = {}
        for teacher in TEACHERS:
            asked, told = (
                part[torch.randperm(part.shape[0], device=part.device)[:20_000]].float()
                for part in vectors[teacher.name]
            )
            mean = torch.cat([asked, told]).mean(0)
            count = min(asked.shape[0], told.shape[0], 4000)
            cosines = (asked[:count] - mean) @ (told[:count] - mean).T if is_centred else asked[:count] @ told[:count].T
            self.means[teacher.name] = mean
            self.scales[teacher.name] = (teacher.weight / cosines.std().item()) ** 0.5
        sample = _aligned(vectors)
        wide = torch.cat([self.wide(sample, 0), self.wide(sample, 1)])
        values, directions = torch.linalg.eigh((wide.T @ wide).double() / wide.shape[0])
        self.directions = directions[:, -width:].float()
        self.kept = (values[-width:].sum() / values.sum()).item()

    def wide(self, vectors: Any, part: int) -> Tensor:
        """Return the teachers' vectors side by side: part 0 of questions, 1 of passages."""
        return torch.cat(
            [
                (vectors[t.name][part].float() - (self.means[t.name] if self.is_centred else 0)) * self.scales[t.name]
                for t in TEACHERS
            ],
            dim=1,
        )

    def narrow(self, vectors: Any, part: int) -> Tensor:
        """Return the aim of the student (float16): the main directions, not of unit length."""
        return torch.cat([(wide @ self.directions).half() for wide in self._chunks(vectors, part)])

    def wide_half(self, vectors: Any, part: int) -> Tensor:
        """Return what `wide` does as float16."""
        return torch.cat([wide.half() for wide in self._chunks(vectors, part)])

    def _chunks(self, vectors: Any, part: int, size: int = 100_000) -> Iterator[Tensor]:
        for start in range(0, vectors[TEACHERS[0].name][part].shape[0], size):
            cut = {name: tuple(side[start : start + size] for side in pair) for name, pair in vectors.items()}
            yield self.wide(cut, part)


def _aligned(vectors: Taught) -> Taught:
    """Return the same rows of every teacher, at most 100,000."""
    asked, told = (torch.randperm(part.shape[0], device=part.device)[:100_000] for part in next(iter(vectors.values())))
    return {name: (pair[0][asked], pair[1][told]) for name, pair in vectors.items()}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m train.teach", description="Embeds the training text with the teachers."
    )
    parser.add_argument("--shards", type=Path, required=True, metavar="DIR")
    parser.add_argument(
        "--teachers", type=Path, required=True, metavar="DIR", help="e5, bge, ml: NAME.npz.xz or NAME/model.onnx"
    )
    parser.add_argument("--vocabulary", type=Path, required=True, metavar="FILE")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    torch.manual_seed(20)
    started = time.perf_counter()
    pairs = read_shards(args.shards)
    vectors = Teachers(args.teachers, WordPieces(args.vocabulary), args.device)(pairs.questions, pairs.passages)
    torch.save(vectors, args.out)
    print(f"{pairs.kinds.size} pairs taught in {time.perf_counter() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
