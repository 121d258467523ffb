"""Typed prompts that correct or state a preference, and entries made of statements."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.session import UserStatement
from lorelog.ingest.transcripts.statements import (
    MAX_ASKED_CHARS,
    MAX_CONTEXT_CHARS,
    MAX_STATEMENT_CHARS,
    format_statement,
    last_question,
    recognise_prompt,
    rejection_kind,
)

KINDS = {"c": "correction", "p": "preference", "n": ""}
MIN_PRECISION, MIN_RECALL = 0.95, 0.9


def corpus() -> list[tuple[str, bool, str]]:
    """Return kind, whether it follows an interruption, and text of each labelled prompt."""
    lines = (Path(__file__).parent / "typed_prompts.txt").read_text("utf-8").splitlines()
    pairs = [line.split("\t", 1) for line in lines if not line.startswith("#")]
    return [(KINDS[label[0]], label.endswith("i"), text.replace("\\n", "\n")) for label, text in pairs]


def test_prompts_are_recognised_with_few_errors() -> None:
    """At least 95 of 100 recognised prompts of the corpus are corrections or preferences, and few are missed."""
    labelled = corpus()
    recognised = [(kind, text, recognise_prompt(text, interrupted=after)) for kind, after, text in labelled]
    right = [(kind, found[0]) for kind, _, found in recognised if kind and found]
    wrong = [text for kind, text, found in recognised if found and not kind]

    assert len(labelled) >= 300
    assert sum(not kind for kind, _, _ in labelled) * 2 >= len(labelled)
    assert len(right) / (len(right) + len(wrong)) >= MIN_PRECISION, wrong
    assert len(right) / sum(bool(kind) for kind, _, _ in labelled) >= MIN_RECALL
    assert sum(kind == found for kind, found in right) / len(right) >= MIN_PRECISION


def test_a_short_prompt_is_kept_whole_and_unchanged() -> None:
    """The words of a short correction are those that were typed, with typographic quotes and line breaks."""
    assert recognise_prompt("no, don\u2019t do that\nuse pnpm") == ("correction", "no, don\u2019t do that\nuse pnpm")


def test_only_the_carrying_sentences_of_a_longer_prompt_are_kept() -> None:
    """Of a longer prompt the rule and the sentence after it are kept, not the task around it."""
    task = (
        "The report page is slow for large tenants, the table has a million rows. Look at the query plan and tell me. "
        * 2
    )
    rule = "From now on, write every migration as plain SQL. The ORM hides too much."

    assert recognise_prompt(f"{task}\n\n{rule}\n\n{task}") == ("preference", rule)


def test_a_long_task_description_is_not_typed() -> None:
    """Constraints within a long task are not rules of the user; a rule for the future in it is."""
    task = "Write a service that stores invoices and sends them by mail. " * 12
    constraints = f"{task}\nNever retry twice. Always log the id. Don't use a queue."

    assert recognise_prompt(constraints) is None
    assert recognise_prompt(f"{constraints}\nFrom now on, use uv in this repo.") == (
        "preference",
        "From now on, use uv in this repo.",
    )


def test_injected_context_is_not_a_statement() -> None:
    """Text that programs put in a prompt is not recognised."""
    injected = "<system-reminder>Never use this file.</system-reminder>\nrun the tests"

    assert recognise_prompt(injected) is None
    assert recognise_prompt("<lorelog-memory>no, use pnpm</lorelog-memory>") is None


@pytest.mark.parametrize("words", ["always use the wrapper", "no, from now on ask me", "nunca hagas eso"])
def test_a_rejection_with_a_rule_is_a_preference(words: str) -> None:
    """Words for the future make a rejection a preference."""
    assert rejection_kind(words) == "preference"
    assert rejection_kind("use port 8081") == "correction"


def test_an_entry_has_the_words_first_and_the_context_second() -> None:
    """A statement becomes two bullets, and one if nothing is known about its context."""
    assert format_statement(UserStatement("correction", "use pnpm", "rejected Bash npm i")) == (
        "- use pnpm\n- About: rejected Bash npm i"
    )
    assert format_statement(UserStatement("correction", "use pnpm")) == "- use pnpm"
    assert format_statement(UserStatement("correction", " \n", "x")) == ""


def test_a_secret_is_redacted_before_words_are_cut() -> None:
    """The middle of long words is left out after they are redacted, so that no half of a secret remains."""
    text = "a" * 1380 + " SECRET-TOKEN " + "b" * 2000

    formatted = format_statement(UserStatement("plan", text), lambda words: words.replace("SECRET-TOKEN", "[token]"))

    assert "SECRET" not in formatted
    assert "\n  […]\n" in formatted
    assert len(formatted) <= MAX_STATEMENT_CHARS + 20


def test_code_in_a_plan_does_not_swallow_the_context() -> None:
    """An open fence is closed and headings become bold, so that the entry stays one section of two bullets."""
    text = "# Plan\n\n```sh\n# not a heading\nmake"

    formatted = format_statement(UserStatement("plan", text, "plan approved"))

    assert formatted == "- **Plan**\n\n  ```sh\n  # not a heading\n  make\n  ```\n- About: plan approved"


@given(st.text(max_size=300), st.text(max_size=100))
def test_any_words_make_bullets(words: str, context: str) -> None:
    """Whatever was said, an entry has no comment and no NUL, and the context is its last line."""
    formatted = format_statement(UserStatement("correction", words, context))

    assert "\0" not in formatted
    assert "<!--" not in formatted
    if formatted:
        assert formatted.startswith("- ")
    if formatted and context.replace("\0", "").split():
        assert formatted.splitlines()[-1].startswith("- About: ")
        assert len(formatted.splitlines()[-1]) <= MAX_CONTEXT_CHARS + len("- About: ")


@given(st.text(max_size=400), st.sampled_from([True, False]))
def test_any_prompt_is_survived(text: str, interrupted: object) -> None:
    """A prompt is either not recognised, or gives a known kind and words that were typed."""
    found = recognise_prompt(text, interrupted=interrupted is True)

    if found is not None:
        assert found[0] in {"correction", "preference"}
        assert set(found[1].split()) <= {*text.split(), "…"}


def test_the_last_question_includes_its_options() -> None:
    """Options below a question are kept with it; earlier paragraphs are not."""
    text = "I looked at it.\n\nWhich one do you want for the new installer, now that both have been tried here?\n\n1. pnpm\n2. yarn"

    assert last_question(text) == text.partition("\n\n")[2]
    assert last_question("") == ""
    assert len(last_question("word " * 5000)) <= MAX_ASKED_CHARS
