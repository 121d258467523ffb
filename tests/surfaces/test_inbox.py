"""`delivery.inbox`: a person approves or refuses what agents, imports and conversations suggest."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ingest.transcripts.conversations import claude, claude_turn, tool_result, tool_use, write_lines
from tests.surfaces.conftest import Shell

from lorelog import Lorelog
from lorelog.core.errors import LorelogError


def kinds(memory: Lorelog) -> dict[str, str]:
    """Return the kinds of the items by their texts."""
    return {item.text: item.kind for item in memory.delivery.inbox().items}


def proposals(memory: Lorelog) -> dict[str, str]:
    """Add what may be proposed, and return the ids."""
    return {
        "rule": memory.add("Prefer herons to storks.", type="preference", origin="agent").memory,
        "import": memory.add("The mill burnt down in 1911.", type="fact", origin="import").memory,
        "summary": memory.add("Much was built.", type="summary", origin="agent").memory,
    }


def test_the_inbox_lists_what_is_not_the_user_s_word(project: Path) -> None:
    """Rules of agents, imports and summaries wait; the user's own memories and an agent's facts do not."""
    with Lorelog(project=project) as memory:
        proposals(memory)
        memory.add("Otters are counted at dawn.", type="decision")
        memory.add("The river is cold.", type="fact", origin="agent")
        waiting = {
            "Prefer herons to storks.": "rule",
            "The mill burnt down in 1911.": "import",
            "Much was built.": "summary",
        }
        assert kinds(memory) == waiting
        assert memory.delivery.inbox(kind="rule").total_count == 1


def test_an_approved_rule_is_the_user_s_own(project: Path) -> None:
    """It is written anew as the user's memory, in the given words, supersedes the proposal, and leaves the inbox."""
    with Lorelog(project=project) as memory:
        rule = proposals(memory)["rule"]
        reply = memory.delivery.approve(id=rule, kind="rule", text="Prefer herons to storks and cranes.")
        new, old = memory.get(reply.result), memory.get(rule)
        assert new.memory is not None
        assert (new.memory.chunk.type, new.memory.chunk.anchor and new.memory.chunk.anchor.origin) == (
            "preference",
            "user",
        )
        assert "and cranes" in new.memory.chunk.text
        assert old.lifecycle.superseded_by == reply.result
        assert "rule" not in kinds(memory).values()
        memory.delete(reply.result)
        assert kinds(memory)["Prefer herons to storks."] == "rule"


def test_a_refused_proposal_is_deleted_and_can_be_restored(project: Path) -> None:
    """Refusing hides the memory; restoring it brings it back to the inbox."""
    with Lorelog(project=project) as memory:
        for kind, identity in proposals(memory).items():
            memory.delivery.refuse(id=identity, kind=kind)  # type: ignore[arg-type]
            assert memory.get(identity).deleted_at
        assert kinds(memory) == {}
        memory.restore(identity)
        assert len(kinds(memory)) == 1


def test_an_approved_summary_or_import_stays_as_it_is(project: Path) -> None:
    """Approving takes them out of the inbox and changes nothing else, not even who said so."""
    with Lorelog(project=project) as memory:
        ids = proposals(memory)
        for kind in ("summary", "import"):
            memory.delivery.approve(id=ids[kind], kind=kind)
        assert list(kinds(memory).values()) == ["rule"]
        kept = memory.get(ids["import"]).memory
        assert kept is not None
        assert kept.chunk.anchor is not None
        assert kept.chunk.anchor.origin == "import"


def test_a_remark_or_an_answer_becomes_a_rule_or_stays(project: Path, tmp_path: Path) -> None:
    """Words at a rejection and answers wait; approved they stand, refused they are not asked about again."""
    rejection = "Permission for this tool use was denied. The tool use was rejected. The user said:\n"
    question = {"question": "Which wood?", "options": [{"label": "Willow"}, {"label": "Oak"}]}
    stamps = {"timestamp": "2099-03-05T14:30:00.000Z"}
    talk = write_lines(
        tmp_path / "s.jsonl",
        [
            *claude_turn("u1", "Build a nest", "Built of reed.", **stamps),
            claude("user", "u2", "Build two more", **stamps),
            claude("assistant", "a2", [tool_use("t1", "Bash", command="nest"), tool_use("t2", "Bash", command="oak")]),
            claude("user", "r1", [tool_result("t1", rejection + "the other nest", is_error=True)]),
            claude("user", "r2", [tool_result("t2", rejection + "willow for nests", is_error=True)]),
            claude("assistant", "a3", [tool_use("t3", "AskUserQuestion", questions=[question])]),
            claude("user", "r3", [tool_result("t3", "x")], toolUseResult={"answers": {"Which wood?": "Willow"}}),
            claude("assistant", "a4", [{"type": "text", "text": "Done."}]),
        ],
    )
    with Lorelog(project=project) as memory:
        memory.capture(host="claude", session="session-1", transcript=str(talk), everything=True)
        waiting = {item.text: item for item in memory.delivery.inbox().items}
        assert {text: item.kind for text, item in waiting.items()} == {
            "the other nest": "correction",
            "willow for nests": "correction",
            "Which wood? → Willow": "decision",
        }
        refused, answer = waiting["the other nest"].id, waiting["Which wood? → Willow"].id
        memory.delivery.refuse(id=refused, kind="correction")
        memory.delivery.approve(id=waiting["willow for nests"].id, kind="correction", text="Nests are of willow.")
        memory.delivery.approve(id=answer, kind="decision")
        assert memory.get(refused).memory is not None
        assert memory.delivery.inbox().total_count == 0
        assert memory.get(answer).lifecycle.superseded_by


def test_a_guard_is_approved_or_refused(project: Path) -> None:
    """A suggested guard is switched on by approving it; one that is refused is not suggested again."""
    with Lorelog(project=project) as memory:
        memory.add("Never use npm.", type="correction")
        memory.add("Never run terraform apply.", type="correction")
        found = {item.conditions: item.id for item in memory.delivery.inbox(kind="guard").items}
        memory.delivery.approve(id=found["command 'npm *'"], kind="guard", action="block")
        memory.delivery.refuse(id=found["command 'terraform apply *'"], kind="guard")
        (guard,) = memory.guard.list().guards
        assert (guard.command, guard.state, guard.action) == ("npm *", "on", "block")
        assert memory.delivery.inbox(kind="guard").total_count == 0
        assert memory.guard.propose().proposals == ()
        memory.guard.enable(id=found["command 'terraform apply *'"])
        assert len(memory.guard.list().guards) == 2


def test_an_agent_does_not_decide(project: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent can read the inbox, and can neither approve nor refuse."""
    with Lorelog(project=project) as memory:
        rule = proposals(memory)["rule"]
    monkeypatch.setenv("CLAUDECODE", "1")
    assert shell("call", "delivery.inbox", "--json", "{}").status == 0
    for verb in ("approve", "refuse"):
        outcome = shell("call", f"delivery.{verb}", "--json", f'{{"id": "{rule}", "kind": "rule"}}')
        assert outcome.status == 2
        assert "cannot decide" in outcome.out


def test_only_an_item_of_that_kind_is_decided(project: Path) -> None:
    """A memory that does not wait, or waits as something else, is not changed by a decision."""
    with Lorelog(project=project) as memory:
        own = memory.add("Otters are counted at dawn.", type="decision").memory
        with pytest.raises(LorelogError):
            memory.delivery.refuse(id=own, kind="rule")
        with pytest.raises(LorelogError):
            memory.delivery.approve(id=proposals(memory)["import"], kind="rule")
        assert memory.get(own).memory is not None
