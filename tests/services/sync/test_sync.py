"""Machines exchange memories, records and what was forgotten over a real Git remote."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import time_machine
from bench.safety.children import run_child
from bench.safety.kill_trials import find_foreign
from tests.code.repositories import repository
from tests.services.sync.machines import SyncMachine, exchange_text, git

from lorelog.core.errors import UsageError
from lorelog.services.sync.exchange import project_name
from lorelog.services.sync.exchange_plan import MachineState, find_writers, plan_exchange
from lorelog.services.sync.merge import extend_chain, read_chain


@pytest.fixture
def machines(tmp_path: Path) -> tuple[SyncMachine, SyncMachine]:
    """Two machines with clones of one project at different paths."""
    remote = tmp_path / "remote.git"
    return SyncMachine(tmp_path / "a", remote), SyncMachine(tmp_path / "b", remote)


def test_a_killed_exchange_leaves_no_entry_that_is_a_strangers(machines: tuple[SyncMachine, SyncMachine]) -> None:
    """Whose memories they are arrives before the memories, so that a kill in between makes none foreign."""
    first, second = machines
    first.add("the otter lives in the river")
    first.sync()
    killed = run_child(lambda tell: tell(second.sync()), kill_at=1, files="authored.jsonl")

    assert killed.killed
    assert second.journal() == ""
    assert second.sync()["received"] == 1
    assert not find_foreign(second.home, second.project)


@pytest.mark.slow
def test_both_machines_have_the_memories_and_records_of_both(machines: tuple[SyncMachine, SyncMachine]) -> None:
    """After an exchange both machines find all memories and records, each once, and a second exchange changes nothing."""
    first, second = machines
    first.add("the otter lives in the river")
    with first.open() as memory:
        memory.task.start("count the fish")
    second.add("badgers dig at night")
    first.sync()
    report = second.sync()
    first.sync()

    assert (report["received"], report["records_received"], report["sent"]) == (1, 1, 1)
    for machine in machines:
        text = machine.journal()
        assert text.count("the otter lives") == text.count("badgers dig") == 1
        assert len(machine.records()) == 1
        with machine.open() as memory:
            assert len(memory.search("otter").hits) == 1
            assert memory.search("otter").hits[0].origin == "user"  # the user's own word on both machines
    before = first.journal()
    assert not first.sync()["pushed"]
    assert first.journal() == before
    exchanged = exchange_text(first.remote)
    assert str(first.folder) not in exchanged
    assert str(second.folder) not in exchanged


@pytest.mark.slow
def test_what_one_machine_forgets_is_gone_everywhere(machines: tuple[SyncMachine, SyncMachine]) -> None:
    """A forgotten memory leaves the other machine's files and the newest commit, and does not come back."""
    first, second = machines
    memory_id = first.add("the launch code of the heron project is on the blue card in the drawer")
    first.add("herons wade in the shallow water")
    with next((first.project / ".lorelog/memory").glob("*.md")).open("a", encoding="utf-8") as stream:
        stream.write("\n### 10:00\na section by hand, without an id: the launch code is on a blue card, too\n")
    first.sync()
    second.sync()
    with second.open() as memory:
        by_hand = memory.search("section by hand").hits[0].id
        memory.call("memory.forget", {"ids": [by_hand], "confirm": True})
        reply = memory.call("memory.forget", {"ids": [memory_id], "confirm": True})
    assert str(second.remote) in reply["unreached"]
    second.sync()
    report = first.sync()

    assert report["forgotten"] == 2
    assert "launch code" not in first.journal() + second.journal() + exchange_text(first.remote)
    assert "herons wade" in first.journal()
    assert first.sync()["received"] == second.sync()["received"] == 0
    left = [path for path in first.home.rglob("*") if path.is_file() and b"blue card" in path.read_bytes()]
    assert left == []


