"""Cues come by themselves from what a memory names, and only from that."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.services.delivery.cue import parse_cue
from lorelog.services.delivery.derive import MAX_DERIVED_CUES, derive_cues


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no, use pnpm not npm", {"command=npm"}),
        ("Always use pnpm.", {"command=npm", "command=yarn", "command=bun"}),
        ("Use uv instead of pip", {"command=pip"}),
        ("never git push --force to main", {"command=git push --force", "command=git push -f"}),
        ("stop running npm install every time", {"command=npm install"}),
        ("never use `git add -A`", {"command=git add -A"}),
        ("never use sudo", {"command=sudo"}),
        (
            "In `src/db/pool.py` close `ConnectionPool.acquire()`",
            {"path=src/db/pool.py", "symbol=ConnectionPool.acquire"},
        ),
        ("Do not touch generated files in `src/gen/`", {"path=src/gen"}),
        ("don't edit package.json by hand", {"path=package.json"}),
        ("files in `migrations/*.sql` are append-only", {"path=migrations/*.sql"}),
        ("prefer early returns in `parse_config`", {"symbol=parse_config"}),
        ("don't use console.log", {"symbol=console.log"}),
        ("ECONNREFUSED means that the proxy is down", {"error=ECONNREFUSED"}),
        ("Do not run the e2e tests proactively", {"event=test"}),
        ("I prefer short commit subjects", {"event=commit"}),
        ("When a test fails, read the log first", {"event=failure"}),
        ("On 2026-12-01 rotate the keys", {"day=2026-12-01"}),
    ],
)
def test_a_cue_is_derived_from_what_is_named(text: str, expected: set[str]) -> None:
    """Files, symbols, commands to avoid, errors, moments and days become cues."""
    assert {str(cue) for cue in derive_cues(text)} == expected


@pytest.mark.parametrize(
    "text",
    [
        "We decided on Redis, because Postgres was slow",
        "Use GitHub Actions, and TypeScript everywhere",
        "Prefer composition over inheritance",
        "never make changes without asking",
        "don't go there",
        "don't find excuses",
        "answer in short sentences and/or bullets",
        "ValueError is fine here",
        "Node.js is installed, see example.com",
        "I don't like python 2",
    ],
)
def test_prose_gives_no_cue(text: str) -> None:
    """Product names, everyday words and generic errors are not cues."""
    assert derive_cues(text) == ()


def test_an_error_with_its_message_becomes_a_pattern() -> None:
    """The parts of a message that vary between runs become wildcards."""
    text = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\nValueError: bad port 8080 in config'

    assert "error=ValueError: bad port * in config" in {str(cue) for cue in derive_cues(text)}


@given(st.text(max_size=400))
def test_any_text_gives_valid_cues(text: str) -> None:
    """Every derived cue could have been written by hand, and there are few."""
    cues = derive_cues(text)

    assert len(cues) <= MAX_DERIVED_CUES
    assert all(parse_cue(str(cue)) == cue for cue in cues)
