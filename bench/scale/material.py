"""What every contender of the scale run is given: rows of text with their vectors, and questions with theirs.

Responsible for the files of one material and for reading them. Standard library only, because it is read inside each
contender's own environment, and in pieces, so that what a contender is handed does not show in its memory.

    rows.jsonl    one row a line: number, file, title, heading, text
    vectors.f32   their vectors, little-endian float32, unit length
    queries.json  the questions' texts
    queries.f32   their vectors
    truth-N.json  for each question, the rows that may stand among the ten nearest of the first N
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

ROWS_A_FILE = 20
WARM_UP = 50
QUERIES = 450
"""Questions that are measured; the `WARM_UP` before them are asked untimed."""
NEAREST = 10


@dataclass(frozen=True)
class Row:
    """One section of a made-up note."""

    number: int
    title: str
    heading: str
    text: str

    @property
    def file(self) -> int:
        return self.number // ROWS_A_FILE

    @property
    def source(self) -> str:
        return f"/notes/{self.file // 500:03d}/{self.file:06d}.md"

    @property
    def start_line(self) -> int:
        """Its first line in the file: a title and a blank line, then four lines a section."""
        return 3 + 4 * (self.number % ROWS_A_FILE)


@dataclass(frozen=True)
class Question:
    """A question and its vector, as a model would give it."""

    text: str
    vector: bytes


@dataclass(frozen=True)
class Material:
    """The files of one material."""

    folder: Path

    @property
    def facts(self) -> dict[str, int]:
        """How many rows, of which dimension; written last, so that what has it is complete."""
        facts: dict[str, int] = json.loads((self.folder / "material.json").read_text("utf-8"))
        return facts

    @property
    def complete(self) -> bool:
        return (self.folder / "material.json").exists()

    def batches(self, rows: int) -> Iterator[tuple[list[Row], list[bytes]]]:
        """Yield rows and their vectors in their order, `rows` at a time."""
        width = 4 * self.facts["dimension"]
        with (
            (self.folder / "rows.jsonl").open(encoding="utf-8") as lines,
            (self.folder / "vectors.f32").open("rb") as vectors,
        ):
            while part := [Row(*json.loads(line)) for line in islice(lines, rows)]:
                block = vectors.read(width * len(part))
                yield part, [block[start : start + width] for start in range(0, len(block), width)]

    def questions(self, first: int, last: int) -> list[Question]:
        """Return questions of a range; the first `WARM_UP` of all are never measured."""
        width = 4 * self.facts["dimension"]
        texts = json.loads((self.folder / "queries.json").read_text("utf-8"))[first:last]
        with (self.folder / "queries.f32").open("rb") as file:
            file.seek(first * width)
            return [Question(text, file.read(width)) for text in texts]

    def truth(self, rows: int) -> list[list[int]] | None:
        """Return, by question, the rows that are right answers among the first `rows`; None when not yet made."""
        path = self.folder / f"truth-{rows}.json"
        return json.loads(path.read_text("utf-8")) if path.exists() else None


def recall(found: list[int], right: list[int]) -> float:
    """Return the share of the ten nearest that were found. More than ten may be right: rows at the same distance."""
    return len(set(found[:NEAREST]) & set(right)) / min(NEAREST, len(right))
