"""`review.*`: statements are filed, and a person approves or refuses what judges, agents and imports suggest."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.ingest.transcripts.conversations import claude, claude_turn, tool_result, tool_use, write_lines
from tests.surfaces.conftest import Shell

from lorelog import Lorelog
from lorelog.core.errors import LorelogError
from lorelog.operations.review import ItemDecision
from lorelog.surfaces.hook import handle_hook


def decide(memory: Lorelog, identity: str, kind: str, label: str, **more: object) -> ItemDecision:
    """Decide about one item."""
    verdict = {"id": identity, "kind": kind, "label": label, **more}
    return memory.review.decide(verdicts=[verdict]).decisions[0]  # type: ignore[list-item]


def kinds(memory: Lorelog) -> dict[str, str]:
    """Return the kinds of the items by their texts."""
    return {item.text: item.kind for item in memory.review.list().items}


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
        assert memory.review.list(kind="rule").total_count == 1


def test_an_approved_rule_is_the_user_s_own(project: Path) -> None:
    """It is written anew as the user's memory, in the given words, supersedes the proposal, and leaves the inbox."""
    with Lorelog(project=project) as memory:
        rule = proposals(memory)["rule"]
        reply = decide(memory, rule, "rule", "approve", text="Prefer herons to storks and cranes.")
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
            decide(memory, identity, kind, "refuse")
            assert memory.get(identity).deleted_at
        assert kinds(memory) == {}
        memory.restore(identity)
        assert len(kinds(memory)) == 1


def test_an_approved_summary_or_import_stays_as_it_is(project: Path) -> None:
    """Approving takes them out of the inbox and changes nothing else, not even who said so."""
    with Lorelog(project=project) as memory:
        ids = proposals(memory)
        for kind in ("summary", "import"):
            decide(memory, ids[kind], kind, "approve")
        assert list(kinds(memory).values()) == ["rule"]
        kept = memory.get(ids["import"]).memory
        assert kept is not None
        assert kept.chunk.anchor is not None
        assert kept.chunk.anchor.origin == "import"


