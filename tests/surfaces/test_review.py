"""`review.*`: statements are filed, and a person approves or refuses what judges, agents and imports suggest."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest
from tests.ingest.transcripts.conversations import claude, claude_turn, tool_result, tool_use, write_lines
from tests.surfaces.conftest import Shell

from lorelog import Lorelog
from lorelog.core.errors import LorelogError
from lorelog.core.ports import Completion
from lorelog.operations.review import ItemDecision
from lorelog.services.review.judge import GUIDE, Judge, Verdict
from lorelog.services.standing.rules import RuleBalance, save_balances
from lorelog.surfaces.hook import handle_hook


def decide(memory: Lorelog, identity: str, kind: str, label: str, **more: object) -> ItemDecision:
    verdict = {"id": identity, "kind": kind, "label": label, **more}
    return memory.review.decide(verdicts=[verdict]).decisions[0]  # type: ignore[list-item]


def kinds(memory: Lorelog) -> dict[str, str]:
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
    """Everything that the user said waits; filed by a person it stands with its source, and is retired with it; closed it is not asked about again."""
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
        asked = memory.list(types=["correction"])
        assert (len(asked), asked.notes) == (0, ("statements that nobody filed are left out: lorelog review",))
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
        assert [listed.chunk.memory for listed in memory.list(types=["preference", "correction"])] == [rule.result]
        assert set(kinds(memory)) == {"Build a nest", "Build two more"}
        filed = memory.get(rule.result).memory
        assert filed is not None
        assert filed.chunk.text.endswith(
            "- Nests are of willow.\n- About: said on 2099-03-05 at a rejection, approved by you: “willow for nests”"
        )
        assert decision.outcome == "filed"
        newer = memory.supersede(decision.result, "Nests are of oak wood.")
        found = {hit.anchor.memory for hit in memory.search("which wood").hits if hit.anchor}
        assert newer.memory in found
        assert found.isdisjoint({answer, decision.result})
        memory.delete(newer.memory)
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
    assert context.count("willow for nests") == context.count("Which wood?") == 1
    shown = str(handle_hook(["claude", "session-start"], b'{"session_id": "later"}', os.environ))
    assert (rule in shown, f"decided: {decision}" in shown) == (True, True)
    for text in (told.text, context, shell("brief").out):
        assert "the other nest" not in text
    assert (status["rules"], status["decisions"]) == (1, 1)
    assert [(host["today"], host["statements"]) for host in status["hosts"]] == [(2, captured.statements)]
    assert f"2 turns, {captured.statements} statements" in shell("status").out


def test_who_contradicts_himself_daily_is_taken_by_his_last_word(project: Path, tmp_path: Path) -> None:
    """The newest rule stands, whatever the order of reviews; each older one is retired once, and found by search only as the newest."""
    days = [f"2099-03-0{day}T14:30:00.000Z" for day in range(1, 6)]
    words = ["British spelling", "American spelling"]
    prompts = [f"Nests have {words[day % 2]}, decision {day}" for day in range(5)]
    turns = [turn for day in range(5) for turn in claude_turn(f"u{day}", prompts[day], "Ok.", timestamp=days[day])]
    talk = write_lines(tmp_path / "s.jsonl", turns)
    with Lorelog(project=project) as memory:
        memory.capture(host="claude", session="s", transcript=str(talk), everything=True)
        reviewer = memory._caller.engine.reviewer(os.environ)
        said = {item.text: item for item in reviewer.statements(None, 10)}
        for day in (1, 0, 2, 4, 3):
            rules = reviewer.rules()
            verdict = Verdict(n=1, label="rule", wording=prompts[day], replaces=tuple(range(1, len(rules) + 1)))
            reviewer.filing("claude/haiku").file([said[prompts[day]]], {said[prompts[day]].id: verdict}, rules)
        outcomes = [reviewer.log.entries()[said[prompt].id] for prompt in prompts]
        assert [entry.outcome for entry in outcomes] == ["closed", "filed", "filed", "closed", "filed"]
        assert [rule.text for rule in reviewer.rules()] == [prompts[4]]
        assert [entry.replaces for entry in outcomes if entry.replaces] == [
            (outcomes[1].memory,),
            (outcomes[2].memory,),
        ]
        reply = memory.search("American spelling", types=["preference"])
    (hit,) = reply.hits
    assert hit.anchor is not None
    assert hit.anchor.memory == outcomes[4].memory
    assert hit.score == pytest.approx(sum(part.value for part in hit.explanation.parts))
    assert any("replaces an older one of" in note for note in reply.notes)


@pytest.mark.parametrize("cues", [[], ["event=e2e-test"], ["command=mise run test:integration"], ["topic=slow tests"]])
def test_a_prohibition_that_was_mostly_not_opposed_waits(project: Path, tmp_path: Path, cues: list[str]) -> None:
    """A judge's prohibition is replayed over the calls that its cues name, or like the rejected one, and waits with the figures."""
    lines = []
    for number in range(4):
        rejected = (
            "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was "
            "NOT written to the file). To tell you how to proceed, the user said:\ndon't run CI, too slow"
        ) * (number == 3)
        call = tool_use(
            f"t{number}", "Bash", command="mise run test:integration 2>&1" if number else "npx playwright test"
        )
        lines += [
            claude("user", f"u{number}", f"Build nest {number}", timestamp="2099-03-05T14:30:00.000Z"),
            claude("assistant", f"a{number}", [call]),
            claude("user", f"r{number}", [tool_result(f"t{number}", rejected or "ok", is_error=bool(rejected))]),
            claude("assistant", f"b{number}", [{"type": "text", "text": "Done."}]),
        ]
    folder = Path.home() / ".claude" / "projects" / "app"
    folder.mkdir(parents=True)
    talk = write_lines(folder / "s.jsonl", lines)
    with Lorelog(project=project) as memory:
        memory.capture(host="claude", session="s", transcript=str(talk), everything=True)
        reviewer = memory._caller.engine.reviewer(os.environ)
        (said,) = [said for said in reviewer.statements(None, 10) if said.channel == "rejection"]
        verdict = Verdict(n=1, label="rule", wording=said.text, cues=tuple(cues), forbids=True)
        (entry,) = reviewer.filing("claude/haiku").file([said], {said.id: verdict}, [])
        (item,) = memory.review.list(kind="proposal").items
    count = 4 if cues == ["event=e2e-test"] else 3
    assert (entry.outcome, entry.reason) == ("waiting", f"{count} past calls match it, and you opposed 1")
    assert entry.reason in item.about


