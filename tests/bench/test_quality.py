"""The quality bench: its rivals and its vectors, and the whole of it on a set of a few documents."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from bench.quality.tables import Bar, verdict

ROOT = Path(__file__).resolve().parents[2]


def packed(path: Path, rows: Sequence[object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("\n".join(json.dumps(row) for row in rows).encode()))


def write_set(data: Path, name: str) -> None:
    """A set of two groups, one of conversation and one of pages, with a question that nothing answers."""
    folder = data / "retrieval" / name
    texts = [
        {"id": "t1", "group": "talk", "session": 1, "date": "1:56 pm on 8 May, 2023", "text": "I bought a kayak"},
        {"id": "t2", "group": "talk", "session": 1, "date": "1:56 pm on 8 May, 2023", "text": "The cat is asleep"},
        {"id": "p1", "group": "pages", "title": "Otters", "text": "Otters swim.\n\n## Food\n\nThey eat trout."},
        {"id": "p2", "group": "pages", "title": "Badgers", "text": "Badgers dig setts."},
    ]
    packed(folder / "corpus.jsonl.gz", texts)
    questions = [
        {"id": "q1", "group": "talk", "text": "who bought a kayak"},
        {"id": "q2", "group": "pages", "text": "do otters eat trout"},
        {"id": "q3", "group": "talk", "category": "5 adversarial", "text": "who sold a kayak"},
        {"id": "q4", "group": "pages", "text": "not judged"},
        {"id": "q5", "group": "pages", "text": " "},
    ]
    packed(folder / "queries.jsonl.gz", questions)
    (folder / "qrels.tsv").write_text("query\tdoc\tgain\nq1\tt1\t1\nq2\tp1\t1\nq3\tt1\t1\nq5\tp2\t1\n", "utf-8")


@pytest.mark.parametrize(
    ("value", "bar", "word"),
    [
        (0.56, Bar(0.56, 0.54), "met"),
        (0.55, Bar(0.56, 0.54), "MISSED"),
        (0.985, Bar(0.98, 0.999), "MISSED"),
        (0.1, None, ""),
    ],
)
def test_a_set_is_held_to_its_bar(value: float, bar: Bar | None, word: str) -> None:
    """It must reach what is asked, and may not fall more than a point behind the best simple ranking."""
    assert verdict(value, bar).startswith(word)
    assert bool(verdict(value, bar)) == bool(word)


@pytest.mark.slow
def test_the_whole_bench_on_a_tiny_set(tmp_path: Path) -> None:
    """With the built-in model it prints a table for the set and one for all, and writes down every question."""
    write_set(tmp_path, "tiny")
    command = [sys.executable, "-m", "bench.quality", "--data", str(tmp_path), "--vectors", str(tmp_path / "v")]
    outputs = ["--json", str(tmp_path / "o.json"), "--dump", str(tmp_path / "d.jsonl"), "--jobs", "1"]
    done = subprocess.run([*command, *outputs], cwd=ROOT, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert "4 documents, 5 chunks, 2 judged questions" in done.stdout
    assert "| set " in done.stdout
    found = json.loads((tmp_path / "o.json").read_text("utf-8"))["sets"]["tiny"]
    assert found["rankings"]["ours"]["R@1"]["mean"] == 1.0
    rows = [json.loads(line) for line in (tmp_path / "d.jsonl").read_text("utf-8").splitlines()]
    assert [(row["query"], row["ours"][0]["id"]) for row in rows] == [("q1", "t1"), ("q2", "p1")]
    for row in rows:
        for place in row["ours"]:
            assert sum(place["parts"].values()) == pytest.approx(place["score"])

    again = subprocess.run(
        [*command, "--against", str(tmp_path / "o.json")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "(0 texts embedded anew)" in again.stdout
    assert "+0.0000" in again.stdout
