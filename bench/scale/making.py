"""Makes the material of a scale run: texts by Zipf's law, vectors in a narrow cone, questions near a row.

Responsible for the generator, and for the exact answers that recall is held against. The vectors are shaped after
80,000 real ones of e5-small-v2: a common direction of length .88, topics and subtopics, and a falling spectrum, which
gives cosines of .69 to .85 between random rows (theirs: .72 to .84) and about .90 to the tenth nearest (theirs too).
Isotropic random vectors would not do: every row is equally far from every other, and nobody searches such a thing.

Everything comes in blocks with a seed each, so a larger material begins with the smaller one.

    python -m bench.scale.making FOLDER SIZE [DIR of *.npy]
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.scale.material import NEAREST, QUERIES, ROWS_A_FILE, WARM_UP, Material, Row

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

SEED = 3
"""Raise it when the same size would become another material: materials and stores are kept by it."""
DIMENSION = 384
BLOCK = 2_000
WORDS = 60_000
_FUNCTION_WORDS = (
    "the of and to a in is it for that was on with as be by this are from at or an not we when which but have has were "
    "can will then so if there one all its than into only also after no more how what been do should"
)
_ONSETS = "b c d f g h j k l m n p r s t v w br cl dr fl gr pl pr sh sk sl st th tr"
_VOWELS = "a e i o u ai ea ou"
_CODAS = ("", "n", "r", "s", "t", "l", "m", "ck", "nd", "rt")
_ZIPF = 1.05
_FEWEST_WORDS, _MOST_WORDS = 60, 120

_CONE = 0.884
_TOPICS, _SUBTOPICS = 300, 10_000
_SPECTRUM = 0.85
_SHARES = (0.30, 0.38, 0.32)
"""How much of what is not the cone comes from the topic, the subtopic and the row itself."""
_ASKED = 0.7
"""How much of a question's own direction is that of the row it is about."""


def vocabulary() -> list[str]:
    """Return the words, commonest first: function words, then pronounceable ones, each once."""
    syllables = [onset + vowel + coda for onset in _ONSETS.split() for vowel in _VOWELS.split() for coda in _CODAS]
    words = _FUNCTION_WORDS.split()
    seen = set(words)
    state = SEED
    while len(words) < WORDS:
        made = ""
        for _ in range(1 + (len(words) > 300) + (len(words) > 8_000)):
            state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
            made += syllables[(state >> 33) % len(syllables)]
        if made not in seen:
            seen.add(made)
            words.append(made)
    return words


