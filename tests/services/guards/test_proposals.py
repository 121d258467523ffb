"""Guards are derived from corrections with few false ones; text from elsewhere never becomes a guard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.services.guards.proposals import (
    StandingRule,
    derive_candidates,
    propose_guards,
    read_standing_memories,
)

CLEAR = {
    "use pnpm, not npm": "npm *",
    "No, use pnpm not npm!": "npm *",
    "Use `uv run pytest`, not `pytest`": "pytest *",
    "use uv instead of pip in this repo": "pip *",
    "I said use yarn, never npm.": "npm *",
    "stop running npm install": "npm install *",
    "Never run terraform apply": "terraform apply *",
    "Please don't run `rm -rf node_modules`": "rm *-rf *node_modules *",
    "avoid using docker-compose": "docker-compose *",
    "don't run git push --force": "git push *--force *",
    "Never force push.": "git push *--force *",
    "never commit to main": "git push *main *",
    "don't push to master!": "git push *master *",
    "Don't commit, I will do that": "git commit *",
    "don't touch src/generated/": "src/generated",
    "Do not edit `migrations/0001_init.sql`.": "migrations/0001_init.sql",
    "never edit .env": ".env",
    "Please don't modify the migrations folder": "migrations",
    "don’t change package-lock.json": "package-lock.json",
    "don't use console.log": "console.log(",
    "no default exports": "export default",
    "Never use `@ts-ignore`": "@ts-ignore",
    "don't add print statements": "print(",
    "No more console.logs in this project": "console.log(",
    "don't use `eval(`": "eval(",
}
UNCLEAR = [
    "don't commit without asking",
    "don't run npm install until I say so",
    "why don't you use pnpm instead of npm?",
    "don't forget to run npm test",
    "don't worry about npm",
    "never mind",
    "don't use that approach",
    "use the new API, not the old one",
    "make it blue, not green",
    "use tabs not spaces",
    "no problem",
    "no, that's wrong",
    "don't change the color",
    "don't edit it",
    "do not touch anything else",
    "do not run e2e tests proactively",
    "I don't think we should use npm",
    "use pnpm, not npm, for the docs package",
    "use npm not pnpm when in CI",
    "don't delete the tests",
    "don't go there",
    "don't find excuses",
    "don't make assumptions",
    "no tests failed",
    "The build uses npm, not pnpm?",
    "don't push it",
    "don't push yet",
    "don't commit to this idea",
    "don't remove comments",
    "don't change package.json unless needed",
    "don't delete files",
    "don't use bundle sizes as metric",
    "no type annotations needed",
    "never use any",
    "the npm registry is slow today",
    "I prefer pnpm",
    "do not make the button bigger",
    "stop",
]


def memory(text: str, **fields: Any) -> StandingRule:
    values = {"id": text, "type": "correction", "date": "2026-03-05", "origin": "user", "own": True, "project": "/p"}
    return StandingRule(text=text, **{**values, **fields})


def pattern_of(text: str) -> list[str]:
    found = [candidate.conditions for candidate in derive_candidates(text)]
    return [conditions.command or conditions.content or conditions.paths[0] for conditions in found]


@pytest.mark.parametrize(("text", "pattern"), CLEAR.items())
def test_a_clear_correction_becomes_one_guard(text: str, pattern: str) -> None:
    """A sentence that forbids a command, a file or a text gives exactly that pattern."""
    assert pattern_of(text) == [pattern]


@pytest.mark.parametrize("text", UNCLEAR)
def test_other_sentences_become_none(text: str) -> None:
    """Conditions, questions, figures of speech and matters of taste give no guard."""
    assert pattern_of(text) == []


def test_every_proposal_matches_its_example() -> None:
    """Each proposal shows a call that it would match, names its correction, and only warns."""
    proposals = propose_guards([memory(text) for text in CLEAR], frozenset())

    assert len(proposals) >= 20
    assert all(proposal.example and proposal.as_guard().action == "warn" for proposal in proposals)
    assert proposals[0].as_guard().memory == proposals[0].memory == memory(next(iter(CLEAR))).id


@pytest.mark.parametrize(
    "fields", [{"own": False}, {"origin": "import"}, {"origin": "tool"}, {"type": "note"}, {"type": "decision"}]
)
def test_text_from_elsewhere_never_becomes_a_guard(fields: dict[str, Any]) -> None:
    """What came with a repository, an import or a tool, and what is not a correction, is not proposed."""
    assert propose_guards([memory("use pnpm, not npm", **fields)], frozenset()) == []


def test_the_newer_correction_wins() -> None:
    """What a newer correction recommends is not forbidden by an older one; known guards are not proposed again."""
    memories = [memory("use npm, not pnpm", date="2026-04-01"), memory("use pnpm, not npm", date="2026-03-01")]

    proposals = propose_guards(memories, frozenset())

    assert [proposal.command for proposal in proposals] == ["pnpm *"]
    assert propose_guards(memories, frozenset(proposal.id for proposal in proposals)) == []


def test_damaged_standing_files_are_read_as_far_as_possible(tmp_path: Path) -> None:
    """Unreadable lines and missing files are skipped; a memory without `own` is not the user's."""
    lines = [
        json.dumps({"id": "a", "text": "use pnpm, not npm", "type": "correction", "own": True, "date": "2026-03-05"}),
        "{",
        "[]",
        json.dumps({"id": "b", "text": "never edit .env", "type": "correction"}),
        json.dumps({"id": 1, "text": "x"}),
    ]
    (tmp_path / "p").write_text("\n".join(lines), "utf-8")

    memories = read_standing_memories((str(tmp_path / "p"), str(tmp_path / "none")), "/p")

    assert [(memory.id, memory.may_become_guard) for memory in memories] == [("a", True), ("b", False)]


@given(
    st.text(max_size=300)
    | st.lists(st.sampled_from(["don't", "use", "npm", "not", "`a.b(`", "edit", "src/", ",", ".", "never"])).map(
        " ".join
    )
)
def test_any_text_can_be_read(text: str) -> None:
    """No text makes the derivation fail, and every candidate has a condition."""
    assert all(candidate.conditions.patterns() for candidate in derive_candidates(text))
