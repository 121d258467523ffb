"""Guards are folded from their events; only persons make them block."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from lorelog.core.errors import NotFound, StoreDamaged, UsageError
from lorelog.light.guard_check import MAX_DISMISSALS, effective_action, fold_events, parse_events, split_by_state
from lorelog.services.guards.guard_log import Guard, GuardConditions, GuardDraft, GuardLog


def draft(command: str = "npm *", action: str = "warn", **fields: Any) -> GuardDraft:
    return GuardDraft(command=command, message="use pnpm", action=action, **fields)


@pytest.fixture
def log(tmp_path: Path) -> GuardLog:
    return GuardLog(tmp_path / "data" / "t" / "guards.jsonl")


def test_a_guard_is_off_until_it_is_switched_on(log: GuardLog) -> None:
    """A new guard is off; enabling, disabling and removing follow, and a second reader sees the same."""
    guard = log.add(draft(), "person").guard
    assert guard.state == "off"

    assert log.enable(guard, "person").guard.state == "on"
    assert not log.enable(log.find(guard.id), "person").changed
    assert GuardLog(log.path).all() == log.all()
    assert log.disable(log.find(guard.id[:5]), "person").guard.state == "off"
    log.remove(log.find(guard.id), "person")

    assert log.all() == []
    with pytest.raises(NotFound):
        log.find(guard.id)


def test_the_same_conditions_are_the_same_guard(log: GuardLog) -> None:
    """Adding a guard again changes nothing; another project has a guard of its own."""
    first = log.add(draft(), "person")
    again = log.add(draft(), "person")

    assert (first.changed, again.changed) == (True, False)
    assert log.add(draft(project="/p"), "person").guard.id != first.guard.id
    assert [guard.project for guard in log.visible("/q")] == [""]


def test_an_agent_can_only_warn(log: GuardLog) -> None:
    """An agent neither adds nor enables a guard that blocks; its own guard warns until a person approves it."""
    with pytest.raises(UsageError, match="blocks"):
        log.add(draft(action="block"), "agent")
    guard = log.enable(log.add(draft(), "agent").guard, "agent").guard
    assert (guard.state, guard.action, guard.by_person) == ("on", "warn", False)
    with pytest.raises(UsageError, match="blocks"):
        log.enable(guard, "agent", "block")

    approved = log.enable(guard, "person", "block").guard

    assert (approved.action, approved.approved) == ("block", True)


def test_an_agent_cannot_change_a_guard_of_a_person(log: GuardLog) -> None:
    """An agent can neither switch off, dismiss nor remove what a person wrote or approved."""
    guard = log.enable(log.add(draft(action="block"), "person").guard, "person").guard

    for change in (log.disable, log.dismiss, log.remove):
        with pytest.raises(UsageError, match="a person wrote or approved"):
            change(guard, "agent")
    assert log.all() == [guard]


def test_the_third_dismissal_retires_a_guard_and_says_so(log: GuardLog) -> None:
    """The reply and the log tell that it retired; a person can switch it on again and starts from zero."""
    guard = log.enable(log.add(draft(), "person").guard, "person").guard
    notes = [log.dismiss(log.find(guard.id), "person").notes for _ in range(MAX_DISMISSALS)]

    assert notes[:2] == [(), ()]
    assert "has retired" in notes[2][0]
    assert log.find(guard.id).state == "retired"
    assert json.loads(log.path.read_text("utf-8").splitlines()[-1])["event"] == "retire"
    revived = log.enable(log.find(guard.id), "person").guard
    assert (revived.state, revived.dismissals) == ("on", 0)


@pytest.mark.parametrize(
    "conditions",
    [
        GuardConditions(),
        GuardConditions(command="*"),
        GuardConditions(command="* *"),
        GuardConditions(paths=("**",)),
        GuardConditions(paths=("src/**", "*")),
        GuardConditions(content="?"),
        GuardConditions(command="npm\ninstall"),
        GuardConditions(command="n" * 1000),
    ],
)
def test_conditions_that_match_everything_are_refused(log: GuardLog, conditions: GuardConditions) -> None:
    """No guard is added without a condition, with stars only, or with a pattern that is not one short line."""
    with pytest.raises(UsageError):
        log.add(GuardDraft(**structs.asdict(conditions), message="x"), "person")
    assert not log.path.exists()


def test_a_damaged_log_is_an_error_for_commands(log: GuardLog) -> None:
    """A command does not guess what a damaged line meant."""
    log.add(draft(), "person")
    log.path.write_text("{}\n" + log.path.read_text("utf-8"), "utf-8")

    with pytest.raises(StoreDamaged):
        log.all()


_EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "event": st.sampled_from(("add", "approve", "enable", "disable", "dismiss", "retire", "remove")),
            "id": st.sampled_from(("g1", "g2")),
            "at": st.just("2026-03-05T10:00:00+00:00"),
            "by": st.sampled_from(("person", "agent")),
        },
        optional={"action": st.sampled_from(("warn", "block")), "command": st.just("npm *")},
    ),
    max_size=30,
)


@given(_EVENTS)
def test_no_sequence_of_events_makes_an_agents_guard_block(events: list[dict[str, Any]]) -> None:
    """Whatever is in the log: a guard blocks only after a person wrote or approved it, and three dismissals end it."""
    for guard in fold_events(events).values():
        own = [event for event in events if event["id"] == guard["id"]]
        by_person = any(event["by"] == "person" and event["event"] in {"add", "approve"} for event in own)
        assert effective_action(guard) == "warn" or by_person
        assert guard["dismissals"] < MAX_DISMISSALS or guard["state"] == "retired"
        if guard["state"] == "on":
            assert any(event["event"] == "enable" for event in own)


@given(_EVENTS, st.integers(0, 30))
def test_folding_needs_no_more_than_the_log(events: list[dict[str, Any]], cut: int) -> None:
    """The state after a log equals the state after its text, and an agent's later events change nothing of a person's."""
    text = "".join(json.dumps(event) + "\n" for event in events).encode()
    assert fold_events(parse_events(text)) == fold_events(events)

    persons = [{**event, "by": "person"} for event in events[:cut]]
    agents = [{**event, "by": "agent"} for event in events[cut:] if event["event"] != "add"]
    assert fold_events([*persons, *agents]) == fold_events(persons)


def test_only_guards_that_are_on_reach_the_hook(log: GuardLog) -> None:
    """The derived file holds what is on and what retired."""
    log.add(draft("yarn *"), "person")
    guard: Guard = log.enable(log.add(draft(), "person").guard, "person").guard

    on, retired = split_by_state(fold_events(parse_events(log.path.read_bytes())))

    assert [fields["id"] for fields in on] == [guard.id]
    assert retired == []
