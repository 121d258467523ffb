"""Guards are proposed from prohibitions that name a command or a file; text from elsewhere never becomes a guard."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from lorelog.light.delivery_files import DeliveryFiles
from lorelog.services.cues.derive import derive_cues
from lorelog.services.guards.replay import PastCall
from lorelog.services.places.workspace import Project, Workspace
from lorelog.services.standing.rules import (
    MIN_RECENT_CALLS,
    StandingRule,
    check_rules,
    propose_guards,
    read_instructions,
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


ELSEWHERE = ({"own": False}, {"origin": "import"}, {"origin": "tool"}, {"type": "note"}, {"type": "decision"})


@pytest.mark.parametrize(
    ("text", "fields"), [*((text, {}) for text in UNCLEAR), *(("never use npm", fields) for fields in ELSEWHERE)]
)
def test_other_rules_become_none(text: str, fields: dict[str, Any]) -> None:
    """Choices, conditions, what names nothing, came from elsewhere or is not a correction give no guard."""
    assert propose_guards([memory(text, **fields)], frozenset()) == []


def test_every_proposal_matches_its_example() -> None:
    """Each proposal shows a call that it would match, names its correction, and only warns."""
    proposals = propose_guards([memory(text) for text in CLEAR], frozenset())

    assert len(proposals) == len(CLEAR)
    assert propose_guards([memory(text) for text in CLEAR], frozenset(proposal.id for proposal in proposals)) == []
    assert all(proposal.example and proposal.as_guard().action == "warn" for proposal in proposals)
    assert proposals[0].as_guard().memory == proposals[0].memory == memory(next(iter(CLEAR))).id


@pytest.mark.parametrize(
    ("sentence", "command", "expected"),
    [
        *(
            ("Never run `git stash`.", f"git {call}", "broken")
            for call in ("stash", "-C x stash -u 2>&1", "stash save a")
        ),
        *(("Never run `git stash`.", f"git stash {verb}", "") for verb in ("list", "pop", "show -p", "drop")),
        ("Do not use `npm` or `yarn`, use `bun`", "yarn add x", "broken"),
        ("Do not use `npm` or `yarn`, use `bun`", "bun add x", "followed"),
        ("Use `bun` instead of `npm`", "npm ci", "broken"),
        ("Run `make fmt` before `git push`.", "git push", "is about"),
        ("Do not use `git stash` on shared checkouts.", "git stash", ""),
        ("Never run `npm` without asking.", "npm ci", ""),
        ("Do not default to the full local `bun run test` suite.", "bun run test", ""),
        ("`npm ci` installs", "npm ci", ""),
        ("never run npm", "npm ci", ""),
    ],
)
def test_a_line_is_judged_by_what_stands_in_code(tmp_path: Path, sentence: str, command: str, expected: str) -> None:
    """A line is broken only by what it forbids without any condition, place or purpose; what it only mentions says nothing."""
    (tmp_path / "CLAUDE.md").write_text(f"Be kind.\n```\nnever run `{command}`\n```\n- {sentence}\n", "utf-8")
    call = PastCall(tool="Bash", kind="run", command=f"cd app && {command}", at="2026-03-05T10:00:00Z")

    _, (balance, hits) = check_rules(read_instructions(str(tmp_path)), [call], date(2026, 3, 6))

    assert ([hit.verdict for hit in hits], balance.id) == ([expected] if expected else [], "CLAUDE.md:5")


def test_the_judges_word_decides_what_a_filed_rule_forbids() -> None:
    """A call before the rule was said, or that a guard stopped, breaks nothing; an old rule that nobody broke may rest."""
    texts = {"a": "never commit in a broken state", "b": "no commits", "c": "no commits, please"}
    reason = {"b": "said on 2026-01-05 in a prompt, filed by x", "c": "said on 2026-03-04 in a prompt, filed by x"}
    rules = [
        replace(memory(text), id=name, cues=("command=git commit",), reason=reason.get(name, ""), forbids=name != "a")
        for name, text in texts.items()
    ]
    calls = [
        PastCall(tool="Bash", kind="run", command="git commit -m x", at=f"2026-{day}T10:00:00Z")
        for day in ("01-01", "01-20")
    ]
    calls += [replace(calls[0], at="2026-04-01T10:00:00Z", stopped=True)] * MIN_RECENT_CALLS

    found = {rule.id: rule for rule, _ in check_rules(rules, calls, date(2026, 4, 30))}

    assert [(rule.applies, rule.broken, rule.rests) for rule in found.values()] == [
        (0, 0, False),
        (1, 1, True),
        (0, 0, False),
    ]
    assert found["b"].last_broken == "2026-01-20T10:00:00Z"


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