def test_what_was_said_in_two_sessions_is_proposed_and_a_third_time_raises_its_number(
    project: Path, tmp_path: Path
) -> None:
    """Instructions of several sessions that mean the same wait as one rule with their days and words, and are a wall; approved, it stands."""

    def answer(purpose: str, system: str, text: str, max_tokens: int, **_: object) -> Completion:
        said = json.loads(text)["statements"]
        found = [item["n"] for item in said if "reeds" in item["said"]]
        entries = [{"n": number, "label": "rule"} for number in found]
        if any("new" in item for item in said):
            entries = [{**entry, "again": found, "wording": "Count the reeds too."} for entry in entries[:1]]
        elif len(said) > 1 or not json.loads(text)["rules"]:
            entries = [{"n": item["n"], "label": "instruction"} for item in said]
        return Completion(json.dumps(entries))

    with Lorelog(project=project) as memory:
        for day, prompt in enumerate(("Build it, and count reeds", "Count the reeds too", "also the reeds"), 1):
            turn = claude_turn("u", prompt, "Done.", timestamp=f"2099-03-0{day}T14:30:00.000Z")
            talk = write_lines(tmp_path / f"s{day}.jsonl", turn)
            memory.capture(host="claude", session=f"s{day}", transcript=str(talk), everything=True)
            reviewer = memory._caller.engine.reviewer(os.environ)
            reviewer.run(Judge(answer), "claude/haiku", reviewer.statements(None, 10))
        (item,) = memory.review.list(kind="proposal").items
        assert (item.text, item.sessions) == ("Count the reeds too.", 3)
        (wall,) = memory.debug.friction().walls
        assert "and earlier, in 3 sessions, filed by claude/haiku: “on 2099-03-01 in a prompt: Build it" in item.about
        decide(memory, item.id, "proposal", "approve")
        assert [rule.text for rule in reviewer.rules()] == [wall.what] == ["Count the reeds too."]
        (later,) = memory.debug.friction().walls
        assert memory.debug.friction(fix=True).walls == ()
    assert (wall.kind, wall.sessions, wall.calls, wall.last_at[:10]) == ("said", 3, 3, "2099-03-03")
    assert ("lorelog review" in wall.remedy, "lorelog rules" in later.remedy, later.sessions) == (True, True, 3)