def write_talk(folder: Path) -> Path:
    """Write a conversation with two prompts, two rejections and an answer."""
    rejection = "Permission for this tool use was denied. The tool use was rejected. The user said:\n"
    question = {"question": "Which wood?", "options": [{"label": "Willow"}, {"label": "Oak"}]}
    stamps = {"timestamp": "2099-03-05T14:30:00.000Z"}
    return write_lines(
        folder / "s.jsonl",
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


def test_a_statement_becomes_a_rule_or_a_decision_or_is_closed(project: Path, tmp_path: Path) -> None:
    """Everything that the user said waits; filed by a person it stands with its source, closed it is not asked about again."""
    talk = write_talk(tmp_path)
    with Lorelog(project=project) as memory:
        memory.capture(host="claude", session="session-1", transcript=str(talk), everything=True)
        waiting = {item.text: item for item in memory.review.list(kind="statement").items}
        assert {text: item.type for text, item in waiting.items()} == {
            "Build a nest": "prompt",
            "Build two more": "prompt",
            "the other nest": "rejection",
            "willow for nests": "rejection",
            "Which wood? → Willow": "answer",
        }
        refused, answer = waiting["the other nest"].id, waiting["Which wood? → Willow"].id
        rule = decide(
            memory,
            waiting["willow for nests"].id,
            "statement",
            "rule",
            text="Nests are of willow.",
            cues=["command=nest"],
        )
        decision = decide(memory, answer, "statement", "decision")
        assert decide(memory, refused, "statement", "remark").outcome == "closed"
        assert memory.get(refused).memory is not None
        assert set(kinds(memory)) == {"Build a nest", "Build two more"}
        filed = memory.get(rule.result).memory
        assert filed is not None
        assert filed.chunk.text.endswith(
            "- Nests are of willow.\n- About: said on 2099-03-05 at a rejection, approved by you: “willow for nests”"
        )
        assert decision.outcome == "filed"
    shown = str(handle_hook(["claude", "session-start"], b'{"session_id": "later"}', os.environ))
    assert "Nests are of willow. (said on 2099-03-05 at a rejection, approved by you)" in shown
    assert "Which wood? → Willow" in shown


def test_every_command_shows_the_same_rules_and_decisions(project: Path, tmp_path: Path, shell: Shell) -> None:
    """Brief, context, handoff, status and session start show what was filed, with its reason, and no unfiled correction; counts agree."""
    with Lorelog(project=project) as memory:
        captured = memory.capture(
            host="claude", session="session-1", transcript=str(write_talk(tmp_path)), everything=True
        )
        ids = {item.text: item.id for item in memory.review.list(kind="statement").items}
        decide(memory, ids["willow for nests"], "statement", "rule")
        decide(memory, ids["Which wood? → Willow"], "statement", "decision")
        rule = "willow for nests (said on 2099-03-05 at a rejection, approved by you)"
        decision = "Which wood? → Willow (said on 2099-03-05 as an answer, approved by you)"
        told = memory.handoff()
        brief = memory.context.brief_project().brief
        context = memory.context.agent_context().text
        status = memory.call("session.status", {})
    assert (told.rules, told.decisions) == (brief.rules, brief.standing_decisions) == ((rule,), (decision,))
    assert rule in shell("brief").out
    for said in (rule, decision):
        words, reason = said[:-1].split(" (")
        assert f"{reason}: {words}\n" in context
    assert "semantic_candidate" not in context
    shown = str(handle_hook(["claude", "session-start"], b'{"session_id": "later"}', os.environ))
    assert (rule in shown, f"decided: {decision}" in shown) == (True, True)
    for text in (told.text, context, shell("brief").out):
        assert "the other nest" not in text
    assert (status["rules"], status["decisions"]) == (1, 1)
    assert [(host["today"], host["statements"]) for host in status["hosts"]] == [(2, captured.statements)]
    assert f"2 turns, {captured.statements} statements" in shell("status").out


_JUDGE = """
import json, sys
prompt = sys.stdin.read()
asked = json.loads(prompt[prompt.rindex('{"rules"'):])
labels = {"willow for nests": "rule", "Which wood? → Willow": "decision"}
print(json.dumps([
    {"n": said["n"], "label": labels.get(said["said"], "instruction"), "wording": said["said"], "cues": ["command=nest"]}
    for said in asked["statements"]
]))
"""


def test_the_judge_of_the_settings_files_what_was_said(project: Path, tmp_path: Path, shell: Shell) -> None:
    """Nobody is asked until review.judge names a model; then rules and decisions are filed, and nothing stays open."""
    with Lorelog(project=project) as memory:
        memory.capture(host="claude", session="session-1", transcript=str(write_talk(tmp_path)), everything=True)
    refused = shell("review", "run")
    assert (refused.status, "no language model may judge" in refused.err) == (2, True)
    (tmp_path / "judge.py").write_text(_JUDGE, "utf-8")
    shell("config", "set", "llm.command", f"{sys.executable} {tmp_path / 'judge.py'}")
    shell("config", "set", "review.judge", "command")

    outcome = shell("review", "run")

    assert outcome.status == 0
    assert "rule: willow for nests  [command=nest]" in outcome.out
    assert "5 statements judged by" in outcome.err + outcome.out
    assert "Nothing waits" in shell("review", "list", "--kind", "statement").out
    assert "filed by" in str(handle_hook(["claude", "session-start"], b'{"session_id": "later"}', os.environ))


def test_a_guard_is_approved_or_refused(project: Path) -> None:
    """A suggested guard is switched on by approving it; one that is refused is not suggested again."""
    with Lorelog(project=project) as memory:
        memory.add("Never use npm.", type="correction")
        memory.add("Never run terraform apply.", type="correction")
        found = {item.conditions: item.id for item in memory.review.list(kind="guard").items}
        decide(memory, found["command 'npm *'"], "guard", "approve", action="block")
        decide(memory, found["command 'terraform apply *'"], "guard", "refuse")
        (guard,) = memory.guard.list().guards
        assert (guard.command, guard.state, guard.action) == ("npm *", "on", "block")
        assert memory.review.list(kind="guard").total_count == 0
        assert memory.guard.list().proposals == ()
        memory.guard.enable(id=found["command 'terraform apply *'"])
        assert len(memory.guard.list().guards) == 2


def test_an_agent_does_not_decide(project: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent can read the inbox, and can neither approve nor refuse."""
    with Lorelog(project=project) as memory:
        rule = proposals(memory)["rule"]
    monkeypatch.setenv("CLAUDECODE", "1")
    assert shell("call", "review.list", "--json", "{}").status == 0
    for label in ("approve", "refuse"):
        verdict = f'{{"verdicts": [{{"id": "{rule}", "kind": "rule", "label": "{label}"}}]}}'
        outcome = shell("call", "review.decide", "--json", verdict)
        assert outcome.status == 2
        assert "cannot decide" in outcome.out


def test_only_an_item_of_that_kind_is_decided(project: Path) -> None:
    """A memory that does not wait, or waits as something else, is not changed by a decision."""
    with Lorelog(project=project) as memory:
        own = memory.add("Otters are counted at dawn.", type="decision").memory
        with pytest.raises(LorelogError):
            decide(memory, own, "rule", "refuse")
        with pytest.raises(LorelogError):
            decide(memory, proposals(memory)["import"], "rule", "approve")
        assert memory.get(own).memory is not None
