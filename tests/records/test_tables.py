"""The tables reflect the ledger, follow it, and can be deleted."""

from __future__ import annotations

import sqlite3
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.records.any_drafts import drafts
from tests.records.drafts import draft
from tests.threads import in_threads

from lorelog.core.errors import StoreUnwritable
from lorelog.core.ids import new_id
from lorelog.core.record import Record, RecordDraft
from lorelog.records.ledger import Ledger
from lorelog.records.tables import RecordQuery, RecordTables
from lorelog.records.trust import assess_records


class LedgerFixture:
    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger(folder, max_segment_bytes=4000)
        self.path = folder / "index" / "records.db"
        self.tables = RecordTables(self.path)

    def write(self, *drafts: RecordDraft) -> list[Record]:
        written = self.ledger.append(drafts)
        self.tables.catch_up(self.ledger)
        return written


@pytest.fixture
def fixture(tmp_path: Path) -> Iterator[LedgerFixture]:
    ledger_fixture = LedgerFixture(tmp_path)
    yield ledger_fixture
    ledger_fixture.tables.close()


def ids(records: list[Record]) -> list[str]:
    return [record.id for record in records]


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(batches=st.lists(st.lists(drafts(), min_size=1, max_size=4), max_size=4))
def test_any_record_comes_back_as_the_ledger_has_it(batches: list[list[RecordDraft]]) -> None:
    """The tables have the same records as the ledger, in the same order."""
    with TemporaryDirectory() as folder:
        fixture = LedgerFixture(Path(folder))
        for batch in batches:
            fixture.write(*batch)
        records = list(fixture.ledger.read())

        assert [record for _, record in fixture.tables.applied_after(0)] == records
        assert [fixture.tables.get(record.id) for record in records] == records
        assert fixture.tables.find(RecordQuery()) == records[::-1]
        assert fixture.tables.position() == fixture.ledger.position()
        fixture.tables.close()


def test_only_what_is_new_is_applied(fixture: LedgerFixture) -> None:
    """Catching up a second time applies nothing, and after one more record applies one."""
    fixture.ledger.append([draft()] * 5)

    assert fixture.tables.catch_up(fixture.ledger) == 5
    generation = fixture.tables.generation()
    assert fixture.tables.catch_up(fixture.ledger) == 0
    fixture.ledger.append([draft()] * 30)
    assert fixture.tables.catch_up(fixture.ledger) == 30
    assert fixture.tables.generation() == generation


@pytest.mark.parametrize(
    "how",
    ["changed", "first one changed", "shortened", "replaced", "sealed one changed", "sealed one gone", "all gone"],
)
def test_a_changed_past_rebuilds_all_tables(fixture: LedgerFixture, tmp_path: Path, how: str) -> None:
    """After any change to the ledger's past the tables are rebuilt, with unverified records marked."""
    for _ in range(20):
        fixture.write(draft())
    file, sealed = tmp_path / "ledger.jsonl", tmp_path / "ledger-000001.jsonl"
    assert sealed.exists()
    text = file.read_bytes()
    if how == "changed":
        file.write_bytes(text[:-100] + text[-100:].replace(b"recorded", b"reviewed").replace(b"task-1", b"task-2"))
        assert file.read_bytes() != text
    elif how == "first one changed":
        file.write_bytes(text.replace(b"mara", b"otto", 1))
    elif how == "shortened":
        file.write_bytes(text[: text.rindex(b"\n", 0, -1) + 1])
    elif how == "replaced":
        (tmp_path / "copy").write_bytes(text.replace(b"mara", b"otto"))
        (tmp_path / "copy").rename(file)
    elif how == "sealed one changed":
        sealed.chmod(0o600)
        sealed.write_bytes(sealed.read_bytes().replace(b"mara", b"otto"))
    elif how == "sealed one gone":
        sealed.unlink()
    else:
        for path in tmp_path.glob("ledger*"):
            path.unlink()
    generation = fixture.tables.generation()
    fixture.tables.catch_up(fixture.ledger)

    assert [record for _, record in fixture.tables.applied_after(0)] == list(fixture.ledger.read())
    assert fixture.tables.generation() != generation
    fixture.write(draft())
    assert [record for _, record in fixture.tables.applied_after(0)] == list(fixture.ledger.read())


def test_a_damaged_or_foreign_file_is_replaced(fixture: LedgerFixture) -> None:
    """A file that is not a database, or has another version, is replaced."""
    fixture.write(draft())
    fixture.tables.close()
    fixture.path.write_bytes(b"no database" * 1000)
    fixture.tables = RecordTables(fixture.path)
    assert fixture.tables.catch_up(fixture.ledger) == 1
    fixture.tables.close()
    other = sqlite3.connect(fixture.path)
    other.execute("PRAGMA user_version = 99")
    other.close()
    fixture.tables = RecordTables(fixture.path)

    assert fixture.tables.catch_up(fixture.ledger) == 1
    assert stat.S_IMODE(fixture.path.stat().st_mode) == 0o600


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """A file in place of the folder is one of our errors."""
    (tmp_path / "index").write_text("")

    with pytest.raises(StoreUnwritable):
        RecordTables(tmp_path / "index" / "records.db")


