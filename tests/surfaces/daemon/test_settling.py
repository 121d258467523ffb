"""What is recorded becomes findable by meaning behind everyone's back: once, together, and never in anyone's way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.surfaces.daemon.conftest import Warm, eventually

from lorelog.core.errors import StoreBusy
from lorelog.surfaces.daemon import client, settling
from lorelog.surfaces.daemon.settling import Settling
from lorelog.surfaces.daemon.work import Work


class Engines:
    """Stands for engines: counts what is settled, and fails as told."""

    def __init__(self) -> None:
        self.settled: list[tuple[str, str]] = []
        self.faults: list[Exception] = []
        self.done = threading.Event()
        self._place = ("", "")

    def at(self, tenant: str, directory: str) -> Engines:
        self._place = (tenant, directory)
        return self

    def settle(self, go_on: Callable[[], bool]) -> None:
        assert go_on()
        self.settled.append(self._place)
        if self.faults:
            raise self.faults.pop(0)
        self.done.set()


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_GATHER_S", "_AGAIN_S", "_STEP_ASIDE_S"):
        monkeypatch.setattr(settling, name, 0.01)


@pytest.fixture
def engines() -> Engines:
    return Engines()


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def settler(tmp_path: Path, engines: Engines, log: list[str]) -> Iterator[Settling]:
    work = Work(lambda *_: {}, log.append)
    one = Settling(str(tmp_path), work, engines.at, {"default": "/p", "none": "/q"})  # type: ignore[arg-type]
    one.start()
    yield one
    one.stop()


def write(home: Path, text: str) -> None:
    (home / "tenants" / "default").mkdir(parents=True, exist_ok=True)
    with (home / "tenants" / "default" / "ledger.jsonl").open("a", encoding="utf-8") as file:
        file.write(text)


def test_a_ledger_that_grew_is_settled_once(settler: Settling, engines: Engines, tmp_path: Path) -> None:
    """After a call, what was written is seen to from where it was asked for; without a change nothing is."""
    write(tmp_path, "a")
    settler.wake()
    assert engines.done.wait(10)
    engines.done.clear()
    settler.wake()
    settler.wake()
    assert not engines.done.wait(0.3)

    write(tmp_path, "b")
    settler.wake()
    assert engines.done.wait(10)
    assert engines.settled == [("default", "/p")] * 2


def test_a_busy_index_is_come_back_to(settler: Settling, engines: Engines, tmp_path: Path, log: list[str]) -> None:
    """Where another process writes, it is tried again without anybody asking, and nobody is told of a fault."""
    engines.faults = [StoreBusy("busy"), StoreBusy("busy")]
    write(tmp_path, "a")
    settler.wake()

    assert engines.done.wait(10)
    assert len(engines.settled) == 3
    assert log == []


def test_a_fault_is_told_and_ends_nothing(settler: Settling, engines: Engines, tmp_path: Path, log: list[str]) -> None:
    """What goes wrong is written down; the next change is seen to."""
    engines.faults = [ValueError("odd")]
    write(tmp_path, "a")
    settler.wake()
    while not log:
        threading.Event().wait(0.01)
    write(tmp_path, "b")
    settler.wake()

    assert engines.done.wait(10)
    assert "odd" in log[0]


def test_records_written_through_the_daemon_get_vectors(warm: Warm, tmp_path: Path) -> None:
    """Nobody has to index: a moment after a record was written it is found by meaning, too."""
    warm.ask("memory.stats")
    (Path(warm.address.home) / "config.toml").write_text('[embedding]\nprovider = "fake"\n')
    client.ask("task.start", {"goal": "teach otters to sleep"}, directory=str(tmp_path))

    def covered() -> bool:
        coverage = client.ask("memory.stats", directory=str(tmp_path))["coverage"]
        return bool(coverage["with_vectors"] == coverage["chunks"] == 1)

    eventually(covered, "the record has its vector")
    (hit,) = client.ask("memory.search", {"query": "otters", "trust": "canonical"}, directory=str(tmp_path))["hits"]
    assert hit["trust"]["tier"] == "canonical_record"
    assert warm.status()["last_error"] is None
