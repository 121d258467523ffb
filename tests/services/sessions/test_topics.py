"""A prompt brings the memories whose topic it is about by meaning, and no others; with the real model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.errors import ModelUnavailable
from lorelog.core.options import EmbedOptions
from lorelog.core.ports import EmbeddedTexts, Vector
from lorelog.models.embed.builtin import BuiltinEmbedder
from lorelog.models.embed.fake import FakeEmbedder
from lorelog.services.sessions import recall as topics_module
from lorelog.services.sessions.prompt_rules import select_rules
from lorelog.services.sessions.recall import (
    MIN_PROBABILITY,
    LastQueryEmbedder,
    TopicReader,
    TopicVectors,
    TopicWeights,
)

CORPUS = Path(__file__).with_name("prompt_topics.txt")
MIN_PRECISION, MIN_RECALL = 0.95, 0.3
TOPIC = "database migrations"
MEMORY = {
    "id": "m1", "type": "fact", "text": "ask Mara first", "date": "2026-03-05", "origin": "user", "own": True,
    "verdict": "fresh", "source": "a.md:1", "cues": [f"topic={TOPIC}", "path=db/**"],
}  # fmt: skip


@pytest.fixture(scope="module")
def embedder() -> Iterator[BuiltinEmbedder]:
    opened = BuiltinEmbedder(EmbedOptions(threads=2))
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """No vectors of an earlier test."""
    monkeypatch.setattr(topics_module, "_VECTORS", {})


class BrokenEmbedder(FakeEmbedder):
    """A model that cannot be reached."""

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        raise ModelUnavailable("no answer")

    def embed_query(self, text: str) -> Vector:
        raise ModelUnavailable("no answer")


class QueryCounter(FakeEmbedder):
    """Counts the queries."""

    def __init__(self) -> None:
        self.queries = 0

    def embed_query(self, text: str) -> Vector:
        self.queries += 1
        return super().embed_query(text)


def labelled(*parts: str) -> Iterator[tuple[dict[str, str], list[tuple[str, set[str], set[str]]]]]:
    """Yield topics and labelled prompts of the projects of some parts."""
    for block in CORPUS.read_text("utf-8").split("\n\nset ")[1:]:
        name, *lines = block.splitlines()
        if name.split()[0] not in parts:
            continue
        topics = dict(line.split(": ", 1) for line in lines if " =>" not in line)
        prompts = []
        for line in lines:
            prompt, arrow, labels = line.partition(" =>")
            if arrow:
                must = {label for label in labels.split() if not label.startswith("?")}
                prompts.append((prompt, must, {label.lstrip("?") for label in labels.split()}))
        yield topics, prompts


@pytest.mark.slow
def test_prompts_that_were_held_out_bring_their_topics(embedder: BuiltinEmbedder) -> None:
    """Of what is brought by meaning, 95 % fits; the prompts are near in wording or subject, so much is missed."""
    vectors = TopicVectors()
    right = wrong = expected = 0
    for topics, prompts in labelled("held", "fresh"):
        vectors.prepare(list(topics.values()), embedder)
        for prompt, must, may in prompts:
            chances = vectors.probabilities(topics.values(), embedder.embed_query(prompt))
            got = {name for name, text in topics.items() if chances[text] >= MIN_PROBABILITY}
            expected, right, wrong = expected + len(must), right + len(got & must), wrong + len(got - may)

    assert expected > 150
    assert right / (right + wrong) >= MIN_PRECISION
    assert right / expected >= MIN_RECALL


def test_words_alone_bring_a_topic_only_whole() -> None:
    """Without a model, a sentence must have all words of a topic: of what comes then, 95 % fits."""
    right = wrong = 0
    for topics, prompts in labelled("tune", "held", "fresh"):
        rules = [{"id": name, "text": text, "is_topic": True} for name, text in topics.items()]
        for prompt, must, may in prompts:
            got = {rule["id"] for rule in select_rules(rules, prompt)}
            right, wrong = right + len(got & must), wrong + len(got - may)

    assert right > 100
    assert right / (right + wrong) >= MIN_PRECISION


def standing(folder: Path, *memories: dict[str, Any]) -> tuple[str, ...]:
    file = folder / "p.standing.jsonl"
    file.write_text("".join(json.dumps(memory) + "\n" for memory in memories), "utf-8")
    return (str(file), str(folder / "missing"))


@pytest.mark.slow
def test_a_memory_comes_with_its_topic(embedder: BuiltinEmbedder, tmp_path: Path) -> None:
    """A prompt about the topic brings the memory with the probability; another prompt brings nothing."""
    reader = TopicReader(standing(tmp_path, MEMORY), embedder, wait=True)
    (match,) = reader.find("the migrations of the database failed, repair them")

    assert (match.memory["id"], match.topic) == ("m1", TOPIC)
    assert MIN_PROBABILITY <= match.probability <= 1
    assert reader.find("make the button blue") == ()


@pytest.mark.parametrize(
    "change",
    [
        {"own": False},
        {"origin": "tool"},
        {"verdict": "gone"},
        {"cues": "topic=database migrations"},
        {"cues": [None, 3, "topic"]},
        {"cues": ["path=db/**"]},
        {"expires": "2020-01-01"},
    ],
)
def test_other_memories_do_not_come(embedder: BuiltinEmbedder, tmp_path: Path, change: dict[str, Any]) -> None:
    """Not text that came with the repository, nor what is stale, expired or without a valid topic."""
    reader = TopicReader(standing(tmp_path, {**MEMORY, **change}), embedder, wait=True)

    assert reader.find("write database migrations") == ()


def test_a_daemon_does_not_embed_topics_while_a_prompt_waits(tmp_path: Path) -> None:
    """Until the background work has made the vectors there are no matches; then a prompt costs one embedding."""
    model = QueryCounter()
    reader = TopicReader(standing(tmp_path, MEMORY), model, wait=False)

    assert reader.find(TOPIC) == ()
    assert model.queries == 1
    reader.prepare()
    model.queries = 0
    assert [match.memory["id"] for match in reader.find(TOPIC)] == ["m1"]
    assert model.queries == 1


def test_background_work_stops_when_told(tmp_path: Path) -> None:
    """A daemon that stops does not wait for topics."""
    reader = TopicReader(standing(tmp_path, MEMORY), FakeEmbedder(), wait=False)
    reader.prepare(lambda: False)

    assert reader.find(TOPIC) == ()


def test_a_model_that_fails_brings_nothing(tmp_path: Path) -> None:
    """No model, or one that cannot be reached, is no error: the hook compares words."""
    files = standing(tmp_path, MEMORY)

    assert TopicReader(files, BrokenEmbedder(), wait=True).find(TOPIC) == ()
    assert TopicReader(files, None, wait=True).find(TOPIC) == ()


def test_vectors_of_another_length_bring_nothing() -> None:
    """If the model behind a name changed, its topics are not compared with the new vectors."""
    vectors = TopicVectors()
    vectors.prepare([TOPIC], FakeEmbedder())

    assert vectors.probabilities([TOPIC], FakeEmbedder().embed_query("x")[:128]) == {}
    assert vectors.probabilities(["unknown"], FakeEmbedder().embed_query("x")) == {}


def test_another_model_has_sensible_probabilities() -> None:
    """Probabilities do not depend on the range of a model's cosines: the same words match, others do not."""
    vectors = TopicVectors()
    vectors.prepare([TOPIC, "push notifications"], FakeEmbedder())
    chances = vectors.probabilities([TOPIC, "push notifications"], FakeEmbedder().embed_query(TOPIC))

    assert chances[TOPIC] >= MIN_PROBABILITY > 0.5 > chances["push notifications"]


def test_a_prompt_is_embedded_once() -> None:
    """The search and the topics share the vector of a prompt."""
    model = QueryCounter()
    shared = LastQueryEmbedder(model)

    assert shared.embed_query("a") == shared.embed_query("a") == model.embed_query("a")
    assert shared.embed_query("b") != shared.embed_query("a")
    assert model.queries == 4


@given(st.lists(st.floats(allow_nan=False), min_size=3, max_size=3))
def test_a_probability_is_between_0_and_1(distances: list[float]) -> None:
    """However far a prompt is from the background."""
    finite = [min(max(value, -1e9), 1e9) for value in distances]

    assert 0.0 < TopicWeights(-2, 0.3, 0.3, 0.4).probability(finite) < 1.0


@given(st.lists(st.text(max_size=40), max_size=6), st.text(max_size=200))
def test_any_text_can_be_a_topic_or_a_prompt(topics: list[str], prompt: str) -> None:
    """Comparing words never fails, and a topic without words matches nothing."""
    chosen = select_rules([{"text": text, "is_topic": True} for text in topics], prompt)

    assert all(rule["text"].strip() for rule in chosen)
