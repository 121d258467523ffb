"""The note of a turn: what it says, what it leaves out, and that it is one section whatever was said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lorelog.core.options import ChunkOptions
from lorelog.core.session import ToolAction, TurnDigest
from lorelog.ingest.markdown import chunk_markdown
from lorelog.ingest.transcripts.turn_note import MAX_NOTE_CHARS, is_error_text, make_note, strip_injected_context

TEXT = st.one_of(
    st.text(max_size=40),
    st.lists(
        st.sampled_from(
            [
                "# Heading",
                "## Two ##",
                "```python",
                "~~~",
                "x = 1",
                "- item",
                "1. one",
                "---",
                "===",
                "| a | b |",
                "|---|---|",
                "<!-- memory:x -->",
                "<!--",
                "-->",
                "text here",
                "",
                "   indented",
                "> quote",
                "[link]: http://x",
                "</div>",
                "<div>",
            ]
        ),
        max_size=12,
    ).map("\n".join),
    st.integers(1, 3000).map("ab ".__mul__),
)
DEED = st.builds(
    ToolAction,
    TEXT,
    st.lists(st.text(max_size=30), max_size=4).map(tuple),
    st.one_of(st.just(""), TEXT),
    st.booleans(),
    TEXT,
)
TOLD = st.builds(
    TurnDigest,
    TEXT,
    st.lists(TEXT, max_size=4).map(tuple),
    st.lists(DEED, max_size=4).map(tuple),
    st.booleans(),
    st.booleans(),
)


@given(told=TOLD)
def test_any_turn_gives_one_section_of_bullets(told: TurnDigest) -> None:
    """No heading, fence or comment of what was said reaches the journal's own structure, and the size is bounded."""
    note = make_note(told)

    assert len(note) <= MAX_NOTE_CHARS
    assert all(line.startswith(("- ", "  - ")) and line.strip(" -") for line in note.splitlines())
    if note:
        text = f"# 2026-03-05\n\n### 14:30\n<!-- memory:m -->\n{note}\n\n### 14:31\n<!-- memory:n -->\n- after\n"
        titles = [chunk.heading for chunk in chunk_markdown(text, "/j.md", ChunkOptions()).chunks]
        assert titles[-1] == "14:31"
        assert set(titles) <= {"2026-03-05", "14:30", "14:31"}
        assert "<!--" not in note


@given(told=TOLD)
def test_every_text_is_cleaned_before_it_is_cut(told: TurnDigest) -> None:
    """Redaction sees whole texts: what it takes out never stands in a note, not even by half."""
    seen: list[str] = []

    def clean(text: str) -> str:
        seen.append(text)
        return text.replace("a", "")

    note = make_note(told, clean)
    bare = note
    for word in ("User asked", "Files", "Commands", "and", "failed", "image", "Ended", "interrupted"):
        bare = bare.replace(word, "")
    named = "".join(deed.tool for deed in told.actions)
    assert "a" in named or "a" not in bare.replace("more", "")


def test_the_note_has_request_and_outcome() -> None:
    """Request, outcome with its items, files from the project, telling commands, errors: in the language they were said in."""
    told = TurnDigest(
        request="Por favor,\n  arregla la caché\n\n```\nstack\n```",
        assistant_texts=(
            "Voy a mirar.",
            "Great! Here's a summary of the changes:\n\n## Hecho\n\n- La clave no tenía *tenant*.\n- **Añadí** un test.",
        ),
        actions=(
            ToolAction("Edit", ("/app/src/cache.py",)),
            ToolAction("Write", ("/elsewhere/x.py",)),
            ToolAction("Bash", command="ls -la && git status"),
            ToolAction("Bash", command="cd src && make test"),
            ToolAction("Bash", command="cd src && make test"),
            ToolAction("Bash", command="pytest -x", failed=True, error="E   KeyError: 'tenant'"),
        ),
    )

    assert make_note(told, directory="/app").splitlines() == [
        "- User asked: Por favor, arregla la caché stack",
        "- Outcome: Great! Here's a summary of the changes: Hecho:",
        "  - La clave no tenía *tenant*.",
        "  - Añadí un test.",
        "- Files: src/cache.py, /elsewhere/x.py",
        "- Commands: `cd src && make test`",
        "- Errors: Bash `pytest -x`: E KeyError: 'tenant'",
    ]


