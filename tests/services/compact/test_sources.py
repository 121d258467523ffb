"""Labels of sources, and a summary of them without a model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.services.compact.sources import extract_sentences, shorten_hashes


@given(st.sets(st.text("0123456789abcdef", min_size=16, max_size=16), max_size=50))
def test_a_label_means_one_source(hashes: set[str]) -> None:
    """Each begins its hash, no two are the same, and all are as long as needed."""
    labels = shorten_hashes(sorted(hashes))

    assert len(set(labels.values())) == len(hashes)
    assert all(label.startswith(short) and len(short) >= 8 for label, short in labels.items())


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


ASKED = "### 05:01\n- User asked: Remove the parser, because nobody needs it any more.\n- Commands:\n  - `git push`\n"
TAKEN = {
    "of a turn without outcome, what was asked": (ASKED, "Remove the parser, because nobody needs it any more."),
    "else its outcome": (f"{ASKED}- Outcome: The parser and its tests went.\n", "The parser and its tests went."),
    "a sentence that goes over lines, whole": (
        "# Cache\n\nThe cache was stale,\nbecause the TTL of an entry\nwas never set. It rained.",
        "The cache was stale, because the TTL of an entry was never set.",
    ),
    "one item of a list, not run into the next": (
        "- The importer retries because servers fail\n- Otters\n1. Kelp",
        "The importer retries because servers fail",
    ),
    "a sentence of Chinese, which has no space after it": (
        "今天天气很好。因为缓存过期，我们决定改用新的键。大家都很高兴。",
        "因为缓存过期，我们决定改用新的键。",
    ),
    "prose where there is some, not code": (
        "```go\nfunc must() {}\n```\nThe parser keeps blank lines.",
        "The parser keeps blank lines.",
    ),
    "nor a table": ("| a | b |\n|---|---|\n\nThe parser keeps blank lines.", "The parser keeps blank lines."),
    "neither a number that counts nor an abbreviation ends it": (
        *["Files to change 1. cmd/hooks.go must skip hidden commands, e.g. those of plugins"] * 2,
    ),
}


def test_of_a_turn_what_came_of_it_is_taken() -> None:
    """Neither its commands nor its files, nor that tests pass, though those words come up most."""
    other = TURN.replace("countLines", "readAll").replace("countItems", "readSome").replace("deleted", "renamed")

    assert (
        taken(TURN, other)[0]
        == "Replaced `countLines` by `countItems`, because main had deleted the function it called."
    )


@pytest.mark.parametrize(("text", "sentence"), TAKEN.values(), ids=TAKEN)
def test_one_sentence_is_taken(text: str, sentence: str) -> None:
    """Of each text its most telling sentence of prose is taken, whole and as it was written."""
    assert taken(text) == [sentence]


def test_where_there_are_only_commands_one_is_taken() -> None:
    """Something is better than nothing."""
    assert taken("- Commands:\n  - `git push --force`") != []


@given(st.lists(st.text(max_size=200), max_size=8))
def test_any_texts_give_at_most_one_sentence_each(texts: list[str]) -> None:
    """No text breaks it, places go up, and the same is taken again."""
    found = extract_sentences(texts)

    assert [item.position for item in found] == sorted({entry.position for entry in found})
    assert extract_sentences(texts) == found
