"""Measures which topics prompts bring, with the built-in model: made-up pairs, and real prompts that are about none.

    python -m bench.delivery.topics [--data DIR] [--fit] [--show]

The pairs of `tests/services/sessions/prompt_topics.txt`: the sets "tune" were used for the weights (--fit prints new
ones), the sets "held" and "fresh" for measuring. With --data, prompts of real transcripts and questions of retrieval sets are
compared with the topics of every made-up project. They may be about one by chance, so the figure is an upper bound.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lorelog.core.options import EmbedOptions
from lorelog.models.embed.builtin import BuiltinEmbedder
from lorelog.services.sessions.prompt_rules import select_rules
from lorelog.services.sessions.recall import MIN_PROBABILITY, WEIGHTS, TopicVectors

CORPUS = Path(__file__).parents[2] / "tests" / "services" / "sessions" / "prompt_topics.txt"
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9)
MIN_PRECISION = 0.95
QUESTION_SETS = ("locomo_session", "small_projects", "cosqa")
MAX_QUESTIONS = 150
_RIDGE, _ROUNDS = 0.02, 50


@dataclass
class TopicProject:
    """Topics of a made-up project, and prompts with those that they are and may be about."""

    name: str
    topics: dict[str, str] = field(default_factory=dict)
    prompts: list[tuple[str, set[str], set[str]]] = field(default_factory=list)

    @property
    def part(self) -> str:
        """What it is used for: tune, held or fresh."""
        return self.name.partition(" ")[0]


@dataclass(frozen=True)
class JudgedPair:
    """A prompt and a topic."""

    part: str
    is_about: bool
    distances: tuple[float, float, float]
    by_words: bool
    prompt: str
    topic: str

    @property
    def probability(self) -> float:
        """The probability that the product gives it."""
        return WEIGHTS.probability(self.distances)


def read_projects(corpus: Path = CORPUS) -> list[TopicProject]:
    """Return the labelled projects."""
    projects: list[TopicProject] = []
    for line in corpus.read_text("utf-8").splitlines():
        prompt, arrow, labels = line.partition(" =>")
        if not line or line.startswith("#"):
            continue
        if arrow:
            names = labels.split()
            must = {name for name in names if not name.startswith("?")}
            projects[-1].prompts.append((prompt, must, {name.lstrip("?") for name in names}))
        elif line.startswith("set "):
            projects.append(TopicProject(line[4:]))
        else:
            name, _, text = line.partition(": ")
            projects[-1].topics[name] = text
    return projects


def judge(projects: list[TopicProject], vectors: TopicVectors, embedder: BuiltinEmbedder) -> list[JudgedPair]:
    """Return all pairs but the doubtful ones."""
    pairs: list[JudgedPair] = []
    for project in projects:
        vectors.prepare(list(project.topics.values()), embedder)
        rules = [{"text": text, "is_topic": True} for text in project.topics.values()]
        for prompt, must, may in project.prompts:
            distances = vectors.distances(project.topics.values(), embedder.embed_query(prompt))
            named = {rule["text"] for rule in select_rules(rules, prompt)}
            pairs += [
                JudgedPair(project.part, name in must, distances[text], text in named, prompt, text)
                for name, text in project.topics.items()
                if name in must or name not in may
            ]
    return pairs


def rates(pairs: list[JudgedPair], chosen: list[bool]) -> tuple[float, float]:
    """Return precision and recall."""
    right = sum(pair.is_about for pair, is_chosen in zip(pairs, chosen, strict=True) if is_chosen)
    return right / max(sum(chosen), 1), right / sum(pair.is_about for pair in pairs)


def fit_weights(pairs: list[JudgedPair]) -> list[float]:
    """Return base and weights of the logistic function that fits best (Newton's method, with a small ridge)."""
    values = np.array([pair.distances for pair in pairs])
    labels = np.array([pair.is_about for pair in pairs], float)
    mean, spread = values.mean(0), values.std(0)
    rows = np.column_stack([np.ones(len(values)), (values - mean) / spread])
    ridge, weights = np.diag([1e-9, _RIDGE, _RIDGE, _RIDGE]), np.zeros(4)
    for _ in range(_ROUNDS):
        guess = 1 / (1 + np.exp(-rows @ weights))
        slope = rows.T @ (guess - labels) / len(rows) + ridge @ weights
        curve = (rows * (guess * (1 - guess))[:, None]).T @ rows / len(rows) + ridge
        weights -= np.linalg.solve(curve, slope)
    scaled = weights[1:] / spread
    return [float(weights[0] - scaled @ mean), *map(float, scaled)]


def real_prompts(data: Path) -> Iterator[tuple[str, str]]:
    """Yield source and text of prompts and questions."""
    for path in sorted((data / "transcripts" / "claude_code").glob("*.gz")):
        for line in gzip.decompress(path.read_bytes()).decode("utf-8", "replace").splitlines():
            record: dict[str, Any] = json.loads(line)
            content = (record.get("message") or {}).get("content")
            if record.get("type") != "user" or record.get("isMeta") or not isinstance(content, str):
                continue
            if len(content) >= 10 and not content.startswith(("<", "Caveat:", "[Request")):
                yield "typed in real sessions", content[:2000]
    for path in sorted((data / "transcripts" / "opencode").glob("*.gz")):
        for message in json.loads(gzip.decompress(path.read_bytes()))["messages"]:
            texts = [part["text"] for part in message["parts"] if part.get("type") == "text" and part.get("text")]
            if message["info"]["role"] == "user" and texts and len(texts[0]) >= 10:
                yield "typed in real sessions", texts[0][:2000]
    for name in QUESTION_SETS:
        lines = gzip.decompress((data / "retrieval" / name / "queries.jsonl.gz").read_bytes()).decode().splitlines()
        for line in random.Random(3).sample(lines, min(len(lines), MAX_QUESTIONS)):
            yield f"questions of {name}", json.loads(line)["text"]


def measure_real(data: Path, projects: list[TopicProject], vectors: TopicVectors, embedder: BuiltinEmbedder) -> None:
    """Print how many prompts of 100 bring a memory in a project with six topics."""
    counts: dict[str, list[int]] = {}
    for source, prompt in real_prompts(data):
        vector = embedder.embed_query(prompt)
        row = counts.setdefault(source, [0, *[0] * len(THRESHOLDS), 0])
        row[0] += 1
        for project in projects:
            best = max(vectors.probabilities(project.topics.values(), vector).values())
            for number, threshold in enumerate(THRESHOLDS, 1):
                row[number] += best >= threshold
            rules = [{"text": text, "is_topic": True} for text in project.topics.values()]
            row[-1] += bool(select_rules(rules, prompt))
    heads = "".join(f" {threshold} |" for threshold in THRESHOLDS)
    print(f"\nDeliveries per 100 prompts in a project with six topics\n\n| prompts | number |{heads} words |")
    print("|---|" + "--:|" * (len(THRESHOLDS) + 2))
    for source, (number, *hits) in counts.items():
        cells = "".join(f" {100 * hit / number / len(projects):.2f} |" for hit in hits)
        print(f"| {source} | {number} |{cells}")


def print_rates(pairs: list[JudgedPair]) -> float:
    """Print precision and recall; return the precision of what was held out, at the product's threshold."""
    print("| pairs | number | about | by | precision | recall |\n|---|--:|--:|---|--:|--:|")
    for part in ("tune", "held", "fresh"):
        chosen = [pair for pair in pairs if pair.part == part]
        about = sum(pair.is_about for pair in chosen)
        ways = [("all words", [pair.by_words for pair in chosen])]
        ways += [(f"meaning >= {least}", [pair.probability >= least for pair in chosen]) for least in THRESHOLDS]
        either = [pair.by_words or pair.probability >= MIN_PROBABILITY for pair in chosen]
        ways.append((f"words or meaning >= {MIN_PROBABILITY}", either))
        for way, picked in ways:
            precision, recall = rates(chosen, picked)
            print(f"| {part} | {len(chosen)} | {about} | {way} | {precision:.3f} | {recall:.3f} |")
    held = [pair for pair in pairs if pair.part != "tune"]
    return rates(held, [pair.probability >= MIN_PROBABILITY for pair in held])[0]


def main() -> int:
    """Measure and print; return 1 if the precision of the pairs held out is too low."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with transcripts/ and retrieval/")
    parser.add_argument("--fit", action="store_true", help="print weights for topics.py and stop")
    parser.add_argument("--show", action="store_true", help="print the wrong deliveries")
    options = parser.parse_args()
    projects, vectors, embedder = read_projects(), TopicVectors(), BuiltinEmbedder(EmbedOptions(threads=2))
    pairs = judge(projects, vectors, embedder)
    if options.fit:
        print(*(f"{weight:.2f}" for weight in fit_weights([pair for pair in pairs if pair.part == "tune"])))
        return 0
    precision = print_rates(pairs)
    for pair in pairs if options.show else ():
        if (pair.by_words or pair.probability >= MIN_PROBABILITY) and not pair.is_about:
            print(f"wrong: {pair.topic!r} for {pair.prompt!r} ({pair.probability:.2f}, by words: {pair.by_words})")
    if options.data:
        measure_real(options.data, projects, vectors, embedder)
    return 0 if precision >= MIN_PRECISION else 1


if __name__ == "__main__":
    sys.exit(main())
