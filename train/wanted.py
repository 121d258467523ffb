"""Lists the texts that runs of `bench.quality` embed, and keeps vectors made elsewhere where those runs look for them.

python -m train.wanted list --data DIR --out wanted.jsonl.xz [--sets a,b]
python -m train.wanted keep --wanted wanted.jsonl.xz --rows vectors.npy --model builtin/NAME --folder DIR

The texts are those of the chunks that the real pipeline makes, which are not those of the sets. `train.measure --vectors`
embeds them on many processors; after `keep`, `bench.quality --vectors DIR` embeds nothing.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

if TYPE_CHECKING:
    from bench.quality.sets import JudgedSet


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
    """Return the prefixed texts of all sets and of the parts the ranking is learned from: chunks and questions."""
    from bench.quality.fit import BACKGROUND
    from bench.quality.samples import sample_bytes
    from bench.quality.sets import load, names_in

    recorder = Recorder()
    for name in names or names_in(data):
        before = len(recorder.texts)
        given = load(data, name)
        for judged in (given, sample_bytes(given)):
            _record(judged, recorder)
        print(f"{name}: {len(recorder.texts) - before} texts", flush=True)
    recorder.documents(BACKGROUND.read_text("utf-8").splitlines())
    return list(recorder.texts)


def _record(given: JudgedSet, recorder: Recorder) -> None:
    from bench.quality.pipeline import Bench
    from bench.quality.samples import stressed
    from bench.quality.vectors import KeptEmbedder

    def documents(_: KeptEmbedder, texts: Sequence[str]) -> Any:
        return recorder.documents(texts)

    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(KeptEmbedder, "embed_documents", documents),
        Bench(given, Path(folder), Path(folder) / "vectors") as bench,
    ):
        bench.index()
        for judged in (given, stressed(given, bench.analyser)):
            for question in judged.questions:
                recorder.query(question.text)


if __name__ == "__main__":
    sys.exit(main())