_JUDGE = """#!{python}
import json, sys
asked = json.load(sys.stdin)
labels = {"willow for nests": "rule", "Which wood? → Willow": "decision"}
answer = json.dumps([
    {"n": said["n"], "label": labels.get(said["said"], "instruction"), "wording": said["said"], "cues": ["command=nest build"]}
    for said in asked["statements"]
])
print(json.dumps({"result": answer, "usage": {"input_tokens": 9, "output_tokens": 9}}))
"""


def test_the_judge_of_the_settings_files_what_was_said(
    project: Path, tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is asked until review.judge names a model; the agent files it, it comes before a call, and said again also at the start."""
    with Lorelog(project=project) as memory:
        memory.capture(host="claude", session="session-1", transcript=str(write_talk(tmp_path)), everything=True)
    refused = shell("review", "run")
    assert (refused.status, "no language model may judge" in refused.err) == (2, True)
    for name, text in {"claude": _JUDGE.replace("{python}", sys.executable), "codex": "#!/bin/false\n"}.items():
        (tmp_path / name).write_text(text, "utf-8")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    shell("config", "set", "review.judge", "host")

    outcome = shell("review", "run")

    assert outcome.status == 0
    assert "rule: willow for nests  [command=nest build]" in outcome.out
    assert "5 statements judged by claude/haiku" in outcome.err + outcome.out
    assert "Nothing waits" in shell("review", "list", "--kind", "statement").out

    def start(session: str) -> str:
        return str(handle_hook(["claude", "session-start"], f'{{"session_id": "{session}"}}'.encode(), os.environ))

    call = {"session_id": "later", "tool_name": "Bash", "tool_input": {"command": "nest build"}}
    assert "willow for nests" not in start("later")
    assert "willow for nests" in str(handle_hook(["claude", "tool-before"], json.dumps(call).encode(), os.environ))
    for session in ("session-2", "session-3"):
        again = write_lines(tmp_path / f"{session}.jsonl", claude_turn("u", "willow for nests", "Done."))
        with Lorelog(project=project) as memory:
            memory.capture(host="claude", session=session, transcript=str(again), everything=True)
        assert shell("review", "run").status == 0
    assert "said  willow for nests\n   in 3 sessions: 3 times, " in shell("friction").out
    assert "willow for nests (said on" in start("third")


def test_a_secret_is_redacted_in_all_later_turns(project: Path, tmp_path: Path, home: Path) -> None:
    """What was recognised once in a session is in no file, no statement and no shown turn, also bare, turns later."""
    secret = "Kx7!mQ9zR2vB"
    transcript = tmp_path / "talk.jsonl"
    turns = [
        claude_turn("a", f"the admin password is {secret}", "Noted."),
        claude_turn("b", f"and what was it again? {secret}?", f"It was {secret}."),
        [claude("user", "c", "log in"), claude("assistant", "d", [tool_use("t", "Bash", command=f"login {secret}")])],
        [claude("user", "e", [tool_result("t", f"Error: {secret} is wrong", is_error=True)])],
    ]
    with Lorelog(project=project) as memory:
        write_lines(transcript, [line for turn in turns for line in turn])
        memory.capture(host="claude", session="session-1", transcript=str(transcript), everything=True)
        said = str([item.text for item in memory.review.list(kind="statement").items])
        shown = str(memory.transcript(place=str(transcript), turn="b", context=0))
    kept = b"".join(path.read_bytes() for place in (home, project) for path in place.rglob("*") if path.is_file())

    assert secret.encode() not in kept
    assert b"again? [redacted:password]?" in kept
    assert "again? [redacted:password]?" in said
    assert secret not in said + shown


def test_an_old_rule_without_breaks_rests_when_a_person_agrees(project: Path) -> None:
    """It is proposed until it is decided; approved, it leaves the session start and still comes with a call about it."""
    with Lorelog(project=project) as memory:
        added = memory.add("never use npm", type="correction").memory
        engine = memory._caller.engine
        rule = RuleBalance(
            id=added, text="never use npm", since="2026-01-01", is_line=False, checkable=True, forbids=True, rests=True
        )
        save_balances(engine.place.cache_folder / "delivery", engine.place.project.id, [rule])
        (item,) = memory.review.list(kind="rest").items
        assert (item.id, item.about) == (added, "no agent broke it in 90 days")
        decide(memory, added, "rest", "approve")
        assert memory.review.list(kind="rest").items == ()
    call = json.dumps({"session_id": "s", "tool_name": "Bash", "tool_input": {"command": "npm ci"}}).encode()
    assert "never use npm" not in str(handle_hook(["claude", "session-start"], b'{"session_id": "s"}', os.environ))
    assert "never use npm" in str(handle_hook(["claude", "tool-before"], call, os.environ))


def test_the_words_of_a_journal_are_redacted_by_the_patterns_of_today(project: Path, tmp_path: Path) -> None:
    """A statement whose conversation is gone is read from its journal, without what may not be sent any more."""
    talk = write_lines(tmp_path / "s.jsonl", claude_turn("u", "ask HERON-42 about reeds", "Done."))
    with Lorelog(project=project) as memory:
        memory.capture(host="claude", session="s1", transcript=str(talk), everything=True)
    talk.unlink()
    with Lorelog(project=project, settings={"redact.patterns": ["HERON-[0-9]+"]}) as memory:
        (item,) = memory.review.list(kind="statement").items
    assert (item.text.startswith("ask [redacted"), "HERON" in item.text) == (True, False)


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


def test_an_agent_files_statements_by_the_judges_guide(
    project: Path, tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list brings an agent the guide and the standing rules; what it files is worded by the user where it says more."""
    with Lorelog(project=project) as memory:
        memory.capture(host="claude", session="session-1", transcript=str(write_talk(tmp_path)), everything=True)
        assert memory.review.list(kind="statement").guide == ""
    monkeypatch.setenv("CLAUDECODE", "1")
    listed = json.loads(shell("review", "list", "--kind", "statement", "--json").out)
    assert GUIDE.partition("Reply")[0] in listed["guide"]
    said = next(item["id"] for item in listed["items"] if item["text"] == "willow for nests")
    verdict = {
        "id": said,
        "label": "rule",
        "text": "Alice wants willow by Friday.",
        "forbids": True,
        "cues": ["command=oak"],
    }
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"verdicts": [verdict]})))

    decided = json.loads(shell("review", "decide", "--json").out)["decisions"]

    assert [entry["outcome"] for entry in decided] == ["filed"]
    call = b'{"session_id": "later", "tool_name": "Bash", "tool_input": {"command": "oak"}}'
    shown = str(handle_hook(["claude", "tool-before"], call, os.environ))
    assert "said on 2099-03-05 at a rejection, filed by Claude Code: willow for nests" in shown
    guide = json.loads(shell("review", "list", "--kind", "statement", "--json").out)["guide"]
    assert guide.endswith(f"{decided[0]['result']}: willow for nests")


def test_only_an_item_of_that_kind_is_decided(project: Path) -> None:
    """A memory that does not wait, or waits as something else, is not changed by a decision."""
    with Lorelog(project=project) as memory:
        own = memory.add("Otters are counted at dawn.", type="decision").memory
        with pytest.raises(LorelogError):
            decide(memory, own, "rule", "refuse")
        with pytest.raises(LorelogError):
            decide(memory, proposals(memory)["import"], "rule", "approve")
        assert memory.get(own).memory is not None