def test_concurrent_readers_apply_each_record_once(fixture: LedgerFixture) -> None:
    """Concurrent threads and connections apply each record once while others write."""
    faults: list[BaseException] = []

    def work(number: int) -> None:
        try:
            tables = RecordTables(fixture.path)
            for _ in range(8):
                fixture.ledger.append([draft(agent=f"agent {number}")] * 2)
                tables.catch_up(fixture.ledger)
                fixture.tables.catch_up(fixture.ledger)
            tables.close()
        except BaseException as error:  # noqa: BLE001
            faults.append(error)

    assert in_threads(work, 4) == []
    fixture.tables.catch_up(fixture.ledger)

    assert faults == []
    assert [record.seq for _, record in fixture.tables.applied_after(0)] == list(range(1, 65))


def test_tasks_say_where_they_are(fixture: LedgerFixture) -> None:
    """Goal and start come from the first record, status and time from the last with one; progress reopens a task."""
    at = "2026-03-05T14:3{}:00.000Z"
    fixture.write(
        draft("task_start", {"goal": "fast", "parent_task_id": "up"}, task="a", project="p", at=at.format(0), id="s"),
        draft("evidence", task="a", at=at.format(1), status="recorded", agent="otto"),
        draft("task_start", {"goal": "small"}, task="b", at=at.format(2)),
        draft("task_progress", task="a", at=at.format(3), id="l"),
        draft("task_finish", task="b", at=at.format(4)),
    )
    task = fixture.tables.task("a")

    assert task is not None
    assert (task.goal, task.project, task.parent, task.status, task.agent) == ("fast", "p", "up", "in_progress", "mara")
    assert (task.started_at, task.finished_at, task.updated_at) == (at.format(0), "", at.format(3))
    assert (task.started_by, task.last, task.records) == ("s", "l", 3)
    assert fixture.tables.task("none") is None
    assert [task.id for task in fixture.tables.tasks()] == ["b", "a"]
    assert [task.id for task in fixture.tables.tasks(["p"])] == ["a"]
    assert [task.id for task in fixture.tables.tasks([""])] == ["b"]
    assert [task.finished_at for task in fixture.tables.tasks(limit=1)] == [at.format(4)]
    fixture.write(draft("task_progress", task="b"))
    assert [(task.status, task.finished_at) for task in fixture.tables.tasks(limit=1)] == [("in_progress", "")]


def test_runs_end_where_they_began(fixture: LedgerFixture) -> None:
    """A finish ends the run it replies to, or the last open one of its writer that fits, else it is a run of its own."""
    fixture.write(
        draft("run_start", id="r1"),
        draft("run_start", {"tool_name": "make", "command": "make"}, id="r2"),
        draft("run_start", agent="otto", id="r3"),
        draft("run_finish", {"tool_name": "pytest"}, id="f1", status="failed"),
        draft("run_finish", agent="otto", reply_to="r2", id="f2"),
        draft("run_finish", agent="nobody", id="f3"),
    )
    runs = {
        run.id: (run.finish, run.status, bool(run.started_at), bool(run.finished_at))
        for run in fixture.tables.runs("task-1")
    }

    assert runs == {
        "f3": ("f3", "completed", False, True),
        "r3": ("", "started", True, False),
        "r2": ("f2", "completed", True, True),
        "r1": ("f1", "failed", True, True),
    }
    assert [run.id for run in fixture.tables.runs("task-1", limit=2)] == ["f3", "r3"]


def test_threads_and_replies_are_found(fixture: LedgerFixture) -> None:
    """Records are found by thread, reply and supersession."""
    fixture.write(
        draft("evidence", id="a", thread="th"),
        draft("review", id="b", thread="th", reply_to="a", relation="reviews"),
        draft("revision", {"related_artifact_ids": ["b"]}, id="c", reply_to="a", relation="revises", supersedes="a"),
    )

    assert ids(fixture.tables.where("thread", "th")) == ["a", "b"]
    assert ids(fixture.tables.where("task", "task-1")) == ["a", "b", "c"]
    assert ids(fixture.tables.where("reply_to", "a")) == ["b", "c"]
    assert ids(fixture.tables.where("supersedes", "a")) == ["c"]
    assert fixture.tables.where("supersedes", "") == fixture.tables.where("reply_to", "") == []
    assert ids(fixture.tables.find(RecordQuery(in_force=True))) == ["c", "b"]
    assert ids(fixture.tables.by_ids(["c", "none", "a", "c"])) == ["a", "c"]


