"""Tables say what the ledger says, follow it, and can be thrown away."""

from __future__ import annotations

import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.records.any_drafts import drafts
from tests.records.drafts import draft

from lorelog.core.errors import StoreUnwritable
from lorelog.core.identity import new_id
from lorelog.core.record import Draft, Promotion, Record
from lorelog.records.ledger import Ledger
from lorelog.records.tables import Asked, Named, RecordTables, Relation
from lorelog.records.trust import tiers


class Place:
    """A ledger and its tables."""

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger(folder, most_bytes=4000)
        self.path = folder / "index" / "records.db"
        self.tables = RecordTables(self.path)

    def write(self, *drafts: Draft) -> list[Record]:
        written = self.ledger.append(drafts)
        self.tables.catch_up(self.ledger)
        return written


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """An empty one."""
    found = Place(tmp_path)
    yield found
    found.tables.close()


def ids(records: list[Record]) -> list[str]:
    return [one.id for one in records]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(batches=st.lists(st.lists(drafts(), min_size=1, max_size=4), max_size=4))
def test_any_record_comes_back_as_the_ledger_has_it(batches: list[list[Draft]]) -> None:
    """Whatever was written: the tables have the same records, in the same order, equal in all."""
    with TemporaryDirectory() as folder:
        place = Place(Path(folder))
        for batch in batches:
            place.write(*batch)
        records = list(place.ledger.read())

        assert [record for _, record in place.tables.after(0)] == records
        assert [place.tables.get(one.id) for one in records] == records
        assert place.tables.find(Asked()) == records[::-1]
        assert place.tables.position() == place.ledger.position()
        place.tables.close()


def test_only_what_is_new_is_applied(place: Place) -> None:
    """Catching up twice does nothing the second time, and one more record is one."""
    place.ledger.append([draft()] * 5)

    assert place.tables.catch_up(place.ledger) == 5
    generation = place.tables.generation()
    assert place.tables.catch_up(place.ledger) == 0
    place.ledger.append([draft()] * 30)
    assert place.tables.catch_up(place.ledger) == 30
    assert place.tables.generation() == generation


@pytest.mark.parametrize(
    "how",
    ["changed", "first one changed", "shortened", "replaced", "sealed one changed", "sealed one gone", "all gone"],
)
def test_a_changed_past_makes_all_tables_anew(place: Place, tmp_path: Path, how: str) -> None:
    """Whatever was done to what had been read: the tables are what the ledger is now, and say what is unverified."""
    for _ in range(20):
        place.write(draft())
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
        for one in tmp_path.glob("ledger*"):
            one.unlink()
    generation = place.tables.generation()
    place.tables.catch_up(place.ledger)

    assert [record for _, record in place.tables.after(0)] == list(place.ledger.read())
    assert place.tables.generation() != generation
    place.write(draft())
    assert [record for _, record in place.tables.after(0)] == list(place.ledger.read())


def test_a_damaged_or_foreign_file_is_made_anew(place: Place) -> None:
    """The tables are no truth: bytes that are none, or of another version, are replaced."""
    place.write(draft())
    place.tables.close()
    place.path.write_bytes(b"no database" * 1000)
    place.tables = RecordTables(place.path)
    assert place.tables.catch_up(place.ledger) == 1
    place.tables.close()
    other = sqlite3.connect(place.path)
    other.execute("PRAGMA user_version = 99")
    other.close()
    place.tables = RecordTables(place.path)

    assert place.tables.catch_up(place.ledger) == 1
    assert stat.S_IMODE(place.path.stat().st_mode) == 0o600


def test_tables_can_lie_in_memory(place: Place) -> None:
    """Where nothing can be written, the ledger can be asked all the same."""
    place.write(draft())
    tables = RecordTables(None)
    tables.catch_up(place.ledger)

    assert [one for _, one in tables.after(0)] == list(place.ledger.read())
    tables.close()


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """No traceback for a file where a folder should be."""
    (tmp_path / "index").write_text("")

    with pytest.raises(StoreUnwritable):
        RecordTables(tmp_path / "index" / "records.db")


def test_many_who_catch_up_at_once_apply_each_record_once(place: Place) -> None:
    """Threads and connections, while others write."""
    faults: list[BaseException] = []

    def work(number: int) -> None:
        try:
            tables = RecordTables(place.path)
            for _ in range(8):
                place.ledger.append([draft(agent=f"agent {number}")] * 2)
                tables.catch_up(place.ledger)
                place.tables.catch_up(place.ledger)
            tables.close()
        except BaseException as error:  # noqa: BLE001
            faults.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    place.tables.catch_up(place.ledger)

    assert faults == []
    assert [record.seq for _, record in place.tables.after(0)] == list(range(1, 65))


