"""A newer rule replaces the one it contradicts, and no other."""

from __future__ import annotations

import pytest

from lorelog.core.memory import NewMemory
from lorelog.services.standing.contradiction import find_contradicted, supersede_contradicted

RULES = {"correction", "preference"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("use pnpm", "use yarn instead of pnpm"),
        ("no, use pnpm", "use npm"),
        ("always add docstrings", "never add docstrings"),
        ("never use yarn", "use yarn"),
        ("use tabs, not spaces", "use spaces instead of tabs"),
        ("don't commit to main", "always commit to main"),
        ("always run the tests before committing", "don't run the tests before committing"),
        ("use jest for unit tests", "use vitest for unit tests"),
        ("Use pnpm instead of npm.", "Use npm instead of pnpm."),
        ("Always write comments in English", "stop writing comments in English"),
    ],
)
def test_the_newer_rule_contradicts_the_older(old: str, new: str) -> None:
    """Another choice for the same thing, or the opposite of an action, is a contradiction."""
    assert find_contradicted(new, [{"id": "old", "text": old}]) == ["old"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("use pnpm", "don't use pnpm in CI"),
        ("use pnpm", "always use pnpm, not npm"),
        ("use tabs", "use spaces"),
        ("always add docstrings to tests", "stop adding docstrings"),
        ("run e2e tests", "do not run e2e tests proactively"),
        ("use jest for unit tests", "use playwright for e2e tests"),
        ("use docker", "use podman for local development"),
        ("prefer short names", "never use long names"),
        ("never push", "stop asking before you push"),
        ("The TTL is 5 minutes", "The TTL is 10 minutes"),
    ],
)
def test_rules_that_can_both_hold_are_kept(old: str, new: str) -> None:
    """Another scope, a repetition, or another subject is not a contradiction."""
    assert find_contradicted(new, [{"id": "old", "text": old}]) == []


def test_an_agent_does_not_replace_a_rule_of_the_user() -> None:
    """A memory that an agent wrote supersedes only what an agent wrote."""
    standing = [
        {"id": "user", "text": "use pnpm", "origin": "user"},
        {"id": "agent", "text": "use pnpm", "origin": "agent"},
    ]

    def superseded(origin: str, kind: str = "preference") -> tuple[str, ...]:
        memory = NewMemory("use yarn", kind, origin=origin)
        return supersede_contradicted([memory], standing, RULES)[0].supersedes

    assert superseded("agent") == ("agent",)
    assert superseded("user") == ("user", "agent")
    assert superseded("user", "fact") == ()
