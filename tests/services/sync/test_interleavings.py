"""Three machines that write, edit, forget and exchange in any order end with the same memories: none lost, none twice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from lorelog.services.memories.journal import anchor_field, split_journal
from lorelog.services.sync import merge
from lorelog.services.sync.exchange_plan import ExchangePlan, MachineState, SyncLogLine, plan_exchange

ANY = settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
PROJECT = "git:example.org/app"
DAYS = ("2026-03-05.md", "2026-03-06.md")


class Remote:
    """The exchange: its files change only if nobody else changed them since they were read."""

    def __init__(self) -> None:
        self.files: Mapping[str, bytes] = {}

    def push(self, before: Mapping[str, bytes], files: Mapping[str, bytes]) -> bool:
        if self.files is not before:
            return False
        self.files = dict(files)
        return True


@dataclass(slots=True)
class Machine:
    """A machine: its journals as text, its log of dates, its records, and what it remembers of the last exchange."""

    name: str
    journals: dict[str, str] = field(default_factory=dict)
    dates: list[str] = field(default_factory=list)
    deletions: list[str] = field(default_factory=list)
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    forgotten: dict[str, str] = field(default_factory=dict)
    base: dict[str, dict[str, str]] = field(default_factory=dict)
    pending: dict[str, dict[str, str]] = field(default_factory=dict)
    seen: dict[str, tuple[int, str]] = field(default_factory=dict)

    def entries(self) -> dict[str, str]:
        found = merge.by_key(entry for file, text in self.journals.items() for entry in merge.read_journal(file, text))
        return {key: entry.text for key, entry in found.items()}

    def bodies(self) -> list[str]:
        parts = [part for text in self.journals.values() for part in split_journal(text) if part.is_entry]
        return [part.text.strip().rpartition("\n")[2] for part in parts]

    def add(self, memory: str, body: str, day: str, time: str) -> None:
        entry = f"### {time}\n<!-- memory:{memory} transcript:/home/{self.name}/x.jsonl type:fact -->\n{body}"
        before = self.journals.get(day) or f"# {day[:-3]}\n"
        self.journals[day] = before.rstrip("\n") + "\n\n" + entry + "\n"

    def edit(self, memory: str, body: str) -> str:
        """Replace the text of an entry; return the text before."""
        for day, text in self.journals.items():
            for part in split_journal(text):
                if part.is_entry and anchor_field(part.text, "memory") == memory:
                    old = part.text.strip().rpartition("\n")[2]
                    self.journals[day] = text.replace(f"\n{old}\n", f"\n{body}\n")
                    return old
        raise AssertionError(memory)

    def forget(self, keys: tuple[str, ...], at: str) -> None:
        for day in self.journals:
            self.journals[day] = merge.cut_from_journal(self.journals[day], keys)
        for key in keys:
            self.forgotten[key] = at
            if key in self.records:
                self.records[key] = {"id": key, "project": PROJECT, "redacted": "x"}
        for log in (self.dates, self.deletions):
            log[:] = [line for line in log if not merge.is_forgotten(json.loads(line)["memory"], self.forgotten)]

    def state(self) -> MachineState:
        found = merge.by_key(entry for file, text in self.journals.items() for entry in merge.read_journal(file, text))
        return MachineState(
            writer=self.name,
            entries={PROJECT: found},
            logs={
                name: [SyncLogLine(line, json.loads(line)["memory"]) for line in lines]
                for name, lines in (("lifecycle", self.dates), ("tombstones", self.deletions))
            },
            records=self.records,
            record_ids=set(self.records),
            forgotten=self.forgotten,
            base=self.base,
            pending=self.pending,
            seen=self.seen,
        )

    def apply(self, plan: ExchangePlan) -> None:
        added, replaced = plan.added[PROJECT].values(), plan.replaced[PROJECT]
        for file in {*self.journals, *(entry.file for entry in added)}:
            new = [entry for entry in added if entry.file == file]
            self.journals[file] = merge.add_to_journal(self.journals.get(file, ""), file, new, replaced)
        self.dates = list(plan.logs.get("lifecycle", self.dates))
        self.deletions = list(plan.logs.get("tombstones", self.deletions))
        self.records |= {str(record["id"]): dict(record) for record in plan.records}

    def sync(self, remote: Remote, how: str = "") -> bool:
        """Exchange once. `how` interrupts it where a process may be killed, or another machine pushes first."""
        before = remote.files
        plan = plan_exchange(self.state(), before)
        assert not plan.is_fork
        assert plan.problems == ()
        if how == "other-first":
            remote.files = dict(remote.files)
        if plan.forget:
            self.forget(plan.forget, "9")
            plan = plan_exchange(self.state(), before)
        self.pending = _copy(plan.pending)
        if how == "killed-first":
            return False
        self.apply(plan)
        if how == "killed-applied":
            return False
        self._remember(plan, is_complete=False)
        if how == "killed-before":
            return False
        pushed = remote.push(before, plan.files)
        if pushed and how != "killed-after":
            self._remember(plan, is_complete=True)
        return pushed

    def _remember(self, plan: ExchangePlan, *, is_complete: bool) -> None:
        self.base = _copy(plan.base if is_complete else plan.received_base)
        self.seen = {name: seen for name, seen in plan.seen.items() if is_complete or name != self.name}
        self.pending = {}


def _copy(digests: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    return {name: dict(values) for name, values in digests.items()}


ACTIONS = (
    *("add", "edit", "edit", "edit", "forget", "date", "delete", "record", "redact"),
    *("sync", "sync", "sync", "sync", "killed-first", "killed-applied", "killed-before", "killed-after", "other-first"),
)
STEP = st.tuples(st.integers(0, 2), st.sampled_from(ACTIONS), st.integers(0, 10**6))


class SimulatedMachines:
    """Machines, their exchange, and what was written, replaced and forgotten."""

    def __init__(self) -> None:
        self.remote = Remote()
        self.machines = [Machine(name) for name in ("a1", "b2", "c3")]
        self.written: dict[str, str] = {}
        """Texts, and the entries that they were written to."""
        self.replaced: set[str] = set()
        self.forgotten: set[str] = set()
        self.records: set[str] = set()
        self.deleted: set[str] = set()
        """Lines of deletions and restorations."""
        self.redacted: set[str] = set()

    def do(self, number: int, machine: Machine, action: str, choice: int) -> None:
        known = sorted(machine.entries())
        live = sorted(key for key, record in machine.records.items() if "redacted" not in record)
        body = f"text number {number} of {machine.name}"
        if action == "add":
            machine.add(f"m{number}", body, DAYS[choice % 2], f"{choice % 24:02}:{choice % 60:02}")
            self.written[body] = f"m{number}"
        elif action == "edit" and known:
            key = known[choice % len(known)]
            self.replaced.add(machine.edit(key, body))
            self.written[body] = key
        elif action == "forget" and known:
            key = known[choice % len(known)]
            machine.forget((key,), str(number))
            self.forgotten.add(key)
        elif action == "date" and known:
            line = {
                "memory": known[choice % len(known)],
                "expires": f"2027-01-{choice % 28 + 1:02}",
                "at": str(1000 + number),
            }
            machine.dates.append(json.dumps(line))
        elif action == "delete" and known:
            stone = {"memory": known[choice % len(known)], "deleted": choice % 3 > 0, "at": str(1000 + number)}
            machine.deletions.append(json.dumps(stone))
            self.deleted.add(machine.deletions[-1])
        elif action == "record":
            machine.records[f"r{number}"] = {"id": f"r{number}", "project": PROJECT, "text": body}
            self.records.add(f"r{number}")
        elif action == "redact" and live:
            machine.forget((live[choice % len(live)],), str(number))
            self.redacted.add(live[choice % len(live)])
        elif action not in {"edit", "forget", "date", "delete", "redact"}:
            machine.sync(self.remote, "" if action == "sync" else action)

    def settle(self) -> None:
        """Exchange until nothing changes."""
        for _ in range(6):
            for machine in self.machines:
                assert machine.sync(self.remote)


def check(world: SimulatedMachines) -> None:
    """Assert that all machines have the same: none lost, none twice, none that was forgotten."""
    first, *others = world.machines
    for machine in others:
        assert Counter(machine.bodies()) == Counter(first.bodies())
        assert machine.entries().keys() == first.entries().keys()
        assert machine.dates == first.dates
        assert machine.deletions == first.deletions
        assert machine.records == first.records
    shown = Counter(first.bodies())
    assert all(count == 1 for count in shown.values())
    for body, key in world.written.items():
        if merge.is_forgotten(key, world.forgotten):
            assert body not in shown
        elif body not in world.replaced and not any(
            other.startswith(f"{key}{merge.CONFLICT_MARK}") for other in world.forgotten
        ):
            assert body in shown
    about = {line: json.loads(line)["memory"] for line in world.deleted}
    assert set(first.deletions) == {line for line, key in about.items() if not merge.is_forgotten(key, world.forgotten)}
    assert first.records.keys() == world.records
    for identity in world.redacted:
        assert "text" not in first.records[identity]
    exchange = b"".join(world.remote.files.values()).decode()
    for machine in world.machines:
        assert f"/home/{machine.name}" not in exchange
    for body, key in world.written.items():
        assert not (merge.is_forgotten(key, world.forgotten) and f"\n{body}\n" in exchange)


@ANY
@given(steps=st.lists(STEP, max_size=60))
def test_any_interleaving_ends_with_the_same_memories_everywhere(steps: list[tuple[int, str, int]]) -> None:
    """After any steps on three machines, all have the same texts: none lost, none twice, none that was forgotten."""
    world = SimulatedMachines()
    for number, (which, action, choice) in enumerate(steps):
        world.do(number, world.machines[which], action, choice)
    world.settle()
    check(world)


def test_a_killed_sync_does_not_make_an_edit_of_a_received_text() -> None:
    """A text that was received by a sync that was killed is not taken for an edit when another machine edits it."""
    for killed in ("killed-first", "killed-applied", "killed-before"):
        world = SimulatedMachines()
        first, second, third = world.machines
        first.add("m1", "the old text", DAYS[0], "10:00")
        assert first.sync(world.remote)
        second.sync(world.remote, killed)
        assert third.sync(world.remote)
        third.edit("m1", "the new text")
        third.sync(world.remote, "killed-after")
        world.settle()
        assert [machine.bodies() for machine in world.machines] == [["the new text"]] * 3


def test_a_conflict_has_one_result_and_keeps_an_edit_of_its_copy() -> None:
    """Both sides of a conflict give the same entries; a copy that was kept, and edited since, is not replaced by the old one."""
    versions = a, b = [
        merge.by_key(merge.read_journal(DAYS[0], f"### 10:00\n<!-- memory:m1 type:fact -->\ntext {letter}\n"))
        for letter in "ab"
    ]
    merged, conflicts = merge.merge_entries({}, a, b)
    assert (merged, conflicts) == merge.merge_entries({}, b, a)
    assert len(merged) == 2
    (copy,) = (entry for key, entry in merged.items() if key != "m1")
    edited = merge.by_key(merge.read_journal(DAYS[0], copy.text.replace("text ", "edited ")))
    here = {"m1": merged["m1"], **edited}
    lost = next(version for version in versions if version["m1"].digest != merged["m1"].digest)
    assert "edited" in merge.merge_entries({}, here, lost)[0][copy.key].text


def test_logs_are_merged_by_time_and_each_line_is_there_once() -> None:
    """Lines of all writers are in order of time, those of one writer in their own order, and none is there twice."""
    lines = {number: json.dumps({"memory": "m", "at": f"2026-03-0{number}"}) for number in range(1, 6)}
    a, b = [lines[1], lines[4], lines[3]], [lines[2], lines[5]]
    expected = [lines[1], lines[2], lines[4], lines[3], lines[5]]
    assert merge.merge_logs("a", {"a": a, "b": b}) == expected
    assert merge.merge_logs("b", {"a": a, "b": [lines[1], *b]}) == expected


def test_what_answers_a_line_of_the_same_second_comes_after_it() -> None:
    """A guard that one machine adds and another removes within a second is removed, whatever the machines are called."""
    add, remove, other = (
        json.dumps({"at": "2026-03-01T10:00:00Z", "event": event, "id": identity})
        for event, identity in (("add", "g1"), ("remove", "g1"), ("add", "g2"))
    )

    for first, second in (("a", "b"), ("b", "a")):
        assert merge.merge_logs("c", {first: [add], second: [remove, other]}) == [add, remove, other]