def test_tasks_say_where_they_are(place: Place) -> None:
    """Goal and start from the first record, status and time from the last that has one; reopened when somebody goes on."""
    at = "2026-03-05T14:3{}:00.000Z"
    place.write(
        draft("task_start", {"goal": "fast", "parent_task_id": "up"}, task="a", project="p", at=at.format(0), id="s"),
        draft("evidence", task="a", at=at.format(1), status="recorded", agent="otto"),
        draft("task_start", {"goal": "small"}, task="b", at=at.format(2)),
        draft("task_progress", task="a", at=at.format(3), id="l"),
        draft("task_finish", task="b", at=at.format(4)),
    )
    task = place.tables.task("a")

    assert task is not None
    assert (task.goal, task.project, task.parent, task.status, task.agent) == ("fast", "p", "up", "in_progress", "mara")
    assert (task.started_at, task.finished_at, task.updated_at) == (at.format(0), "", at.format(3))
    assert (task.started_by, task.last, task.records) == ("s", "l", 3)
    assert place.tables.task("none") is None
    assert [one.id for one in place.tables.tasks()] == ["b", "a"]
    assert [one.id for one in place.tables.tasks(project="p")] == ["a"]
    assert [one.id for one in place.tables.tasks(project="")] == ["b"]
    assert [one.id for one in place.tables.tasks(statuses=["completed", "failed"])] == ["b"]
    assert [one.finished_at for one in place.tables.tasks(most=1)] == [at.format(4)]
    place.write(draft("task_progress", task="b"))
    assert [(one.status, one.finished_at) for one in place.tables.tasks(most=1)] == [("in_progress", "")]


def test_runs_end_where_they_began(place: Place) -> None:
    """A finish ends the run that it replies to, or the last open one of its writer that fits; else it is a run by itself."""
    place.write(
        draft("run_start", id="r1"),
        draft("run_start", {"tool_name": "make", "command": "make"}, id="r2"),
        draft("run_start", agent="otto", id="r3"),
        draft("run_finish", {"tool_name": "pytest"}, id="f1", status="failed"),
        draft("run_finish", agent="otto", reply_to="r2", id="f2"),
        draft("run_finish", agent="nobody", id="f3"),
    )
    runs = {
        run.id: (run.finish, run.status, bool(run.started_at), bool(run.finished_at))
        for run in place.tables.runs("task-1")
    }

    assert runs == {
        "f3": ("f3", "completed", False, True),
        "r3": ("", "started", True, False),
        "r2": ("f2", "completed", True, True),
        "r1": ("f1", "failed", True, True),
    }
    assert [run.id for run in place.tables.runs("task-1", most=2)] == ["f3", "r3"]


def test_threads_replies_and_relations_are_found(place: Place) -> None:
    """By thread, by what is replied to, by what is superseded, and by any relation, both ways."""
    place.write(
        draft("evidence", id="a", thread="th"),
        draft("review", id="b", thread="th", reply_to="a", relation="reviews"),
        draft("revision", {"related_artifact_ids": ["b"]}, id="c", reply_to="a", relation="revises", supersedes="a"),
    )

    assert ids(place.tables.of_thread("th")) == ["a", "b"]
    assert ids(place.tables.of_task("task-1")) == ["a", "b", "c"]
    assert ids(place.tables.replies("a")) == ["b", "c"]
    assert ids(place.tables.superseding("a")) == ["c"]
    assert place.tables.superseding("") == place.tables.replies("") == []
    assert ids(place.tables.find(Asked(in_force=True))) == ["c", "b"]
    assert ids(place.tables.of_ids(["c", "none", "a", "c"])) == ["a", "c"]
    assert place.tables.relations("a") == [
        Relation("b", "a", "reviews"),
        Relation("c", "a", "revises"),
        Relation("c", "a", "supersedes"),
    ]
    assert place.tables.relations("b") == [Relation("b", "a", "reviews"), Relation("c", "b", "related")]


def test_what_records_name_is_found(place: Place) -> None:
    """Datasets, entities, challenges and contributors: what there is, how often, and the records of each."""
    about: dict[str, Any] = {
        "dataset_refs": [{"name": "scifact", "version": "1"}],
        "entity_refs": [{"name": "redis", "entity_type": "service"}],
        "challenge_id": "c-1",
        "contributors": ["otto"],
    }
    at = "2026-03-05T14:30:00.000Z"
    place.write(draft(fields=about, id="a", project="p", at=at), draft(fields=about, id="b", at=at), draft(id="c"))
    tables = place.tables

    assert tables.datasets() == [Named("scifact", "1", 2, at)]
    assert tables.entities("p") == [Named("redis", "service", 1, at)]
    assert tables.challenges() == [Named("c-1", "", 2, at)]
    assert tables.contributors("q") == []
    assert tables.contributors() == [Named("otto", "", 2, at)]
    for asked in (Asked(dataset="scifact"), Asked(entity="redis"), Asked(challenge="c-1")):
        assert ids(tables.find(asked)) == ["b", "a"]
    assert tables.counts() == {"decision": 3}


