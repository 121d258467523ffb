"""A prompt brings the rules that it is about, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.services.sessions.prompt_rules import select_rules

CORPUS = Path(__file__).with_name("prompt_rules.txt")
MIN_RECALL, MAX_FALSE = 0.9, 0.01


class LabelledProject:
    """The rules of a project, and prompts with the rules that they must and may bring."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rules: list[dict[str, Any]] = []
        self.prompts: list[tuple[str, set[str], set[str]]] = []


def read_corpus() -> list[LabelledProject]:
    projects: list[LabelledProject] = []
    for line in CORPUS.read_text("utf-8").splitlines():
        prompt, arrow, labels = line.partition(" =>")
        if not line or line.startswith("#"):
            continue
        if arrow:
            names = labels.split()
            must = {name for name in names if not name.startswith("?")}
            projects[-1].prompts.append((prompt, must, {name.lstrip("?") for name in names}))
        elif line.startswith("set "):
            projects.append(LabelledProject(line[4:]))
        else:
            name, _, text = line.partition(": ")
            projects[-1].rules.append({"id": name, "text": text})
    return projects


def brought(rules: list[dict[str, Any]], prompt: str) -> set[str]:
    return {rule["id"] for rule in select_rules(rules, prompt)}


@pytest.mark.parametrize("kind", ["tune", "held", "fresh"])
def test_labelled_prompts_bring_their_rules(kind: str) -> None:
    """At least 90 % of the expected rules come, and at most 1 % of the prompts bring one that does not fit."""
    projects = [project for project in read_corpus() if project.name.startswith(kind)]
    expected = found = wrong = prompts = 0
    for project in projects:
        for prompt, must, may in project.prompts:
            got = brought(project.rules, prompt)
            expected, found = expected + len(must), found + len(must & got)
            wrong, prompts = wrong + bool(got - may), prompts + 1

    assert prompts > 50
    assert found / expected >= MIN_RECALL
    assert wrong / prompts <= MAX_FALSE


def test_the_corpus_has_enough_of_both() -> None:
    """There are more than 200 labelled prompts, and about half of them bring nothing."""
    prompts = [prompt for project in read_corpus() for prompt in project.prompts]
    assert len(prompts) > 200
    assert sum(not may for _, _, may in prompts) > 100


E2E = [{"id": "e2e", "text": "do not run e2e tests proactively"}]


@pytest.mark.parametrize(
    ("prompt", "fits"),
    [
        ("write e2e tests and run them", True),
        ("Run the END-TO-END tests, please", True),
        ("add a button", False),
        ("", False),
        ("e2", False),
        ("the log says: " + "x" * 100_000 + "\nwrite e2e tests and run them", True),
        ("go. " * 2000 + "run e2e tests. " + "go. " * 2000, False),
    ],
)
def test_a_rule_comes_when_its_subject_is_named(prompt: str, fits: bool) -> None:  # noqa: FBT001
    """Case and spelling do not matter; of a long prompt, the beginning and the end count."""
    assert brought(E2E, prompt) == ({"e2e"} if fits else set())


def test_words_of_different_sentences_do_not_add_up() -> None:
    """A long prompt has the words of many rules, but not in one sentence."""
    rules = [{"id": "r", "text": "commit messages mention the ticket and end with the reviewer"}]
    prompt = "look at the message queue.\nthen check the ticket list.\nand find who the reviewer is."
    assert brought(rules, prompt) == set()


def test_other_scripts_are_compared() -> None:
    """Chinese has no spaces; German function words do not count."""
    rules = [
        {"id": "zh", "text": "不要主动运行端到端测试"},
        {"id": "de", "text": "die Tests nie ohne Rückfrage starten"},
    ]
    assert brought(rules, "请运行端到端测试") == {"zh"}
    assert brought(rules, "die Liste ist nicht sortiert") == set()


@given(st.lists(st.text(max_size=80), max_size=12), st.text(max_size=300))
def test_any_text_is_compared(texts: list[str], prompt: str) -> None:
    """Whatever rules and prompts contain, the result is some of the rules, each once, and the same each time."""
    rules = [{"id": str(number), "text": text} for number, text in enumerate(texts)]
    chosen = select_rules(rules, prompt)
    assert all(rule in rules for rule in chosen)
    assert len({rule["id"] for rule in chosen}) == len(chosen)
    assert select_rules(rules, prompt) == chosen
