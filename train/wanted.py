"""Lists the texts that runs of `bench.quality` embed, and keeps vectors made elsewhere where those runs look for them.

python -m train.wanted list --data DIR --out wanted.jsonl.xz [--sets a,b]
python -m train.wanted keep --wanted wanted.jsonl.xz --rows vectors.npy --model builtin/NAME --folder DIR

The texts are those of the chunks that the real pipeline makes, which are not those of the sets. `train.measure --vectors`
embeds them on many processors; after `keep`, `bench.quality --vectors DIR` embeds nothing.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import lzma
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

SAMPLE_BYTES, SAMPLE_QUESTIONS = 330_000, 150
"""What `bench.quality.fit` takes of a set."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m train.wanted", description="Vectors for runs of bench.quality.")
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="write the texts that are embedded")
    listing.add_argument("--data", type=Path, required=True, metavar="DIR", help="holds retrieval/SET")
    listing.add_argument("--sets", default="", metavar="A,B")
    listing.add_argument("--out", type=Path, required=True, metavar="FILE")
    keeping = commands.add_parser("keep", help="put vectors where bench.quality finds them")
    keeping.add_argument("--wanted", type=Path, required=True, metavar="FILE")
    keeping.add_argument("--rows", type=Path, required=True, metavar="FILE", help="what train.measure --vectors wrote")
    keeping.add_argument("--model", required=True, metavar="PROVIDER/NAME", help="as the embedder names itself")
    keeping.add_argument("--folder", type=Path, required=True, metavar="DIR")
    args = parser.parse_args()
    if args.command == "keep":
        kept = keep(read_wanted(args.wanted), np.load(args.rows), args.model, args.folder)
        print(f"{kept} vectors in {args.folder}")
        return 0
    texts = wanted(args.data, [name for name in args.sets.split(",") if name])
    write_wanted(args.out, texts)
    print(f"{len(texts)} texts, {args.out.stat().st_size / 1e6:.1f} MB")
    return 0


def read_wanted(path: Path) -> list[str]:
    return [json.loads(line) for line in lzma.decompress(path.read_bytes()).decode("ascii").splitlines()]


def write_wanted(path: Path, texts: Sequence[str]) -> None:
    path.write_bytes(lzma.compress("".join(json.dumps(text) + "\n" for text in texts).encode("ascii"), preset=6))


def keep(texts: Sequence[str], rows: Any, model: str, folder: Path) -> int:
    """Store the row of each prefixed text; return how many the folder has then."""
    from bench.quality.vectors import VectorFolder

    if rows.shape[0] != len(texts):
        raise ValueError(f"{rows.shape[0]} vectors for {len(texts)} texts")
    vectors = VectorFolder(folder, model, rows.shape[1])
    for start in range(0, len(texts), 4096):
        part = rows[start : start + 4096].astype("<f4")
        vectors.add({text: row.tobytes() for text, row in zip(texts[start : start + 4096], part, strict=True)})
    return len(vectors)


class Recorder:
    """Stands in for an embedder, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.texts: dict[str, None] = {}
        self._vector = np.full(384, 384**-0.5, "<f4").tobytes()

    def documents(self, texts: Sequence[str]) -> Any:
        from lorelog.core.ports import EmbeddedTexts

        self.texts.update(dict.fromkeys(f"passage: {text}" for text in texts))
        return EmbeddedTexts((self._vector,) * len(texts))

    def query(self, text: str) -> bytes:
        self.texts[f"query: {text}"] = None
        return self._vector


def wanted(data: Path, names: Sequence[str]) -> list[str]:
    """Return the prefixed texts of all sets: chunks as they are indexed, and questions."""
    from bench.quality.sets import names_in

    recorder = Recorder()
    for name in names or names_in(data):
        before = len(recorder.texts)
        for given in _shapes(data, name):
            _record(given, recorder)
        print(f"{name}: {len(recorder.texts) - before} texts", flush=True)
    import bench.quality

    background = Path(bench.quality.__file__).with_name("background.txt")
    if background.is_file():
        recorder.documents(background.read_text("utf-8").splitlines())
    return list(recorder.texts)


def _shapes(data: Path, name: str) -> Iterator[Any]:
    """Yield a set as it is, and the part of it that the ranking is learned on."""
    from bench.quality.sets import load

    given = load(data, name)
    yield given
    if samples := _module("samples"):
        length = sum(len(text.text) for text in given.texts) / max(1, len(given.texts))
        yield samples.sample(given, max(int(SAMPLE_BYTES / max(1.0, length)), 10), SAMPLE_QUESTIONS)


def _record(given: Any, recorder: Recorder) -> None:
    from bench.quality.pipeline import Bench
    from bench.quality.vectors import KeptEmbedder

    def documents(_: KeptEmbedder, texts: Sequence[str]) -> Any:
        return recorder.documents(texts)

    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(KeptEmbedder, "embed_documents", documents),
        Bench(given, Path(folder), Path(folder) / "vectors") as bench,
    ):
        bench.index()
        samples = _module("samples")
        for shape in (given, samples.stressed(given, bench.analyser)) if samples else (given,):
            for question in shape.questions:
                recorder.query(question.text)


def _module(name: str) -> Any:
    """Return a part of `bench.quality` if this version has it."""
    full = f"bench.quality.{name}"
    return importlib.import_module(full) if importlib.util.find_spec(full) else None


if __name__ == "__main__":
    sys.exit(main())