@pytest.mark.slow
def test_an_edit_travels_and_two_edits_are_both_kept(machines: tuple[SyncMachine, SyncMachine]) -> None:
    """A text edited on one machine replaces the old one; if both edited it, both texts are kept, and the memory is named."""
    first, second = machines
    memory_id = first.add("the port is 8080")
    first.sync()
    second.sync()
    journal = next((first.project / ".lorelog/memory").glob("*.md"))
    journal.write_text(journal.read_text("utf-8").replace("8080", "8081"), "utf-8")
    first.sync()
    assert second.sync()["updated"] == 1
    assert "8081" in second.journal()
    assert "8080" not in second.journal()

    for machine, port in ((first, "9001"), (second, "9002")):
        file = next((machine.project / ".lorelog/memory").glob("*.md"))
        file.write_text(file.read_text("utf-8").replace("8081", port), "utf-8")
    first.sync()
    assert second.sync()["conflicts"] == [memory_id]
    first.sync()
    for machine in machines:
        assert machine.journal().count("9001") == machine.journal().count("9002") == 1


@pytest.mark.slow
def test_a_secret_stops_the_push_and_is_named(machines: tuple[SyncMachine, SyncMachine]) -> None:
    """A secret that was typed into a journal is not pushed; its entry and line are named, and other texts are received."""
    first, second = machines
    second.add("badgers dig at night")
    second.sync()
    first.add("the otter lives in the river")
    file = next((first.project / ".lorelog/memory").glob("*.md"))
    with file.open("a", encoding="utf-8") as stream:
        stream.write("\n### 10:00\n<!-- memory:m-1 -->\nDB_PASSWORD=hunter2-Zx91kkQ\n")
    line = file.read_text("utf-8").split("\n").index("DB_PASSWORD=hunter2-Zx91kkQ") + 1
    report = first.sync()

    assert not report["pushed"]
    assert [(found["id"], found["source"], found["line"]) for found in report["secrets"]] == [("m-1", str(file), line)]
    assert "badgers dig" in first.journal()
    assert "hunter2" not in exchange_text(first.remote)
    file.write_text(file.read_text("utf-8").replace("hunter2-Zx91kkQ", "$DB_PASSWORD"), "utf-8")
    assert first.sync()["pushed"]


def test_offline_nothing_is_lost(machines: tuple[SyncMachine, SyncMachine], tmp_path: Path) -> None:
    """Without the remote a sync says what waits; the next one sends it."""
    first, second = machines
    first.add("the otter lives in the river")
    first.sync()
    first.remote.rename(tmp_path / "away.git")
    first.add("badgers dig at night")
    report = first.sync()
    assert report["is_offline"]
    assert report["sent"] == 1
    (tmp_path / "away.git").rename(first.remote)
    assert first.sync()["sent"] == 1
    assert second.sync()["received"] == 2


@pytest.mark.slow
def test_a_machine_that_was_away_for_weeks_catches_up(tmp_path: Path) -> None:
    """Two of three machines go on for days while the third, offline, writes too: then all have the same, what was forgotten is nowhere, and both edits are kept."""
    remote, away, days = tmp_path / "remote.git", tmp_path / "unreachable.git", 21
    first, second, third = everybody = [SyncMachine(tmp_path / name, remote) for name in "abc"]
    edited = first.add("the port is 8080")
    forgotten = first.add("the launch code is on the blue card in the drawer")
    for machine in (first, second, third):
        machine.sync()
    for day in range(1, days + 1):
        with time_machine.travel(datetime(2026, 3, day, 12, tzinfo=UTC), tick=True):
            for machine in (first, second):
                machine.add(f"{machine.folder.name} learned number {day} about otters")
            third.add(f"c learned number {day} about badgers")
            first.sync()
            second.sync()
    remote.rename(away)
    assert third.sync()["is_offline"]
    away.rename(remote)
    for machine, port in ((second, "9001"), (third, "9002")):
        (file,) = [
            path for path in (machine.project / ".lorelog/memory").glob("*.md") if "8080" in path.read_text("utf-8")
        ]
        file.write_text(file.read_text("utf-8").replace("8080", port), "utf-8")
    with first.open() as memory:
        memory.call("memory.forget", {"ids": [forgotten], "confirm": True})
    first.sync()
    second.sync()

    assert third.sync()["conflicts"] == [edited]
    first.sync()
    second.sync()
    assert len({"".join(sorted(machine.journal().splitlines(keepends=True))) for machine in everybody}) == 1
    text = first.journal()
    for day in range(1, days + 1):
        for words in (
            f"a learned number {day} about",
            f"b learned number {day} about",
            f"c learned number {day} about",
        ):
            assert text.count(words) == 1, words
    assert text.count("the port is 9001") == text.count("the port is 9002") == 1
    assert "blue card" not in "".join(machine.journal() for machine in everybody) + exchange_text(remote)
    before = [machine.journal() for machine in everybody]
    assert [machine.sync()["received"] for machine in everybody] == [0, 0, 0]
    assert [machine.journal() for machine in everybody] == before


