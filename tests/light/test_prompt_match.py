"""A prompt brings the rules that name something in it, and no others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.light.prompt_match import select_named

RULES: list[dict[str, Any]] = [
    {"id": "npm", "named": ["npm"]},
    {"id": "stash", "named": ["git stash"]},
    {"id": "db", "named": ["src/db", "pool.py"]},
    {"id": "symbol", "named": ["parse_config"]},
    {"id": "topic", "named": ["database migrations", "\u6570\u636e\u5e93"]},
    {"id": "make", "named": ["`make`"]},
    {"id": "broken", "named": "npm"},
    {"id": "none"},
    {"id": "idle", "named": ["npm install"], "unused": 5},
]


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("npm fails, see `NPM`", ["npm"]),
        ("do a git  stash first, then npm.", ["stash", "npm"]),
        ("npm install fails", ["npm", "idle"]),
        ("why is src/db/other.py slow?", ["db"]),
        ("move lib/pool.py", ["db"]),
        ("call parse_config() twice", ["symbol"]),
        ("The Database migrations are late", ["topic"]),
        ("\u68c0\u67e5\u6570\u636e\u5e93\u8fc1\u79fb", ["topic"]),
        ("run `make` again", ["make"]),
        ("make it blue", []),
        ("npm-check and my_npm and pnpm", []),
        ("parse_config_file, pool.pyc", []),
        ("migrate the database", []),
        ("# npm\n## Database migrations\nadd a button", []),
        ("add a button", []),
    ],
)
def test_a_rule_comes_if_its_phrase_stands_in_the_prompt(prompt: str, expected: list[str]) -> None:
    """A phrase counts as whole words, outside of headings; the longest phrase comes first, a rule never used last."""
    assert [rule["id"] for rule in select_named(RULES, prompt)] == expected


@given(st.lists(st.text(max_size=10), max_size=4), st.text(max_size=200))
def test_any_prompt_and_phrases_are_survived(phrases: list[str], prompt: str) -> None:
    """Whatever is typed, a rule is selected or not."""
    assert select_named([{"id": "a", "named": phrases}], prompt) in ([], [{"id": "a", "named": phrases}])