def test_what_records_name_is_found(fixture: LedgerFixture) -> None:
    """Records are found by the entities that they name."""
    about: dict[str, Any] = {
        "dataset_refs": [{"name": "scifact", "version": "1"}],
        "entity_refs": [{"name": "redis", "entity_type": "service"}],
        "challenge_id": "c-1",
    }
    at = "2026-03-05T14:30:00.000Z"
    fixture.write(draft(fields=about, id="a", project="p", at=at), draft(fields=about, id="b", at=at), draft(id="c"))
    tables = fixture.tables

    assert ids(tables.find(RecordQuery(entity="redis"))) == ["b", "a"]


def test_records_are_found_by_what_is_asked(fixture: LedgerFixture) -> None:
    """Records are found by kind, project, task and thread, newest first, in pages."""
    fixture.write(
        draft("evidence", id="a", project="p", task="x"),
        draft("decision", id="b", project="p", task="y", status="rejected"),
        draft("decision", id="c", task="x", thread="th"),
        draft("review", id="d", task="x"),
    )
    for query, expected in (
        (RecordQuery(), "dcba"),
        (RecordQuery(kinds=["decision"]), "cb"),
        (RecordQuery(kinds=["decision", "review"], task="x"), "dc"),
        (RecordQuery(projects=["p"]), "ba"),
        (RecordQuery(projects=[""]), "dc"),
        (RecordQuery(projects=[]), ""),
        (RecordQuery(thread="th"), "c"),
        (RecordQuery(limit=2), "dc"),
        (RecordQuery(limit=2, before=3), "ba"),
    ):
        assert "".join(ids(fixture.tables.find(query))) == expected, query


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["evidence", "decision", "verification", "revision", "review"]),
        st.sampled_from(["mara", "otto", "MARA", ""]),
        *([st.integers(0, 5)] * 3),
        st.sampled_from(["agent", "agent", "agent", "tool"]),
        st.booleans(),
    ),
    max_size=12,
)


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(acts=ACTS)
def test_what_is_around_a_record_is_enough_to_judge_it(acts: list[tuple[str, str, int, int, int, str, bool]]) -> None:
    """Trust computed from the trust context equals trust computed from the whole ledger."""
    with TemporaryDirectory() as folder:
        fixture = LedgerFixture(Path(folder))
        names = [new_id() for _ in acts] + [""] * 13
        fixture.write(
            *(
                draft(
                    kind,
                    {"related_artifact_ids": [names[related]]} if names[related] else {},
                    id=names[number],
                    agent=agent,
                    reply_to=names[reply],
                    supersedes=names[instead] if number % 2 else "",
                    origin=origin,
                    supports_claim=claim,
                )
                for number, (kind, agent, reply, instead, related, origin, claim) in enumerate(acts)
            )
        )
        whole = assess_records(fixture.ledger.read())

        for name in names[: len(acts)]:
            assert assess_records(fixture.tables.trust_context([name]))[name] == whole[name]
        fixture.tables.close()


def test_ids_are_found_by_how_they_begin(fixture: LedgerFixture) -> None:
    """Records and tasks are record by any id prefix; of lines with the same id the first counts."""
    fixture.write(*(draft("task_start", id=prefix, task=f"t{prefix}") for prefix in ("ab%", "ab_", "abc", "b", "é1")))

    assert ids(fixture.tables.with_id_prefix("ab")) == ["ab%", "ab_", "abc"]
    assert ids(fixture.tables.with_id_prefix("ab_")) == ["ab_"]
    assert ids(fixture.tables.with_id_prefix("é")) == ["é1"]
    assert ids(fixture.tables.with_id_prefix("ab", 2)) == ["ab%", "ab_"]
    assert [task.id for task in fixture.tables.tasks_with_id_prefix("tab%")] == ["tab%"]
    assert set(fixture.tables.tasks_by_ids(["tb", "nobody", "tabc"])) == {"tb", "tabc"}


def test_a_ledger_that_was_touched_is_looked_at_again(fixture: LedgerFixture) -> None:
    """Without changes nothing is read; a line changed in place with the same length is noticed."""
    (written,) = fixture.write(draft("task_start", {"goal": "fast"}))
    time.sleep(0.1)  # what was touched just now is always looked at
    assert fixture.tables.catch_up(fixture.ledger) == 0
    assert fixture.ledger.file_stats() is not None

    file = fixture.ledger.folder / "ledger.jsonl"
    file.write_bytes(file.read_bytes().replace(b"fast", b"slow"))

    assert fixture.tables.catch_up(fixture.ledger) == 1
    record = fixture.tables.get(written.id)
    assert record is not None
    assert not record.verified
