"""The pipeline that makes the encoder: the steps that make its training text, on a few texts."""

from __future__ import annotations

import gzip
import json
import lzma
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from train.sources import SOURCES
from train.tokens import Pairs, WordPieces, read_pairs, word_mask, write_arrays, write_pairs

from train import gather, overlap, pack, parallel

VOCABULARY = Path(__file__).parents[2] / "encoder/src/lorelog_encoder/vocab.txt"
JUDGED = (
    "The cache of the scheduler is emptied every night at two, because the disk of the old server was too small for it."
)


@pytest.fixture(scope="module")
def pieces() -> WordPieces:
    return WordPieces(VOCABULARY)


def _mirror(folder: Path) -> Path:
    """A clone with documents, one of which repeats a judged text."""
    repository = folder / "jbranchaud+til" / "repo"
    repository.mkdir(parents=True)
    for number in range(12):
        body = f"Topic {number} is about widgets of size {number}. They are turned by hand, {number} times, until they fit the box."
        (repository / f"note-{number}.md").write_text(
            f"# How widget {number} is turned\n\n{body}\n\n## Why\n\n{body[::-1]}\n"
        )
    (repository / "judged.md").write_text(f"# Nightly\n\nAs we know: {JUDGED.upper()}\n")
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "Add notes about widgets"], check=True)
    return folder


def _judged(folder: Path) -> Path:
    one = folder / "retrieval" / "one"
    one.mkdir(parents=True)
    for name, entries in {
        "corpus": [{"id": "a", "text": JUDGED}, {"id": "b", "text": "Nothing else is known."}],
        "queries": [{"id": "q", "text": "when is the cache emptied"}],
    }.items():
        with gzip.open(one / f"{name}.jsonl.gz", "wt") as lines:
            lines.writelines(json.dumps(entry) + "\n" for entry in entries)
    (one / "qrels.tsv").write_text("query\tdocument\tgain\nq\ta\t1\n")
    return folder


def _run(main: Any, monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["train", *map(str, arguments)])
    return int(main())


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Texts of a small clone, gathered and packed: `text`, `judged.npz.xz`, `shards`."""
    mirrors, data = _mirror(tmp_path / "mirrors"), _judged(tmp_path / "data")
    options = ("--mirrors", mirrors, "--out", tmp_path / "text", "--sources", "jbranchaud/til", "--jobs", 1)
    assert _run(gather.main, monkeypatch, *options) == 0
    common = ("--vocabulary", VOCABULARY, "--judged", tmp_path / "judged.npz.xz")
    assert _run(pack.main, monkeypatch, "--data", data, *common) == 0
    assert (
        _run(pack.main, monkeypatch, "--text", tmp_path / "text", "--out", tmp_path / "shards", "--jobs", 1, *common)
        == 0
    )
    return tmp_path


def test_judged_text_is_left_out_of_the_training_text(
    shards: Path, monkeypatch: pytest.MonkeyPatch, pieces: WordPieces
) -> None:
    """A gathered text that repeats a judged one in other case and with other punctuation does not reach the shards."""
    (path,) = (shards / "shards").glob("shard-*.npz")
    pairs = read_pairs(path)
    assert pairs.questions.lengths.size == pairs.passages.lengths.size == pairs.kinds.size >= 20
    judged = overlap.JudgedText(overlap.judged_sequences(shards / "judged.npz.xz"), word_mask(VOCABULARY))
    assert judged.shared(
        pieces([f"So, {JUDGED.upper().replace(',', ' --')}", "widgets", JUDGED[-40:]], 500)
    ).tolist() == [True, False, False]
    command = ("--shards", shards / "shards", "--judged", shards / "judged.npz.xz", "--vocabulary", VOCABULARY)
    assert _run(overlap.main, monkeypatch, *command) == 0


def test_overlap_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pieces: WordPieces) -> None:
    """The check fails if a shard holds a judged text, short or long."""
    judged = pieces([JUDGED, "short one"], 500)
    write_arrays(tmp_path / "judged.npz", {"one/passages": judged.tokens, "one/passage_lengths": judged.lengths})
    held = pieces(["Short, one!"], 500)
    write_pairs(tmp_path / "shard-00.npz", Pairs(held, held, np.zeros(1, np.uint8)))
    command = ("--shards", tmp_path, "--judged", tmp_path / "judged.npz", "--vocabulary", VOCABULARY)
    assert _run(overlap.main, monkeypatch, *command) == 1


def test_held_repositories_bring_nothing_to_the_training_text(tmp_path: Path) -> None:
    """What is held out is chosen by hash, of every kind, and none of its pairs is among the texts; no kind outweighs the others."""
    for kind, repositories in {"documents": 30, "code": 30, "commits": 3}.items():
        for number in range(repositories):
            rows = [json.dumps([f"question {kind}", f"passage {kind} {number} {row}"]) + "\n" for row in range(260)]
            with gzip.open(tmp_path / f"pairs-{kind}-o+r{number}-00.jsonl.gz", "wt") as lines:
                lines.writelines(rows)
    gather.mix(tmp_path)
    held = [json.loads(line) for line in lzma.decompress((tmp_path / "held.jsonl.xz").read_bytes()).splitlines()]
    texts = [json.loads(line) for line in lzma.decompress((tmp_path / "texts-00.jsonl.xz").read_bytes()).splitlines()]
    apart, trained = ({pair[1].split()[2] for pair in pairs} for pairs in (held, texts))
    assert apart
    assert not apart & trained
    assert {"documents", "code"} <= {pair[2] for pair in held}
    assert sum(pair[2] == "code" for pair in texts) <= 0.36 * 63 * 260


def test_every_source_names_its_licence() -> None:
    """Licences that forbid commercial use are not taken."""
    licences = [source.licence for source in SOURCES] + [source.licence for source in parallel.SOURCES]
    assert all(licence and "NC" not in licence and licence != "research" for licence in licences)