def test_a_dry_run_changes_nothing(machines: tuple[SyncMachine, SyncMachine]) -> None:
    """A dry run tells what would be exchanged and writes neither here nor to the remote."""
    first, _ = machines
    first.add("the otter lives in the river")
    before = first.journal()
    assert first.sync(dry_run=True)["sent"] == 1
    assert first.journal() == before
    assert git("-C", str(first.remote), "for-each-ref") == ""
    assert not (first.data / "sync" / "remote.json").exists()


@pytest.mark.slow
def test_corrections_stay_personal_in_a_team(machines: tuple[SyncMachine, SyncMachine]) -> None:
    """A team gets facts, and corrections tagged as shared; what others wrote is not the user's word; the writer is known."""
    first, second = machines
    fact = first.add("the otter lives in the river", type="fact")
    first.add("never push to main", type="correction")
    first.add("run the linter first", type="correction", tags=["shared"])
    first.sync(team=True, user="mara")
    second.sync(team=True, user="otto")

    assert "never push" not in exchange_text(first.remote) + second.journal()
    assert "run the linter" in second.journal()
    with second.open() as memory:
        assert memory.call("sync.status", {"who": fact})["written_by"] == "mara"
        assert memory.search("otter").hits[0].origin == "repository"
        assert memory.context.brief_project().brief.rules == ('mara\'s rule, quoted: "run the linter first"',)


def test_a_chain_of_records_shows_what_was_changed() -> None:
    """A line that was changed, left out or moved ends the verified part of a writer's records; a redacted one does not."""
    chain = extend_chain(read_chain(""), {name: {"id": name, "text": f"text {name}"} for name in ("a", "b", "c")})
    lines = list(chain.lines)
    assert read_chain("\n".join(lines)).fault == ""
    assert len(read_chain("\n".join([lines[0].replace("text a", "text x"), *lines[1:]])).records) == 1
    assert read_chain("\n".join([lines[0], lines[2]])).fault
    redacted = extend_chain(chain, {"b": {"id": "b", "redacted": "x"}})
    assert "text b" not in "".join(redacted.lines)
    assert read_chain("\n".join(redacted.lines)).fault == ""


def test_a_record_forgotten_here_leaves_the_exchange_at_once() -> None:
    """The text of another machine's record is taken out of its chain, which stays unbroken, by the machine that forgot it."""
    name = "git:example.org/app"
    record = {"id": "r1", "project": name, "text": "the heron code"}
    writer = MachineState(writer="a1", entries={name: {}}, records={"r1": record}, record_ids={"r1"})
    files = plan_exchange(writer, {}).files
    gone = {"id": "r1", "project": name, "redacted": "x"}
    other = MachineState(
        writer="b2", entries={name: {}}, records={"r1": gone}, record_ids={"r1"}, forgotten={"r1": "2026-03-05"}
    )
    plan = plan_exchange(other, files)
    assert plan.erases
    assert b"heron" not in b"".join(plan.files.values())
    assert read_chain(plan.files["writers/a1/ledger.jsonl"].decode()).fault == ""
    assert plan_exchange(writer, plan.files).forget == ("r1",)


