"""The quality bench: its rivals and its vectors, and the whole of it on a set of a few documents."""

from __future__ import annotations

import gzip
import json
import math
import subprocess
import sys
from array import array
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from bench.quality.calibration import Claim, calibrate, claim, negatives, spread
from bench.quality.pipeline import Bench, Place
from bench.quality.rivals import PlainBM25, memsearch
from bench.quality.sets import BadSet, Question, load
from bench.quality.tables import Bar, verdict
from bench.quality.vectors import BadVectors, KeptEmbedder, VectorFolder

from lorelog.core.ports import EmbeddedTexts, Vector
from lorelog.core.query import Hit

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


def test_questions_without_an_answer_are_apart(tmp_path: Path) -> None:
    """Adversarial questions are not counted though they name a document, nor are those that nobody judged or that have no text."""
    write_set(tmp_path, "tiny")
    found = load(tmp_path, "tiny")

    assert [one.id for one in found.judged] == ["q1", "q2"]
    assert [one.id for one in found.unanswerable] == ["q3"]
    with pytest.raises(BadSet, match="cannot be read"):
        load(tmp_path, "other")


def test_plain_bm25_by_hand() -> None:
    """One word, in one of two texts of equal length: idf ln(1 + 1.5 / 1.5), tf 2 over 2 + 1.5."""
    bm25 = PlainBM25({1: "Otter otter, swims", 2: "badgers dig setts"})

    rows, shares = bm25._postings["otter"]
    assert list(rows) == [0]
    assert shares[0] == pytest.approx(math.log(2) * 2 / 3.5)
    assert bm25.rank("OTTER badger", 10) == [1]
    assert bm25.rank("", 10) == []


def test_memsearch_fuses_what_each_lane_cut() -> None:
    """Both lanes count to the tenth place only; what both have goes first."""
    words = [f"w{number}" for number in range(9)] + ["both", "late"]
    dense = ["both", "d1"]

    ranked = memsearch(words, dense)
    assert ranked[0] == "both"
    assert "late" not in ranked
    assert ranked.index("w0") < ranked.index("d1") < ranked.index("w2")


class Model:
    """Embeds a text as its length, and counts how often it is asked."""

    provider, model = "test", "length"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        self.asked += texts
        return EmbeddedTexts(tuple(array("f", [len(text), 1.0]).tobytes() for text in texts))

    def embed_query(self, text: str) -> Vector:
        self.asked.append(text)
        return array("f", [1.0, len(text)]).tobytes()

    def close(self) -> None:
        pass


def test_vectors_are_kept_from_run_to_run(tmp_path: Path) -> None:
    """What one run embedded the next one finds, passages and questions apart, in the order they are asked for."""
    for missing in (["a", "bbb", "a"], []):
        model = Model()
        embedder = KeptEmbedder(model, VectorFolder(tmp_path, "test/length", 2))
        vectors = embedder.embed_documents(["bbb", "a"]).vectors

        assert [array("f", vector).tolist() for vector in vectors] == [[3.0, 1.0], [1.0, 1.0]]
        assert array("f", embedder.embed_query("a")).tolist() == [1.0, 1.0]
        assert sorted(model.asked) == sorted(missing)
        assert embedder.asked == len(missing)


def test_vectors_survive_a_run_that_was_stopped(tmp_path: Path) -> None:
    """Vectors without keys, and half a key, are written over, and what was whole stays."""
    one, two = array("f", [1.0, 2.0]).tobytes(), array("f", [3.0, 4.0]).tobytes()
    VectorFolder(tmp_path, "m", 2).add({"a": one})
    with (tmp_path / "vectors.f16").open("ab") as file:
        file.write(b"torn")
    with (tmp_path / "keys.txt").open("ab") as file:
        file.write(b"abc")
    folder = VectorFolder(tmp_path, "m", 2)
    folder.add({"b": two})

    for known in (folder, VectorFolder(tmp_path, "m", 2)):
        assert (known.get("a"), known.get("b"), known.get("c")) == (one, two, None)


def test_vectors_of_another_model_are_refused(tmp_path: Path) -> None:
    """A folder belongs to one model."""
    VectorFolder(tmp_path, "m", 2)

    with pytest.raises(BadVectors, match="not of"):
        VectorFolder(tmp_path, "n", 2)


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


def said(relevance: float) -> Hit:
    """A hit of which only its claim counts."""
    return cast("Hit", SimpleNamespace(relevance=relevance))


def test_a_first_hit_makes_a_claim() -> None:
    """It is true when its document is relevant; no hit claims nothing, and a hit without relevance makes no claim."""
    places = [Place("a", said(0.8)), Place("b", said(0.9))]

    assert claim("judged", places, ["a"]) == Claim("judged", 0.8, true=True)
    assert claim("judged", places, ["b"]) == Claim("judged", 0.8, true=False)
    assert claim("judged", []) == Claim("judged", 0.0, true=False)
    assert claim("judged", [Place("a", cast("Hit", SimpleNamespace()))]) is None


def test_questions_without_an_answer_are_asked_of_the_wrong_documents(tmp_path: Path) -> None:
    """Those the set marks in their own group, judged ones in another group, and strangers where there are no groups."""
    write_set(tmp_path, "tiny")
    given = load(tmp_path, "tiny")
    asked: list[tuple[str, str]] = []

    def ask(text: str, group: str) -> list[Place]:
        asked.append((text, group))
        return [Place("x", said(0.25))]

    bench = cast("Bench", SimpleNamespace(ask=ask))
    claims = negatives(bench, given, [])

    assert asked == [("who sold a kayak", "talk"), ("who bought a kayak", "pages"), ("do otters eat trout", "talk")]
    assert claims == [Claim("unanswerable", 0.25, true=False), *[Claim("elsewhere", 0.25, true=False)] * 2]
    asked.clear()
    alone = replace(given, texts=tuple(replace(one, group="") for one in given.texts), questions=())
    negatives(bench, alone, [Question("z", "something else")])
    assert asked == [("something else", "")]


@pytest.mark.parametrize(("there", "most", "taken"), [(10, 200, 10), (400, 200, 200), (401, 200, 134), (0, 5, 0)])
def test_few_questions_are_taken_from_the_whole_list(there: int, most: int, taken: int) -> None:
    """At most so many, the first among them, at equal distances."""
    questions = [Question(str(number), "?") for number in range(there)]
    chosen = spread(questions, most)

    assert len(chosen) == taken
    assert chosen[:1] == questions[:1]


def test_claims_are_summed_up() -> None:
    """Relevant against not, answerable against not, and the distance of promise and outcome."""
    found = calibrate(
        [Claim("judged", 0.9, true=True), Claim("judged", 0.4, true=False), Claim("elsewhere", 0.6, true=False)]
    )

    assert (found.claims, found.unanswerable) == (3, 1)
    assert (found.auroc, found.auroc_answerable) == (1.0, 0.5)
    assert found.error == pytest.approx((0.1 + 0.4 + 0.6) / 3)


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
