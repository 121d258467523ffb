"""Recall returns relevant memories for a prompt, short, once per session, and none of the session's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from lorelog import Lorelog
from lorelog.core.errors import UsageError
from lorelog.light.delivery_files import late_answer
from lorelog.light.delivery_log import append_delivery
from lorelog.services.sessions.recall import RecalledMemory, UserPrompt, recall_memories
from lorelog.wiring import open_engine, resolve_location

JOURNAL = """# 2026-03-05

### 09:00
<!-- memory:01a1dd23-0000-7000-8000-000000000001 session:mine turn:t transcript:x.jsonl -->
- User asked for an otter in the river

### 10:00
<!-- memory:01a1dd23-0000-7000-8000-000000000002 session:theirs turn:t transcript:x.jsonl -->
- User asked where the otter sleeps: in the holt

### 11:00
<!-- memory:01a1dd23-0000-7000-8000-000000000003 type:decision -->
- The otter is fed at noon
"""


@pytest.fixture
def memory(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An indexed project with a journal and a document about otters."""
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "fake")
    project = tmp_path / "app"
    (project / "notes").mkdir(parents=True)
    (project / "notes" / "2026-03-05.md").write_text(JOURNAL, "utf-8")
    (project / "notes" / "guide.md").write_text("# Guide\n\nAn otter " + "swims and dives. " * 60 + "\n", "utf-8")
    with Lorelog(project=project) as opened:
        opened.index([project / "notes"])
    return project


def recalled(project: Path, session: str = "s", prompt: str = "the otter", **more: Any) -> tuple[RecalledMemory, ...]:
    """Recall in a separate process, so that only stored state is shared."""
    with open_engine(resolve_location(project=project)) as engine:
        options = replace(
            engine.defaults.search,
            k=more.get("k", 10),
            min_relevance=more.get("min_relevance", 0.0),
            token_budget=more.get("token_budget", 2_000),
        )
        given = UserPrompt(more.get("host", "claude"), session, prompt)
        return recall_memories(given, options, engine.recall_sources())


def texts(hits: tuple[RecalledMemory, ...]) -> str:
    return "\n".join(hit.text for hit in hits)


def shown(project: Path, home: Path, **more: Any) -> tuple[RecalledMemory, ...]:
    """Recall and log the delivery, as a hook does."""
    hits = recalled(project, **more)
    memories = [hit.memory for hit in hits]
    folder, host = str(home / "data" / "default" / "deliveries"), more.get("host", "claude")
    append_delivery(
        folder, host, more.get("session", "s"), {"moment": "prompt", "kind": "recall", "memories": memories}
    )
    return hits


def test_a_memory_is_shown_once_in_a_session(memory: Path, home: Path) -> None:
    """What the session's log has does not come again; sessions of other hosts with the same name are separate."""
    assert len(shown(memory, home)) == 4
    assert shown(memory, home) == ()
    assert shown(memory, home, prompt="where does the otter sleep") == ()
    assert len(shown(memory, home, session="other")) == 4
    assert len(shown(memory, home, host="codex")) == 4


def test_what_was_left_out_comes_the_next_time(memory: Path, home: Path) -> None:
    """With one memory at a time, each prompt brings another one until there are no more."""
    seen = [shown(memory, home, k=1) for _ in range(6)]

    assert [len(item) for item in seen] == [1, 1, 1, 1, 0, 0]
    assert len({hits[0].id for hits in seen if hits}) == 4


def test_a_memory_that_moved_is_the_same_memory(memory: Path, home: Path) -> None:
    """Lines inserted above a memory do not make it new to the session."""
    shown(memory, home)
    journal = memory / "notes" / "2026-03-05.md"
    journal.write_text(JOURNAL.replace("### 09:00", "### 08:00\nA heron.\n\n### 09:00"), "utf-8")
    with Lorelog(project=memory) as opened:
        opened.index()

    assert "otter" not in texts(recalled(memory))


def test_a_session_is_not_told_what_it_said(memory: Path) -> None:
    """Entries of the session's own turns are omitted."""
    shown = texts(recalled(memory, session="mine"))

    assert "river" not in shown
    assert "holt" in shown