def test_the_writer_is_known_without_a_name() -> None:
    """The machine that wrote a record is found even if the file with its user's name is damaged."""
    record = {"id": "r1", "project": "git:example.org/app"}
    state = MachineState(writer="a1", user="mara", entries={}, records={"r1": record}, record_ids={"r1"})
    files = plan_exchange(state, {}).files

    assert find_writers(files) == {"r1": "mara"}
    assert find_writers({**files, "writers/a1/writer.json": b"<<<<"}) == {"r1": "a1"}


def test_a_project_needs_a_name_that_other_machines_know(tmp_path: Path) -> None:
    """A directory without remote and commit is refused unless it is given a name; a commit is a name."""
    with pytest.raises(UsageError, match="neither a Git remote nor a commit"):
        project_name(str(tmp_path))
    assert project_name(str(tmp_path), "notes") == "name:notes"
    repository(tmp_path, {})
    assert project_name(str(tmp_path)).startswith("commit:")


@pytest.mark.slow
def test_a_deletion_and_its_undoing_reach_the_searches_of_the_other_machine(
    machines: tuple[SyncMachine, SyncMachine],
) -> None:
    """A memory that was deleted or restored elsewhere is hidden or shown after a sync, although no journal changed."""
    first, second = machines
    memory_id = first.add("the otter lives in the river")
    first.sync()
    second.sync()
    for operation, shown in (("memory.delete", 0), ("memory.restore", 1)):
        with first.open() as memory:
            memory.call(operation, {"id": memory_id})
        first.sync()
        second.sync()
        with second.open() as memory:
            assert len(memory.search("otter").hits) == shown


def test_received_memories_stay_out_of_the_repository(machines: tuple[SyncMachine, SyncMachine]) -> None:
    """A clone that gets its first memories by a sync has a .gitignore for them, as after `lorelog add`."""
    first, second = machines
    first.add("the otter lives in the river")
    first.sync()
    second.sync()
    assert "otter" in second.journal()
    assert git("-C", str(second.project), "status", "--short") == ""


TOKEN = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


def test_a_secret_in_a_name_stops_the_push(machines: tuple[SyncMachine, SyncMachine]) -> None:
    """A secret in the name of a journal or of the user is not pushed, and the finding does not repeat it."""
    first, _ = machines
    first.add("the otter lives in the river")
    first.sync()
    journal = first.project / ".lorelog/memory" / f"{TOKEN}.md"
    journal.write_text("# x\n\n### 10:00\n<!-- memory:m-1 -->\na plain text\n", "utf-8")
    reports = [first.sync()]
    journal.unlink()
    reports.append(first.sync(user=TOKEN))
    for report in reports:
        assert not report["pushed"]
        assert [found["kinds"] for found in report["secrets"]] == [["github-token"]]
        assert TOKEN not in str(report["secrets"])
    assert TOKEN not in exchange_text(first.remote) + git("-C", str(first.remote), "log", "lorelog")


def test_a_guard_with_a_secret_can_be_removed(machines: tuple[SyncMachine, SyncMachine]) -> None:
    """A guard whose pattern holds a secret stops the push until it is removed; of a removed one nothing is sent."""
    first, second = machines
    with first.open() as memory:
        kept = memory.call("guard.add", {"command": "npm *", "message": "use pnpm"})["guard"]["id"]
        guard = memory.call("guard.add", {"command": f"curl {TOKEN}", "message": "no"})["guard"]["id"]
    assert [found["id"] for found in first.sync()["secrets"]] == [guard]
    with first.open() as memory:
        memory.call("guard.change", {"id": guard, "change": "remove"})
    assert first.sync()["pushed"]
    assert guard not in exchange_text(first.remote)
    second.sync()
    with second.open() as memory:
        assert [found["id"] for found in memory.call("guard.list", {})["guards"]] == [kept]
        memory.call("guard.change", {"id": kept, "change": "remove"})
    second.sync()
    first.sync()
    with first.open() as memory:
        assert memory.call("guard.list", {})["guards"] == []


