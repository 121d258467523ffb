"""Only lasting rules among the captured corrections are delivered to later sessions."""

from __future__ import annotations

import pytest

from lorelog.services.standing.durable import MAX_RULE_CHARS, is_lasting_rule

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