def test_memories_are_short_and_hold_no_anchor(memory: Path) -> None:
    """A memory is one line without the heading and the anchor of its entry, with its date and its file below the project."""
    for hit in recalled(memory):
        assert "\n" not in hit.text
        assert "<!--" not in hit.text
        assert "memory:" not in hit.text
        assert not hit.text.startswith("###")
        assert (memory / hit.source).is_file()
        assert hit.id
    assert {hit.date[:10] for hit in recalled(memory, session="d")} >= {"2026-03-05"}


def test_settings_say_how_many_and_how_likely(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """session.hits and session.hits_relevance are the defaults."""
    monkeypatch.setenv("LORELOG_SESSION_HITS", "2")
    monkeypatch.setenv("LORELOG_SESSION_HITS_RELEVANCE", "0")
    with Lorelog(project=memory) as opened:
        assert len(opened.recall("the otter", session="s")) == 2
    monkeypatch.setenv("LORELOG_SESSION_HITS_RELEVANCE", "1")
    with Lorelog(project=memory) as opened:
        assert not opened.recall("the otter", session="s")


def test_a_budget_for_searches_is_not_one_for_prompts(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """search.token_budget does not apply to recall."""
    monkeypatch.setenv("LORELOG_SEARCH_TOKEN_BUDGET", "20")

    assert len(recalled(memory)) == 4


TURNS = """
### 12:00
<!-- memory:01a1dd23-0000-7000-8000-0000000000a1 session:theirs turn:t1 transcript:x.jsonl type:turn -->
- User asked: how does metadata.json look today, and which trailer names it?
- Outcome: It has the session's id, and the commit has the trailer Otter-Checkpoint.

### 12:01
<!-- memory:01a1dd23-0000-7000-8000-0000000000a2 session:theirs turn:t1 transcript:x.jsonl type:decision -->
- metadata.json is named in a trailer

### 12:02
<!-- memory:01a1dd23-0000-7000-8000-0000000000a3 session:theirs turn:t2 transcript:x.jsonl type:turn -->
- User asked: print the otter_count of the river

### 12:03
<!-- memory:01a1dd23-0000-7000-8000-0000000000a4 session:theirs turn:t3 transcript:x.jsonl type:turn -->
- User asked: commit this, yes please
- Outcome: Committed as b67cccf.
"""


PROMPTS = {
    "which trailer of the checkpoint names the session's metadata.json?": 1,  # with what was said in that turn
    "# Plan for metadata.json\nwhich trailer of the checkpoint names the session?": 0,
    "add the agent to metadata.json and to the trailer": 0,  # two of its words, not four
    "can you add this to metadata.json?": 0,  # the name alone
    "print the otter_count of the river once more": 0,  # it was asked before, and that is all
    "read config.toml and tell me about the weather": 0,  # a name in most entries
    "commit this": 0,
    "yes please": 0,
    "Let's implement this.": 0,
    "  \n ": 0,
    "_ and ___!?": 0,
}


def test_a_prompt_brings_what_names_the_same_rare_thing(memory: Path, home: Path) -> None:
    """A memory comes if a name that few entries have, and three more rare words, stand in it and in the prompt."""
    others = "".join(
        f"\n### 13:{n % 60:02}\n- config.toml was read; weather of day {n}, {'abcdefghij'[n % 10] * 5}\n"
        for n in range(90)
    )
    (memory / "notes" / "2026-03-06.md").write_text(f"# 2026-03-06\n{TURNS}{others}", "utf-8")
    with Lorelog(project=memory) as opened:
        opened.index()
        assert {prompt: len(opened.recall(prompt, session=prompt)) for prompt in PROMPTS} == PROMPTS
    # The answer is left for the session's next hook, if this one no longer waits.
    left = {prompt: Path(late_answer(str(home / "data" / "default"), "", prompt)).exists() for prompt in PROMPTS}
    assert left == PROMPTS


def test_an_unlikely_threshold_is_refused(memory: Path) -> None:
    """A threshold that is not a probability is an error."""
    with Lorelog(project=memory) as opened, pytest.raises(UsageError):
        opened.recall("the otter", min_relevance=1.5)
