"""Chatter of agents is not remembered, generated digests never are, and what a person says always is."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog import Lorelog
from lorelog.core.errors import UsageError
from lorelog.core.memory import AdmissionDecision, AdmissionResult, NewMemory
from lorelog.core.record import DIGEST_MARK
from lorelog.services.memories.add import admit

TODAY = date(2026, 3, 5)
FAKE = {"embedding.provider": "fake"}
DURABLE, EPHEMERAL, REFUSED = AdmissionDecision.DURABLE, AdmissionDecision.EPHEMERAL, AdmissionDecision.REFUSED


def judged(text: str, origin: str = "agent", kind: str = "", *tags: str) -> AdmissionResult:
    """What becomes of a memory that says this."""
    return admit(NewMemory(text, kind, tags, origin), TODAY)


CHATTER = [
    "ok",
    "OK!",
    "Done.",
    "Done. Continuing…",
    "ok thanks",
    "Great, thanks! Done continuing now",
    "working on it",
    "Got it, thanks!",
    "✅ All done",
    "Let me check…",
    "  Still working on it...  ",
    "I'm on it",
    "Erledigt, weiter.",
    "好的，继续。",
    "Готово!",
    "- in progress",
]
CONTENT = [
    "ok means the request was accepted, not that it was written",
    "Done is better than perfect: ship on Fridays",
    "Redis",
    "no tabs",
    "Use UTC",
    "yes to GDPR, no to cookies",
    "continue in parser.py",
    "fixed",
    "42",
    "TTL=300",
    "用 Redis",
]


@pytest.mark.parametrize("text", CHATTER)
def test_acknowledgements_are_refused_to_agents_and_fade_for_people(text: str) -> None:
    """An agent's are refused; a person's, and those of a conversation, are kept for two weeks."""
    assert judged(text).decision is judged(text, "tool").decision is REFUSED
    short = AdmissionResult(EPHEMERAL, judged(text).reason, "2026-03-19")
    assert judged(text, "user") == judged(text, "agent", "conversation") == judged(text, "import") == short
    assert judged(text, "agent", "", "kind:message") == short


@pytest.mark.parametrize("text", CONTENT)
def test_a_word_of_content_is_enough(text: str) -> None:
    """What says something, however short, is kept for good from whomever."""
    assert judged(text).decision is judged(text, "user").decision is DURABLE


def test_progress_without_content_is_refused_and_with_it_kept() -> None:
    """A note of progress must say of what."""
    for empty in ("Still working on the next step", "Step 3 of 5 completed, moving on to the last one"):
        assert judged(empty, "agent", "progress").decision is REFUSED
        assert judged(empty, "tool", "", "kind:progress").decision is REFUSED
        assert judged(empty, "user", "progress").decision is EPHEMERAL
        assert judged(empty).decision is DURABLE  # nobody said that it is a note of progress
    assert judged("Step 3: the parser reads tables now", "agent", "progress").decision is DURABLE


def test_traces_fade_and_priorities_last() -> None:
    """What was run is kept for a month; what someone gave a priority is kept for good, chatter too; a given day is kept."""
    trace = AdmissionResult(EPHEMERAL, "a trace of what was run", "2026-04-04")
    assert judged("pytest -q: 3 failed", "tool", "trace") == judged("make", "agent", "", "kind:run") == trace
    assert judged("ok", "agent", "trace", "priority:5").decision is DURABLE
    given = admit(NewMemory("pytest -q", "trace", expires="2027-01-01"), TODAY)
    assert (given.decision, given.expires) == (EPHEMERAL, "2027-01-01")


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        ("Deploys fail on Mondays", REFUSED),
        ("Deploys fail. Agent action: beware", REFUSED),
        ("Deploys fail. Agent action: the weather of the week before last", REFUSED),
        ("Deploys fail on Mondays. Agent action: check the queue before you deploy.", DURABLE),
    ],
)
def test_an_urgent_memory_says_what_to_do(text: str, decision: AdmissionDecision) -> None:
    """From a priority of 8 on an agent's memory needs a sentence of action; below it, and from a person, none."""
    assert judged(text, "agent", "", "priority:8").decision is decision
    assert judged(text, "tool", "", "importance:9").decision is decision
    assert judged(text, "agent", "", "priority:7").decision is DURABLE
    assert judged(text, "user", "", "priority:9").decision is DURABLE


@pytest.mark.parametrize("origin", ["user", "agent", "tool", "import"])
def test_generated_digests_are_refused_from_everyone(origin: str) -> None:
    """Ours by their mark, memd's by their tags or their role; priority or not."""
    ours = f"{DIGEST_MARK} role=brief -->\n# Brief\n\nSeven otters."
    assert judged(ours, origin).decision is judged(ours, origin, "", "priority:5").decision is REFUSED
    assert judged("Seven otters", origin, "", "task:status:generated", "task:role:brief").decision is REFUSED
    assert judged("Seven otters", origin, "", "task:status:generated", "task:digest:x").decision is REFUSED
    assert judged("Artifact role: project_brief\nSeven otters", origin).decision is REFUSED
    assert judged("Seven otters", origin, "", "task:status:generated").decision is DURABLE


def test_people_may_speak_about_digests() -> None:
    """Naming the mark within a text is no digest; an agent that wraps one in words of its own is refused."""
    assert judged(f"A digest begins with `{DIGEST_MARK}`.", "user").decision is DURABLE
    assert judged("The Artifact role: project_brief is compiled at night", "agent").decision is DURABLE
    assert judged(f"Here it is:\n\n> {DIGEST_MARK} -->\n> Seven otters", "agent").decision is REFUSED


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=60)


@given(WORDS, st.sampled_from(["", "trace", "progress", "fact"]))
def test_a_persons_own_words_are_never_refused(text: str, kind: str) -> None:
    """Whatever a person says that is not blank is kept, for a while at least."""
    admission = judged(text, "user", kind)

    assert (admission.decision is REFUSED) == (not text.strip())
    assert (admission.decision is EPHEMERAL) == bool(admission.expires)


@given(WORDS, st.sampled_from(["agent", "tool"]))
def test_one_more_word_of_content_admits(text: str, origin: str) -> None:
    """A text that is refused as chatter is kept once it names something."""
    if judged(text, origin).decision is REFUSED and text.strip():
        assert judged(f"{text} because of Kubernetes", origin).decision is DURABLE


def test_a_refusal_writes_nothing_and_a_batch_is_all_or_none(tmp_path: Path) -> None:
    """The error tells why; no journal appears; of a batch with chatter in it nothing is kept."""
    (tmp_path / "app").mkdir()
    with Lorelog(project=tmp_path / "app", settings=FAKE) as memory:
        with pytest.raises(UsageError, match="not remembered: it acknowledges"):
            memory.call("memory.add", {"text": "Done.", "origin": "agent"})
        with pytest.raises(UsageError, match="not remembered"):
            memory.add_batch([{"text": "seven otters", "origin": "agent"}, {"text": "ok", "origin": "agent"}])
        assert not (tmp_path / "app" / ".lorelog").exists()
        reply = memory.add("ok")

    assert reply.admission.decision is EPHEMERAL
    assert f"expires:{reply.admission.expires}" in Path(reply.source).read_text("utf-8")