def test_records_are_found_by_what_is_asked(place: Place) -> None:
    """Kind, project, task, thread and status; newest first, in pages."""
    place.write(
        draft("evidence", id="a", project="p", task="x"),
        draft("decision", id="b", project="p", task="y", status="rejected"),
        draft("decision", id="c", task="x", thread="th"),
        draft("review", id="d", task="x"),
    )
    for asked, expected in (
        (Asked(), "dcba"),
        (Asked(kinds=["decision"]), "cb"),
        (Asked(kinds=["decision", "review"], task="x"), "dc"),
        (Asked(project="p"), "ba"),
        (Asked(project=""), "dc"),
        (Asked(thread="th"), "c"),
        (Asked(status="rejected"), "b"),
        (Asked(most=2), "dc"),
        (Asked(most=2, before=3), "ba"),
    ):
        assert "".join(ids(place.tables.find(asked))) == expected, asked


def test_what_superseded_a_record_is_around_it(place: Place) -> None:
    """A late verification is refused, and its parent shows none, though neither names what came between."""
    place.write(
        draft("evidence", id="claim"),
        draft("decision", id="newer", supersedes="claim"),
        draft("verification", id="late", agent="otto", reply_to="claim", supports_claim=True),
    )
    whole = tiers(place.ledger.read())

    assert whole["late"].promotion is Promotion.REFUSED
    assert tiers(place.tables.around(["late"]))["late"] == whole["late"]
    assert tiers(place.tables.around(["claim"]))["claim"] == whole["claim"]


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


@settings(max_examples=60, deadline=None)
@given(acts=ACTS)
def test_what_is_around_a_record_is_enough_to_judge_it(acts: list[tuple[str, str, int, int, int, str, bool]]) -> None:
    """A record's trust from what is around it is its trust from the whole ledger."""
    with TemporaryDirectory() as folder:
        place = Place(Path(folder))
        names = [new_id() for _ in acts] + [""] * 13
        place.write(
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
        whole = tiers(place.ledger.read())

        for one in names[: len(acts)]:
            assert tiers(place.tables.around([one]))[one] == whole[one]
        place.tables.close()


def test_ids_are_found_by_how_they_begin(place: Place) -> None:
    """Records and tasks whose ids begin with a text, whatever characters it has; of lines with one id the first."""
    place.write(*(draft("task_start", id=one, task=f"t{one}") for one in ("ab%", "ab_", "abc", "b", "é1")))

    assert ids(place.tables.beginning("ab")) == ["ab%", "ab_", "abc"]
    assert ids(place.tables.beginning("ab_")) == ["ab_"]
    assert ids(place.tables.beginning("é")) == ["é1"]
    assert ids(place.tables.beginning("ab", 2)) == ["ab%", "ab_"]
    assert [one.id for one in place.tables.tasks_beginning("tab%")] == ["tab%"]
    assert set(place.tables.tasks_of(["tb", "nobody", "tabc"])) == {"tb", "tabc"}


def test_several_projects_can_be_asked_for(place: Place) -> None:
    """Records and tasks of any of some projects; of none of them where none is named."""
    place.write(*(draft("task_start", id=f"r{one}", task=f"t{one}", project=one) for one in ("", "p", "q")))

    assert ids(place.tables.find(Asked(projects=["p", ""]))) == ["rp", "r"]
    assert place.tables.find(Asked(projects=[])) == []
    assert [one.id for one in place.tables.tasks(projects=["q", "p"])] == ["tq", "tp"]
    assert ids(place.tables.find(Asked(agent="mara", projects=["q"]))) == ["rq"]
    assert place.tables.find(Asked(agent="otto")) == []


def test_what_was_superseded_is_known(place: Place) -> None:
    """Of some records, those that another has taken the place of."""
    place.write(draft(id="a"), draft(id="b"), draft(id="c", supersedes="a"))

    assert place.tables.superseded(["a", "b", "c", "nobody"]) == {"a"}
    assert place.tables.superseded([]) == set()


def test_a_ledger_that_was_touched_is_looked_at_again(place: Place) -> None:
    """Nothing new costs no reading; a line that is changed in place, its length kept, is seen all the same."""
    (written,) = place.write(draft("task_start", {"goal": "fast"}))
    time.sleep(0.1)  # what was touched just now is always looked at
    assert place.tables.catch_up(place.ledger) == 0
    assert place.ledger.marks() is not None

    file = place.ledger.folder / "ledger.jsonl"
    file.write_bytes(file.read_bytes().replace(b"fast", b"slow"))

    assert place.tables.catch_up(place.ledger) == 1
    found = place.tables.get(written.id)
    assert found is not None
    assert not found.verified
