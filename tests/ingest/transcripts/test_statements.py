"""Typed sentences that certainly state a rule, and entries made of statements."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.session import UserStatement
from lorelog.ingest.transcripts.statements import (
    MAX_ASKED_CHARS,
    MAX_CONTEXT_CHARS,
    MAX_PROMPT_CHARS,
    MAX_STATEMENT_CHARS,
    certain_rules,
    format_statement,
    last_question,
)


@pytest.mark.parametrize(
    ("prompt", "rules"),
    [
        ("Remember that releases are cut from main.", ["Remember that releases are cut from main."]),
        ("please remember to run the linter", ["please remember to run the linter"]),
        ("remember: staging is read-only", ["remember: staging is read-only"]),
        ("Fix the login page. From now on, use `uv` in this repo.", ["From now on, use `uv` in this repo."]),
        ("thanks\ngoing forward, write migrations as plain SQL", ["going forward, write migrations as plain SQL"]),
        ("never push to main from now on!", ["never push to main from now on!"]),
        ("don\u2019t use npm from now on", ["don't use npm from now on"]),
        ("Ab jetzt nur noch pnpm benutzen", ["Ab jetzt nur noch pnpm benutzen"]),
        ("Désormais, écris les tests en anglais.", ["Désormais, écris les tests en anglais."]),
        ("recuerda que usamos pnpm", ["recuerda que usamos pnpm"]),
        ("请记住：使用 pnpm 安装依赖", ["请记住：使用 pnpm 安装依赖"]),
    ],
)
def test_explicit_rules_are_certain(prompt: str, rules: list[str]) -> None:
    """A sentence that begins with a request to remember, or with a rule for the future, is kept, and no other."""
    assert list(certain_rules(prompt)) == rules


@pytest.mark.parametrize(
    "prompt",
    [
        "no, use pnpm",
        "always run the tests",
        "never run the integration suite here, it is too slow",
        "remember that bug we had?",
        "from now on do it like that",
        "Remember to fix this in the other file.",
        "and remember to use pagination",
        "do you remember that releases are cut from main",
        "> from now on use uv",
        "```\nfrom now on use uv\n```",
        "    from now on use uv",
        'the message says "from now on use uv"',
        "从现在开始这样做就可以了",
        "From now on, use uv everywhere. " + "Write a service that stores invoices. " * (MAX_PROMPT_CHARS // 30),
    ],
)
def test_anything_else_is_not_a_certain_rule(prompt: str) -> None:
    """Corrections, questions, quotes, long tasks, and sentences that point at the conversation are not judged by words."""
    assert certain_rules(prompt) == ()


@given(st.text(max_size=400))
def test_any_text_is_survived(text: str) -> None:
    """A certain rule has only words that were typed."""
    words = text.replace("\u2019", "'").split()
    assert all(word in " ".join(words) for rule in certain_rules(f"from now on {text}") for word in rule.split()[3:])


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


def test_the_last_question_includes_its_options() -> None:
    """Options below a question are kept with it; earlier paragraphs are not."""
    text = "I looked at it.\n\nWhich one do you want for the new installer, now that both have been tried here?\n\n1. pnpm\n2. yarn"

    assert last_question(text) == text.partition("\n\n")[2]
    assert last_question("") == ""
    assert len(last_question("word " * 5000)) <= MAX_ASKED_CHARS
