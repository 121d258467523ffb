"""The notes of made-up turns keep what matters and leave out noise; properties of the parts that make them."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.ingest.transcripts.made_up_turns import MADE_UP_TURNS, PROJECT, MadeUpTurn

from lorelog.core.session import ToolAction, TurnDigest
from lorelog.ingest.redaction.redact import redact
from lorelog.ingest.transcripts import note_text
from lorelog.ingest.transcripts.statements import MAX_ASKED_CHARS, last_question
from lorelog.ingest.transcripts.turn_note import (
    MAX_OUTCOME_CHARS,
    extract_outcome,
    make_note,
    pick_findings,
    turn_redactor,
)
from lorelog.light.delivery_files import shorten_line

WORDS = st.text(alphabet="abcdefgh .!?:,-—`*'1", max_size=200)
LINES = st.lists(
    st.sampled_from(
        [
            *("```", "```sh", "~~~", "````", "x = 1", "- item", "| a | b |", "# Title", "", "Prose stands here."),
            *("Let me check it.", "Done.", "Now run it:", "Good question.", "---", "The root cause is `x`, not `y`."),
        ]
    ),
    max_size=14,
).map("\n".join)
TEXTS = st.one_of(WORDS, LINES, st.text(max_size=60), st.integers(1, 2000).map("ab |- ".__mul__))


def redact_text(text: str) -> str:
    return redact(text).text


@pytest.mark.parametrize("turn", MADE_UP_TURNS, ids=lambda turn: f"{turn.complaint}: {turn.name}")
def test_a_made_up_turn_keeps_what_matters(turn: MadeUpTurn) -> None:
    """Each known way of losing a result, a question or a secret stays closed."""
    note = make_note(turn.digest, redact_text, "", PROJECT)

    for text in turn.shown:
        assert text in note, note
    for text in turn.hidden:
        assert text not in note, note


@given(before=LINES, code=st.lists(st.sampled_from(["x = 1", "run it", "- a", "# b"]), min_size=1, max_size=3))
def test_prose_after_a_short_code_block_is_never_lost(before: str, code: list[str]) -> None:
    """Whatever stands before: a closed block of few lines takes no prose with it."""
    fenced = "\n".join(["`````sh", *code, "`````"])
    text = f"{before}\n\nSeals rest.\n\n{fenced}\n\nOtters swim.\n\n{fenced}\n\nFerries sail."
    if "```" in before or "~~~" in before or "````" in before:
        text = text.partition("\n\nSeals rest.")[2]
    pieces = [piece for _, piece in note_text.split_pieces(text)]

    assert "Otters swim." in pieces
    assert "Ferries sail." in pieces


@given(text=TEXTS, limit=st.integers(20, 300))
def test_shortened_texts_fit_and_keep_their_ends(text: str, limit: int) -> None:
    """A text within the limit is unchanged; a longer one keeps its start, its end, or both."""
    for shorten in (shorten_line, note_text.shorten_start, note_text.shorten_middle):
        short = shorten(text, limit)
        assert len(short) <= limit
        if len(text) <= limit:
            assert short == text
    if len(text) > limit:
        assert text.endswith(note_text.shorten_start(text, limit).lstrip("…"))
        assert note_text.shorten_middle(text, limit)[-3:] == text[-3:]
        assert "…" in note_text.shorten_middle(text, limit)


@given(pieces=st.lists(st.tuples(st.booleans(), st.text("ab ", min_size=1, max_size=400)), min_size=1, max_size=20))
def test_fitted_pieces_keep_the_first_and_the_last(pieces: list[tuple[bool, str]]) -> None:
    """The middle goes first, order is kept, and the limit holds."""
    head, tail = note_text.fit_pieces(pieces, 500)

    assert sum(len(text) + 4 for _, text in [*head, *tail]) <= 500 + 8
    assert head
    if tail:
        assert pieces[-1][1].endswith(tail[-1][1].lstrip("…"))
        assert len(head) + len(tail) <= len(pieces)
    elif len(pieces) > 1:
        assert head == pieces


@given(texts=st.lists(TEXTS, max_size=4))
@example(texts=["LET ME\r0"])
def test_an_outcome_ends_as_its_text_ends(texts: list[str]) -> None:
    """An outcome is bounded, never a next step alone, and never cut at its end."""
    outcome = extract_outcome(TurnDigest("ask", tuple(texts)))

    assert len(outcome) <= MAX_OUTCOME_CHARS + 100
    assert "\x00" not in outcome
    if outcome:
        assert not all(note_text.is_next_step(line) for line in outcome.splitlines())
    if not any("…" in text for text in texts):
        assert not outcome.endswith("…")


@given(text=TEXTS)
def test_what_is_stripped_was_at_the_ends(text: str) -> None:
    """Stripping takes whole sentences from an end and changes nothing else, and is done after one round."""
    said = note_text.strip_next_steps(text)
    assert "".join(said.split()) == "".join(text.split())[: len("".join(said.split()))]
    assert note_text.strip_next_steps(said) == said


@given(text=TEXTS)
def test_escapes_are_gone_after_one_round(text: str) -> None:
    """Visible text is unchanged; coloured text equals the plain one."""
    plain = note_text.strip_escapes(text)

    assert note_text.strip_escapes(f"\x1b[1;32m{text}\x1b[0m") == plain
    assert "\x1b" not in plain
    assert all(character in "\n\t" or ord(character) >= 32 for character in plain)


@given(text=TEXTS)
def test_findings_are_few_sentences_of_the_text(text: str) -> None:
    """At most two per text, none of them a step or a question, quoted as they stand."""
    found = pick_findings(text)

    assert len(found) <= 2
    flat = " ".join(text.replace("*", "").split())
    for sentence in found:
        assert not note_text.is_next_step(sentence)
        assert not sentence.endswith("?")
        assert sentence.replace("*", "").rstrip("…")[:30] in flat


def test_findings_are_whole_and_not_private() -> None:
    """They are picked before redaction, which must see a whole secret and a whole private passage."""
    sentence = "The root cause is that the password: Zebra-88-lamp was entered into the form of the harbour twice."

    assert pick_findings(f"I see. {sentence} Let me fix it.") == [sentence]
    assert pick_findings(f"The pier. {'Long ' * 60}because of it.") == []
    assert pick_findings(f"<private>\n{sentence}\n</private>") == []
    assert last_question(f"password: {'x' * 1490} is set") == ""


@given(
    asked=TEXTS, request=st.sampled_from(["yes", "2", "Option C", "go on", "1 and 3", "the first", "", "?", "push it"])
)
def test_a_question_is_bounded(asked: str, request: str) -> None:
    """Any text may precede any reply."""
    assert len(note_text.find_question(asked, request)) <= 450
    assert len(last_question(asked * 40)) <= MAX_ASKED_CHARS
    assert "\n" not in make_note(TurnDigest(request or "x", (), asked=asked)).partition("- Ended")[0].strip()


@given(
    secret=st.text("abcdefghijkmnpqrstuvwxyz23456789", min_size=10, max_size=30).map(lambda text: f"Q7{text}x9K"),
    words=st.lists(st.sampled_from(["the", "pier", "said", "no", "(", ")", '"']), max_size=6),
)
def test_a_secret_named_once_is_nowhere_in_the_note(secret: str, words: list[str]) -> None:
    """Also where nothing around it says that it is one."""
    if redact_text(f"password: {secret}") == f"password: {secret}":
        return  # a placeholder by chance
    bare = " ".join([*words, secret, *words])
    digest = TurnDigest(
        bare,
        (f"{bare}. The pier is open and the ferry is on its way to the island.", f"I set password: {secret} there."),
        (
            ToolAction("Bash", (), f"login {secret}", True, f"error: {secret} denied"),
            ToolAction("Write", (f"/x/{secret}",)),
        ),
        asked=f"Is it {secret}?",
        findings=(f"The root cause is that {secret} was entered twice.",),
    )

    assert secret not in make_note(digest, redact_text)
    assert secret not in turn_redactor(digest, redact_text)(f"Again {secret}.")


@pytest.mark.parametrize(
    "text",
    [
        "|-" * 20_000,
        "`" * 30_000,
        "let me " * 9_000,
        "now " * 9_000,
        "there is a " * 4_000,
        "(" * 30_000,
        "-\n" * 9_000,
        "```sh\n" * 9_000,
    ],
)
def test_hostile_texts_take_linear_time(text: str) -> None:
    """No pattern backtracks over a long run: these would take minutes."""
    digest = TurnDigest(text, (text, text), (ToolAction("Bash", (), text[:1000], True, text[:200]),), asked=text)

    assert len(make_note(digest, redact_text, "", PROJECT)) <= 4000
    assert len(pick_findings(text)) <= 2
    assert make_note(TurnDigest("2", (), asked=text)).startswith("- User asked:")