def test_lines_that_cannot_be_read_are_not_taken_over() -> None:
    """Garbage in the files of a writer, or a global guard where global memories are not chosen, changes nothing here."""
    name = "git:example.org/app"
    add = {"event": "add", "at": "2026-03-05", "by": "person", "command": "npm *", "message": "x", "paths": []}
    lines = [
        *("not json", "[1]", '{"event": "boom"}', "[" * 100_000),
        json.dumps({**add, "id": "g1"}),
        json.dumps({**add, "id": "g2", "project": name}),
        json.dumps({"event": "remove", "id": "g1", "at": "2026-03-06", "by": "person"}),
        json.dumps({**add, "id": "g3", "project": name, "by": "nobody"}),
    ]
    files = {
        "lorelog-sync.json": b'{"version": 1}',
        "writers/b2/guards.jsonl": "".join(f"{line}\n" for line in lines).encode(),
        "writers/b2/lifecycle.jsonl": b'{"memory": "m1"}\nx\n',
        "writers/b2/writer.json": b'"x"',
        "writers/b2/forgotten.jsonl": b'x\n{"key": 5}\n',
        "writers/b2/ledger.jsonl": b'{"prev": 1}\n',
    }
    plan = plan_exchange(MachineState(writer="a1", entries={name: {}}), files)
    assert plan.logs == {"guards": [lines[5]]}
    assert plan.records == ()
    assert plan.files["writers/b2/guards.jsonl"] == files["writers/b2/guards.jsonl"]


def test_a_teammate_cannot_forget_records_of_others() -> None:
    """In a team, what a teammate forgot is taken out here, except what this machine wrote: that is named, and stays."""
    name = "git:example.org/app"

    def record(identity: str) -> dict[str, str]:
        return {"id": identity, "project": name, "text": "a decision"}

    mine = MachineState(writer="a1", team=True, entries={name: {}}, records={"r1": record("r1")}, record_ids={"r1"})
    files = plan_exchange(mine, {}).files
    other = MachineState(
        writer="b2",
        team=True,
        entries={name: {}},
        records={"r1": {**record("r1"), "redacted": "x"}, "r2": {**record("r2"), "redacted": "x"}},
        record_ids={"r1", "r2"},
        forgotten={"r1": "2026-03-05", "r2": "2026-03-05"},
    )
    files = plan_exchange(other, files).files
    both = MachineState(
        writer="a1",
        team=True,
        entries={name: {}},
        records={"r1": record("r1"), "r2": record("r2")},
        record_ids={"r1", "r2"},
    )
    plan = plan_exchange(both, files)
    assert plan.forget == ("r2",)
    assert "r1" in plan.problems[0]


@pytest.mark.slow
def test_a_later_change_wins_despite_wrong_clocks(machines: tuple[SyncMachine, SyncMachine]) -> None:
    """A date that was set on a machine whose clock is a day ahead can be changed on another one at once."""
    first, second = machines
    memory_id = first.add("the otter lives in the river")
    ahead = (datetime.now(UTC) + timedelta(days=1)).isoformat(timespec="seconds")
    with (first.data / "lifecycle.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({"memory": memory_id, "at": ahead, "expires": "2026-01-01"}) + "\n")
    first.sync()
    second.sync()
    with second.open() as memory:
        assert memory.search("otter").hits == ()
        memory.call("memory.set_expiry", {"id": memory_id, "expires": "never"})
    second.sync()
    first.sync()
    for machine in machines:
        with machine.open() as memory:
            assert len(memory.search("otter").hits) == 1


def test_bytes_that_are_not_text_stay_in_a_journal(machines: tuple[SyncMachine, SyncMachine]) -> None:
    """A sync that adds entries to a journal keeps the other bytes of it as they are."""
    first, second = machines
    first.add("the otter lives in the river")
    second.add("badgers dig at night")
    journal = next((second.project / ".lorelog/memory").glob("*.md"))
    with journal.open("ab") as stream:
        stream.write(b"\n### 10:00\nan old caf\xe9, \xe2\x82 and nothing else\n")
    first.sync()
    assert second.sync()["received"] == 1
    assert second.sync()["received"] == 0
    assert b"an old caf\xe9, \xe2\x82 and" in journal.read_bytes()
    assert b"otter" in journal.read_bytes()
