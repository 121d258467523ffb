"""Guards are proposed from prohibitions that name a command or a file; text from elsewhere never becomes a guard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lorelog.light.delivery_files import DeliveryFiles
from lorelog.services.cues.derive import derive_cues
from lorelog.services.places.workspace import Project, Workspace
from lorelog.services.standing.rules import (
    StandingRule,
    propose_guards,
    read_standing_memories,
)

CLEAR = {
    "never use npm, use pnpm": "npm *",
    "From now on, never run terraform apply.": "terraform apply *",
    "Please don't run `rm -rf node_modules`": "rm *-rf *node_modules *",
    "don't run git push --force": "git push *--force *",
    "no docker-compose please": "docker-compose *",
    "don't touch src/generated/": "src/generated",
    "Do not edit `migrations/0001_init.sql`.": "migrations/0001_init.sql",
    "don’t change package-lock.json": "package-lock.json",
    "Never edit `migrations/*.sql`": "migrations/*.sql",
}
UNCLEAR = [
    "use pnpm, not npm",
    "No, use pnpm not npm!",
    "don't run npm without asking",
    "don't run npm install until I say so",
    "don't forget to run npm test",
    "don't worry about npm",
    "never mind",
    "don't use that approach",
    "no problem",
    "don't change package.json unless needed",
    "the npm registry is slow today",
    "don't use console.log",
]


def memory(text: str, **fields: Any) -> StandingRule:
    values = {"id": text, "type": "correction", "date": "2026-03-05", "origin": "user", "own": True, "project": "/p"}
    return StandingRule(text=text, cues=tuple(map(str, derive_cues(text))), **{**values, **fields})


@pytest.mark.parametrize(("text", "pattern"), CLEAR.items())
def test_a_prohibition_of_something_named_becomes_one_guard(text: str, pattern: str) -> None:
    """A rule that begins with a prohibition and names a command or a file gives exactly that pattern."""
    (proposal,) = propose_guards([memory(text)], frozenset())
    assert (proposal.command or proposal.paths[0]) == pattern


@pytest.mark.parametrize("text", UNCLEAR)
def test_other_rules_become_none(text: str) -> None:
    """Choices, conditions, reminders, and what names nothing give no guard."""
    assert propose_guards([memory(text)], frozenset()) == []


def test_every_proposal_matches_its_example() -> None:
    """Each proposal shows a call that it would match, names its correction, and only warns."""
    proposals = propose_guards([memory(text) for text in CLEAR], frozenset())

    assert len(proposals) == len(CLEAR)
    assert propose_guards([memory(text) for text in CLEAR], frozenset(proposal.id for proposal in proposals)) == []
    assert all(proposal.example and proposal.as_guard().action == "warn" for proposal in proposals)
    assert proposals[0].as_guard().memory == proposals[0].memory == memory(next(iter(CLEAR))).id


@pytest.mark.parametrize(
    "fields", [{"own": False}, {"origin": "import"}, {"origin": "tool"}, {"type": "note"}, {"type": "decision"}]
)
def test_text_from_elsewhere_never_becomes_a_guard(fields: dict[str, Any]) -> None:
    """What came with a repository, an import or a tool, and what is not a correction, is not proposed."""
    assert propose_guards([memory("never use npm", **fields)], frozenset()) == []


def test_damaged_standing_files_are_read_as_far_as_possible(tmp_path: Path) -> None:
    """Unreadable lines and missing files are skipped; a memory without `own` is not the user's."""
    lines = [
        json.dumps({"id": "a", "text": "never use npm", "type": "correction", "own": True, "date": "2026-03-05"}),
        "{",
        "[]",
        json.dumps({"id": "b", "text": "never edit .env", "type": "correction"}),
        json.dumps({"id": 1, "text": "x"}),
    ]
    workspace = Workspace(Project("/p", "/p", "p", git=False), tmp_path, "default")
    standing = Path(DeliveryFiles(str(workspace.tenant_folder), "/p").standing[0])
    standing.parent.mkdir(parents=True)
    standing.write_text("\n".join(lines), "utf-8")

    memories = read_standing_memories(workspace)

    assert [(memory.id, memory.is_users) for memory in memories] == [("a", True), ("b", False)]
