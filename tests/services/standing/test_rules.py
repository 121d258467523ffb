"""Only lasting rules among the captured corrections are delivered; a newer one replaces the one it contradicts."""

from __future__ import annotations

import pytest

from lorelog.core.memory import NewMemory
from lorelog.services.standing.rules import (
    MAX_RULE_CHARS,
    find_contradicted,
    is_lasting_rule,
    supersede_contradicted,
)

RULE_TYPES = {"correction", "preference"}

RULES = """
no, use pnpm
use pnpm, not npm
No, don't call legacy_frame() any more, polars replaces it.
never run `dvc gc --workspace`, it cost us a day.
do not run the e2e tests unless I ask for them.
use just, not make.
always run the linter before committing
stop adding comments to every function
don't commit without asking
from now on write tests first
I prefer small commits
we use tabs in this repo
No, never edit generated files
bitte pnpm statt npm
immer erst die Tests laufen lassen
please never push to main
don't add emojis to commit messages
remember to update the changelog
we don't use default exports
use the logger instead of print
You must never touch migrations
don't use any in TypeScript
wait, never squash merge commits
prefer composition over inheritance
we should use strong types wherever we can
don't run the slow suites, ever again
""".strip().split("\n")
REMARKS = """
no, the other file
same project and milestone?
what are you doing...??
don't do that yet
never mind, we'll look at it later
no, I did not say commit anything
use the second one instead
use that function instead of this one
let's not make this change in this branch
I want the package to be called harbor-tap instead of harbor-main
we don't need the auto strategy test
wait let's discuss
run the tests first
fix the test, the code is right
no wait, revert those changes
should it always exit with 1?
it's always null there
I meant the header, not the footer
commit
no, ignore this part, back to the changes of yesterday
did we end up putting in a test for bad ids?
the strategy is a trailer on the commit
I want telemetry to be on by default
can you use a switch instead of the if chain?
don't check this in
let's do this as a separate PR
main is clean
why not add a gitignore there?
""".strip().split("\n")


@pytest.mark.parametrize("text", RULES)
def test_a_rule_lasts(text: str) -> None:
    """What says that it lasts, or chooses between ways of working, stands."""
    assert is_lasting_rule(text)


@pytest.mark.parametrize("text", REMARKS)
def test_a_remark_about_the_work_at_hand_does_not_last(text: str) -> None:
    """Questions, and words that point at something in their conversation, are not delivered to others."""
    assert not is_lasting_rule(text)


def test_a_long_text_is_a_task() -> None:
    """An explanation that contains a rule is not a rule."""
    assert not is_lasting_rule("never push to main. " + "x" * MAX_RULE_CHARS)


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
        return supersede_contradicted([memory], standing, RULE_TYPES)[0].supersedes

    assert superseded("agent") == ("agent",)
    assert superseded("user") == ("user", "agent")
    assert superseded("user", "fact") == ()
