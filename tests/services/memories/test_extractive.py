"""A summary without a model: one sentence of each text, and the one that says something."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.services.memories.extractive import extract_sentences

TURN = """### 04:35
- User asked: bring it up to date with main
- Outcome: Pushed. Replaced `countLines` by `countItems`, because main had deleted the function it called. All tests pass.
- Files: /src/app/hooks.go, /src/app/hooks_test.go
- Commands:
  - `git fetch origin main && git rebase origin/main`
  - `mise run fmt && mise run lint`
"""


def taken(*texts: str) -> list[str]:
    return [sentence.text for sentence in extract_sentences(texts)]


def test_of_a_turn_what_came_of_it_is_taken() -> None:
    """Neither its commands nor its files, nor that tests pass, though those words come up most."""
    other = TURN.replace("countLines", "readAll").replace("countItems", "readSome").replace("deleted", "renamed")

    assert (
        taken(TURN, other)[0]
        == "Replaced `countLines` by `countItems`, because main had deleted the function it called."
    )


def test_of_a_turn_without_outcome_what_was_asked_is_taken() -> None:
    """That someone wanted something is then all that is known."""
    asked = (
        "### 05:01\n- User asked: Remove the parser, because nobody needs it any more.\n- Commands:\n  - `git push`\n"
    )

    assert taken(asked) == ["Remove the parser, because nobody needs it any more."]
    assert taken(f"{asked}- Outcome: The parser and its tests went.\n") == ["The parser and its tests went."]


def test_a_sentence_that_goes_over_lines_is_taken_whole() -> None:
    """Prose that was wrapped is read as it was written."""
    text = "# Cache\n\nThe cache was stale,\nbecause the TTL of an entry\nwas never set. It rained."

    assert taken(text) == ["The cache was stale, because the TTL of an entry was never set."]


def test_items_of_a_list_stay_apart() -> None:
    """Lines that begin something do not run into each other."""
    text = "- The importer retries because servers fail\n- Otters\n1. Kelp"

    assert taken(text) == ["The importer retries because servers fail"]


def test_sentences_of_scripts_without_gaps_are_told_apart() -> None:
    """Chinese ends a sentence without a space after it."""
    assert taken("今天天气很好。因为缓存过期，我们决定改用新的键。大家都很高兴。") == [
        "因为缓存过期，我们决定改用新的键。"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "```go\nfunc must() {}\n```\nThe parser keeps blank lines.",
        "| a | b |\n|---|---|\n\nThe parser keeps blank lines.",
    ],
)
def test_code_and_tables_are_not_sentences(text: str) -> None:
    """What is not prose is not taken where there is some."""
    assert taken(text) == ["The parser keeps blank lines."]


def test_where_there_are_only_commands_one_is_taken() -> None:
    """Something is better than nothing."""
    assert taken("- Commands:\n  - `git push --force`") != []


def test_a_number_that_counts_ends_no_sentence() -> None:
    """Neither does an abbreviation."""
    assert taken("Files to change 1. cmd/hooks.go must skip hidden commands, e.g. those of plugins") == [
        "Files to change 1. cmd/hooks.go must skip hidden commands, e.g. those of plugins"
    ]


@given(st.lists(st.text(max_size=200), max_size=8))
def test_any_texts_give_at_most_one_sentence_each(texts: list[str]) -> None:
    """No text breaks it, places go up, and the same is taken again."""
    found = extract_sentences(texts)

    assert [item.position for item in found] == sorted({entry.position for entry in found})
    assert extract_sentences(texts) == found
