"""Generated digests are not remembered, and what a person says always is."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog import Lorelog
from lorelog.core.errors import StoreIncompatible, UsageError
from lorelog.core.memory import AdmissionDecision, AdmissionResult, NewMemory
from lorelog.core.record import DIGEST_MARK
from lorelog.services.memories.add import admit

TODAY = date(2026, 3, 5)
FAKE = {"embedding.provider": "fake"}
DURABLE, EPHEMERAL, REFUSED = AdmissionDecision.DURABLE, AdmissionDecision.EPHEMERAL, AdmissionDecision.REFUSED


def judged(text: str, origin: str = "agent", kind: str = "", *tags: str) -> AdmissionResult:
    """What becomes of a memory that says this."""
    return admit(NewMemory(text, kind, tags, origin), TODAY)


def test_traces_fade_and_priorities_last() -> None:
    """What was run is kept for a month; what someone gave a priority is kept for good; a given day is kept."""
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


def test_a_refusal_writes_nothing_and_a_batch_is_all_or_none(tmp_path: Path) -> None:
    """The error tells why; no journal appears; of a batch with a digest in it nothing is kept."""
    (tmp_path / "app").mkdir()
    with Lorelog(project=tmp_path / "app", settings=FAKE) as memory:
        with pytest.raises(UsageError, match="not remembered: it was compiled"):
            memory.add_batch([{"text": "seven otters"}, {"text": f"{DIGEST_MARK} -->"}])
        assert not (tmp_path / "app" / ".lorelog").exists()
        reply = memory.add("make", type="trace")

    assert reply.admission.decision is EPHEMERAL
    assert f"expires:{reply.admission.expires}" in Path(reply.source).read_text("utf-8")


def test_a_trace_is_registered_as_it_is_written(tmp_path: Path) -> None:
    """A memory that gets an expiry when it is added is the user's own, and the same text is not written twice."""
    with Lorelog(project=tmp_path, home=tmp_path / "home", settings=FAKE) as memory:
        first, again = (memory.add("pytest -q: 3 otters failed", type="trace") for _ in range(2))
        assert (again.memory, again.existed) == (first.memory, True)
        assert memory.search("otters").hits[0].origin == "user"


def test_an_index_of_a_newer_version_does_not_prevent_a_memory(tmp_path: Path) -> None:
    """A memory is written and registered once while the index belongs to a newer lorelog; the reply and `index` say what to do."""
    with Lorelog(project=tmp_path, home=tmp_path / "home", settings=FAKE) as memory:
        memory.add("the first otter")
    catalog = tmp_path / "home" / "cache" / "default" / "catalog.db"
    with closing(sqlite3.connect(catalog)) as database:
        version = database.execute("PRAGMA user_version").fetchone()[0]
        database.execute("PRAGMA user_version = 999")
    with Lorelog(project=tmp_path, home=tmp_path / "home", settings=FAKE) as memory:
        replies = [memory.add("the second otter") for _ in range(2)]
        with pytest.raises(StoreIncompatible) as refused:
            memory.index()
    assert [(reply.existed, reply.searchable) for reply in replies] == [(False, False), (True, False)]
    assert "was written by a newer lorelog" in replies[0].notes[0]
    assert "upgrade lorelog" in refused.value.hint
    assert Path(replies[0].source).read_text("utf-8").count("the second otter") == 1
    with closing(sqlite3.connect(catalog)) as database:
        database.execute(f"PRAGMA user_version = {version}")
    with Lorelog(project=tmp_path, home=tmp_path / "home", settings=FAKE) as memory:
        memory.index()
        assert memory.search("second otter").hits[0].origin == "user"
