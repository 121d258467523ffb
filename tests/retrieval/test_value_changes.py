"""Which statements of two texts are a newer and an older value of the same thing."""

from __future__ import annotations

from collections import Counter

import pytest
from bench.supersession.journals import read_pairs
from hypothesis import example, given
from hypothesis import strategies as st

from lorelog.retrieval.value_changes import DatedText, find_stated_values, find_value_pairs

OLD, NEW = "2026-10-02T09:00", "2026-10-09T09:00"


def pairs_of(older: str, newer: str, **both: object) -> list[tuple[str, str]]:
    texts = [DatedText(older, OLD, **both), DatedText(newer, NEW, **both)]  # type: ignore[arg-type]
    return [(pair.was, pair.now) for pair in find_value_pairs(texts)]


@pytest.mark.parametrize(("name", "least"), [("develop", 0.95), ("held_out", 0.75)])
def test_made_up_journals_are_judged_precisely(name: str, least: float) -> None:
    """Of the pairs that are recognised at least .95 are right, in both orders of the hits, and most are recognised."""
    counts: Counter[str] = Counter()
    for pair in read_pairs(name):
        found = pair.recognise()
        counts["right"] += found == pair.expected != "none"
        counts["wrong"] += found not in (pair.expected, "none")
        counts["expected"] += pair.expected != "none"

    assert counts["right"] / (counts["right"] + counts["wrong"]) >= 0.95
    assert counts["right"] / counts["expected"] >= least


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("The timeout is 5 s", "The timeout is 5000 ms"),
        ("The timeout is 5 s for reads", "The timeout is 30 s for writes"),
        ("The timeout is 5 s or 10 s", "The timeout is 30 s"),
        ("Maybe the timeout is 5 s", "The timeout is 30 s"),
        ("- Commands:\n  - timeout: 5 s", "- Commands:\n  - timeout: 30 s"),
        ("```\ntimeout: 5 s\n```", "```\ntimeout: 30 s\n```"),
    ],
)
def test_different_things_are_not_a_pair(text: str, other: str) -> None:
    """Equal values in other units, other scopes, alternatives, guesses, commands and code are not compared."""
    assert pairs_of(text, other) == []


def test_headings_and_files_are_part_of_the_subject() -> None:
    """Two READMEs may name two ports; a heading may name what a note's sentence names."""
    api = DatedText("Listens on port 8080", OLD, "/app", "/app/api/README.md", is_memory=False)
    web = DatedText("Listens on port 3000", NEW, "/app", "/app/web/README.md", is_memory=False)
    titled = DatedText("Timeout: 5 s", OLD, "/app", headings=("HTTP client",))
    plain = DatedText("HTTP client timeout: 30 s", NEW, "/app")

    assert find_value_pairs([api, web]) == []
    assert [(pair.was, pair.now) for pair in find_value_pairs([titled, plain])] == [("5 s", "30 s")]


def test_projects_are_not_compared() -> None:
    """Notes of two projects are never a pair."""
    texts = [DatedText("The port is 8080", OLD, "/one"), DatedText("The port is 3000", NEW, "/two")]

    assert find_value_pairs(texts) == []


def test_a_document_with_both_values_lists_alternatives() -> None:
    """If one document gives a subject two values, none of them is outdated."""
    page = {"project": "/app", "source": "/app/docs/http.md", "headings": ("HTTP",), "is_memory": False}
    texts = [
        DatedText("The request timeout is 5 s", OLD, **page),  # type: ignore[arg-type]
        DatedText("The request timeout is 30 s", OLD, **page),  # type: ignore[arg-type]
        DatedText("The request timeout is 60 s", NEW, "/app", headings=("HTTP",)),
    ]

    assert find_value_pairs(texts) == []


def test_long_texts_are_read_where_they_have_the_questions_words() -> None:
    """In a long text only lines with a term of the question count, and none below its list of commands."""
    filler = "\n".join(f"Otter {number} sleeps beside the river and the stone." for number in range(12))
    text = f"{filler}\n- Outcome: The HTTP timeout is 5 s.\n- Commands:\n  - port: 8080"

    assert [value.shown for value in find_stated_values(text, ["timeout"])] == ["5 s"]
    assert find_stated_values(text, ["port"]) == ()
    assert find_stated_values(text, ["heron"]) == ()


@given(st.text(max_size=300), st.text(max_size=300))
@example("The separator is ` ` here.", "")
def test_any_text_is_read_and_never_a_pair_with_itself(text: str, other: str) -> None:
    """No text raises an error, and a text is never a newer or older version of itself."""
    pairs_of(text, other)

    assert pairs_of(text, text) == []