def rows(size: int) -> Iterator[Row]:
    """Yield the rows of a material."""
    import numpy as np

    words = vocabulary()
    chances = np.arange(1, len(words) + 1) ** -_ZIPF
    edges = np.cumsum(chances) / chances.sum()
    for start in range(0, size, BLOCK):
        draw = np.random.default_rng([SEED, 1, start])
        lengths = draw.integers(_FEWEST_WORDS, _MOST_WORDS + 1, BLOCK)
        ranks = np.minimum(np.searchsorted(edges, draw.random(int(lengths.sum()))), len(words) - 1).tolist()
        titles = _phrases(draw.integers(300, 8_000, (BLOCK // ROWS_A_FILE, 2)).tolist(), words)
        headings = _phrases(draw.integers(50, 20_000, (BLOCK, 4)).tolist(), words)
        place = 0
        for offset, length in enumerate(lengths.tolist()[: size - start]):
            body = " ".join(words[rank] for rank in ranks[place : place + length])
            place += length
            heading = headings[offset]
            text = f"## {heading}\n\n{body[0].upper()}{body[1:]}."
            yield Row(start + offset, titles[offset // ROWS_A_FILE], heading, text)


def _phrases(ranks: list[list[int]], words: list[str]) -> list[str]:
    return [" ".join(words[rank] for rank in some).capitalize() for some in ranks]


class Cone:
    """The space that made-up vectors are drawn from."""

    def __init__(self) -> None:
        import numpy as np

        draw = np.random.default_rng([SEED, 2])
        spectrum = np.arange(1, DIMENSION + 1) ** -_SPECTRUM
        spectrum[0] *= 2
        self._widths = np.sqrt(spectrum / spectrum.sum() * (1 - _CONE**2)).astype("f4")
        self._axes = np.linalg.qr(draw.standard_normal((DIMENSION, DIMENSION)))[0].astype("f4")
        middle = draw.standard_normal(DIMENSION)
        self._middle = (_CONE * middle / np.linalg.norm(middle)).astype("f4")
        self._topics = self._some(draw, _TOPICS)
        self._subtopics = self._some(draw, _SUBTOPICS)
        self._topic_of = draw.integers(0, _TOPICS, _SUBTOPICS)

    def block(self, start: int) -> Array:
        """Return the vectors of the block that begins at a row."""
        import numpy as np

        return self._settle(self._offsets(np.random.default_rng([SEED, 3, start]), BLOCK))

    def of_texts(self, texts: Sequence[str]) -> Array:
        """Return vectors that depend on the text alone."""
        import numpy as np

        seeds = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") for text in texts]
        return self._settle(
            np.concatenate([self._offsets(np.random.default_rng([SEED, 5, seed]), 1) for seed in seeds])
        )

    def _offsets(self, draw: np.random.Generator, count: int) -> Array:
        import numpy as np

        subtopics = (draw.random(count) ** 1.5 * _SUBTOPICS).astype("i8")  # some are spoken of more than others
        topic, subtopic, own = (np.float32(share**0.5) for share in _SHARES)
        offsets: Array = topic * self._topics[self._topic_of[subtopics]] + subtopic * self._subtopics[subtopics]
        return offsets + own * self._some(draw, count)

    def near(self, vectors: Array) -> Array:
        """Return a question's vector for each of these rows."""
        import numpy as np

        draw = np.random.default_rng([SEED, 4])
        offsets = (vectors - self._middle) @ self._axes.T
        return self._settle(_ASKED * offsets + (1 - _ASKED**2) ** 0.5 * self._some(draw, len(vectors))).astype("f4")

    def _some(self, draw: np.random.Generator, count: int) -> Array:
        return draw.standard_normal((count, DIMENSION), dtype="f4") * self._widths  # type: ignore[no-any-return]

    def _settle(self, offsets: Array) -> Array:
        return unit(self._middle + offsets @ self._axes)


def unit(vectors: Array) -> Array:
    """Return vectors at unit length, as little-endian float32."""
    import numpy as np

    return np.ascontiguousarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype="<f4")


def make(folder: Path, size: int) -> Material:
    """Write a made-up material."""
    import numpy as np

    cone = Cone()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "vectors.f32").open("wb") as file:
        for start in range(0, size, BLOCK):
            file.write(cone.block(start)[: size - start].tobytes())
    about = _spread(size)
    vectors = _stored(folder, DIMENSION)
    return _finish(folder, size, cone.near(np.array(vectors[about])), about)


def take(folder: Path, size: int, given: Path) -> Material:
    """Write a material with real vectors; questions are those of rows kept back, about the row that is nearest."""
    import numpy as np

    parts = [np.load(path, mmap_mode="r") for path in sorted(given.glob("*.npy"))]
    asked = WARM_UP + QUERIES
    found = sum(len(part) for part in parts)
    if found < size + asked:
        raise ValueError(f"{given} holds {found:,} vectors; {size:,} rows and {asked} questions need {size + asked:,}")
    every = unit(np.concatenate(parts)[: size + asked].astype("f4"))
    kept_back = np.zeros(len(every), dtype=bool)
    kept_back[np.linspace(0, len(every) - 1, asked).astype("i8")] = True
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vectors.f32").write_bytes(every[~kept_back].tobytes())
    questions = np.ascontiguousarray(every[kept_back])
    nearest = _nearest(_stored(folder, every.shape[1]), questions, 1)
    return _finish(folder, size, questions, [int(right[0][1]) for right in nearest])


def _finish(folder: Path, size: int, questions: Array, about: list[int]) -> Material:
    """Write rows and questions; a question's words are some of those of the row it is about."""
    import numpy as np

    draw = np.random.default_rng([SEED, 5])
    wanted = set(about)
    texts: dict[int, str] = {}
    with (folder / "rows.jsonl").open("w", encoding="utf-8") as file:
        for row in rows(size):
            file.write(json.dumps([row.number, row.title, row.heading, row.text]) + "\n")
            if row.number in wanted:
                texts[row.number] = row.text
    asked = [_ask(texts[number].split("\n\n")[1].rstrip(".").split(), draw) for number in about]
    (folder / "queries.json").write_text(json.dumps(asked), encoding="utf-8")
    (folder / "queries.f32").write_bytes(questions.tobytes())
    facts = {"rows": size, "dimension": int(questions.shape[1])}
    (folder / "material.json").write_text(json.dumps(facts), encoding="utf-8")
    return Material(folder)


def _ask(words: list[str], draw: np.random.Generator) -> str:
    """Return four to nine words of a text, in their order, as a question has them."""
    places = sorted(draw.choice(len(words), size=int(draw.integers(4, 10)), replace=False).tolist())
    return " ".join(words[place] for place in places)


def _spread(size: int) -> list[int]:
    """Return the rows that questions are about: all over the material, in no order."""
    import numpy as np

    draw = np.random.default_rng([SEED, 6])
    found: list[int] = draw.choice(size, size=WARM_UP + QUERIES, replace=size < WARM_UP + QUERIES).tolist()
    return found


def _stored(folder: Path, dimension: int) -> Array:
    import numpy as np

    return np.memmap(folder / "vectors.f32", dtype="<f4", mode="r").reshape(-1, dimension)


def _nearest(vectors: Array, questions: Array, count: int) -> list[list[tuple[float, int]]]:
    """Return the nearest rows of each question, exactly, with every row that is as near as the last of them."""
    import numpy as np

    best: list[list[tuple[float, int]]] = [[] for _ in questions]
    for start in range(0, len(vectors), 20_000):
        scores = questions @ np.asarray(vectors[start : start + 20_000]).T
        for question, row in enumerate(scores):
            kept = np.flatnonzero(row >= np.partition(row, -min(count, len(row)))[-min(count, len(row))] - _SAME)
            pool = best[question] + [(float(row[place]), start + int(place)) for place in kept]
            pool.sort(reverse=True)
            least = pool[min(count, len(pool)) - 1][0] - _SAME
            best[question] = [item for item in pool if item[0] >= least]
    return best


_SAME = 1e-6
"""Two cosines this close are one: float32 sums in another order differ by as much."""


def find_truth(material: Material, count: int) -> None:
    """Write the exact answers among the first `count` rows."""
    import numpy as np

    dimension = material.facts["dimension"]
    questions = np.fromfile(material.folder / "queries.f32", dtype="<f4").reshape(-1, dimension)
    nearest = _nearest(_stored(material.folder, dimension)[:count], questions, NEAREST)
    truth = [[number for _, number in right] for right in nearest]
    (material.folder / f"truth-{count}.json").write_text(json.dumps(truth), encoding="utf-8")


def main() -> int:
    folder, size = Path(sys.argv[1]), int(sys.argv[2])
    material = Material(folder)
    try:
        if not material.complete:
            material = take(folder, size, Path(sys.argv[3])) if len(sys.argv) > 3 else make(folder, size)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    if material.truth(size) is None:
        find_truth(material, size)
    return 0


if __name__ == "__main__":
    sys.exit(main())