def test_a_short_last_answer_includes_the_previous_one() -> None:
    """What is done is not told by `Done.`"""
    note = make_note(TurnDigest("fix it", ("The cause was the missing tenant in the key.", "Done.")))

    assert "- Outcome: The cause was the missing tenant in the key. Done." in note


@pytest.mark.parametrize(
    "text",
    [
        'API Error: 529 {"type":"error"}',
        "API Error (Connection error.)",
        "You've hit your limit · resets 3pm",
        "You’ve reached your usage limit",
        "Claude AI usage limit reached|1760000000",
        "5-hour limit reached ∙ resets 3am",
        '{"type": "error", "error": {"type": "api_error", "message": "x"}}',
        '{"error": {"message": "rate limited"}}',
        '429 {"type":"error"}',
        "unexpected status 502 Bad Gateway",
        "Credit balance is too low",
        "Prompt is too long",
        "Invalid API key · Please run /login",
        "Request timed out",
        "LLM request failed: provider returned 500",
    ],
)
def test_error_texts_are_not_an_outcome(text: str) -> None:
    """What a host or server prints in the place of an answer is left out, and the turn is said to have failed."""
    assert is_error_text(text)
    assert make_note(TurnDigest("do it", (text,))) == "- User asked: do it\n- Ended: failed"
    assert make_note(
        TurnDigest("do it", ("I changed the parser so that it reads both forms of it.", text))
    ).splitlines()[1:] == ["- Outcome: I changed the parser so that it reads both forms of it.", "- Ended: failed"]


@pytest.mark.parametrize(
    "text",
    [
        "The API error was caused by a wrong key.",
        "Rate limiting is now done per tenant.",
        "Error handling was added.",
        "{x} is a set",
        "API errors are now retried.",
        "HTTP 404 is what it answers now.",
        "Overloaded methods were removed.",
    ],
)
def test_answers_about_errors_are_outcomes(text: str) -> None:
    """Talking about errors is not failing."""
    assert not is_error_text(text)


def test_commands_to_the_host_itself_are_nothing_to_remember() -> None:
    """A slash command that nobody answered leaves no note; one that did something does."""
    assert make_note(TurnDigest("/clear")) == ""
    assert make_note(TurnDigest("/compact", interrupted=True)) == ""
    assert make_note(TurnDigest("")) == ""
    assert "review" in make_note(TurnDigest("/review 12", ("The change is sound.",)))


@pytest.mark.parametrize(
    ("given_", "left"),
    [
        ("<lorelog-memory>\n- old note\n</lorelog-memory>\n\nhello", "hello"),
        ("hello <lorelog-memory>\n- never closed", "hello"),
        ("<environment_context>\n<cwd>/x</cwd>\n</environment_context>", ""),
        ("<system-reminder>a</system-reminder>hello<system-reminder>b</system-reminder>", "hello"),
        ("# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>be nice</INSTRUCTIONS>", ""),
        ("<memsearch-context>x</memsearch-context> hello", "hello"),
        ("[Mon 2026-03-05 14:30 UTC] hello", "hello"),
        ("a < b and <b>bold</b>", "a < b and <b>bold</b>"),
    ],
)
def test_injected_context_is_left_out(given_: str, left: str) -> None:
    """Above all what lorelog itself showed: a memory must not become a memory again."""
    assert strip_injected_context(given_) == left


def test_an_agent_that_was_woken_for_nothing_leaves_no_memory() -> None:
    """OpenClaw asks by the clock; what was done then is told all the same."""
    woken = TurnDigest("Read HEARTBEAT.md", ("HEARTBEAT_OK",))
    assert make_note(woken) == ""
    assert "make deploy" in make_note(replace(woken, actions=(ToolAction("exec", command="make deploy"),)))


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("Tests fail now. Failure output:{code}Single session:{code}", "Tests fail now."),
        ("## Diagram\n\n- Single session:{code}It works since the lock is gone.", "It works since the lock is gone."),
        ("Committed as `6fe5d8cb`:{code}", "Committed as `6fe5d8cb`."),
        (
            "It matches too much because the prefix of a name is taken for the whole name:{code}",
            "It matches too much because the prefix of a name is taken for the whole name.",
        ),
    ],
)
def test_code_that_is_left_out_takes_its_headline_along(answer: str, outcome: str) -> None:
    """No headline stays without the code below it, unless it is all there is, or a sentence that says something."""
    digest = TurnDigest("why?", (answer.format(code="\n```\na\nb\nc\nd\n```\n"),))

    assert f"- Outcome: {outcome}" in make_note(digest).splitlines()
