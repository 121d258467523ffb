"""The background index thread: records become searchable by meaning without delaying requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.surfaces.daemon.conftest import Warm, eventually

from lorelog.core.errors import StoreBusy
from lorelog.light import daemon_client as client
from lorelog.surfaces.daemon import process as background
from lorelog.surfaces.daemon.connection import OperationRunner
from lorelog.surfaces.daemon.process import BackgroundIndexThread


class Engines:
    """Fake engines that count background runs and fail on demand."""

    def __init__(self) -> None:
        self.settled: list[tuple[str, str]] = []
        self.faults: list[Exception] = []
        self.done = threading.Event()
        self._place = ("", "")

    def at(self, tenant: str, directory: str) -> Engines:
        self._place = (tenant, directory)
        return self

    def run_background_work(self, go_on: Callable[[], bool], finish: object) -> None:
        assert go_on()
        self.settled.append(self._place)
        if self.faults:
            raise self.faults.pop(0)
        self.done.set()


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_DEBOUNCE_S", "_RETRY_S", "_YIELD_S"):
        monkeypatch.setattr(background, name, 0.01)


@pytest.fixture
def engines() -> Engines:
    return Engines()


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def settler(tmp_path: Path, engines: Engines, log: list[str]) -> Iterator[BackgroundIndexThread]:
    work = OperationRunner(lambda *_: {}, log.append)
    directories = {"default": "/p", "none": "/q"}
    thread = BackgroundIndexThread(str(tmp_path), work, engines.at, directories)  # type: ignore[arg-type]
    thread.start()
    yield thread
    thread.stop()


def write(home: Path, text: str) -> None:
    (home / "data" / "default").mkdir(parents=True, exist_ok=True)
    with (home / "data" / "default" / "ledger.jsonl").open("a", encoding="utf-8") as file:
        file.write(text)


def test_a_ledger_that_grew_is_settled_once(settler: BackgroundIndexThread, engines: Engines, tmp_path: Path) -> None:
    """After a call, a changed ledger is indexed once, from the directory of the request; an unchanged one is not."""
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


def test_a_busy_index_is_come_back_to(
    settler: BackgroundIndexThread, engines: Engines, tmp_path: Path, log: list[str]
) -> None:
    """A locked index is tried again by itself, and not reported as a failure."""
    engines.faults = [StoreBusy("busy"), StoreBusy("busy")]
    write(tmp_path, "a")
    settler.wake()

    assert engines.done.wait(10)
    assert len(engines.settled) == 3
    assert log == []


def test_a_fault_is_told_and_ends_nothing(
    settler: BackgroundIndexThread, engines: Engines, tmp_path: Path, log: list[str]
) -> None:
    """A failure is logged, and the next change is indexed."""
    engines.faults = [ValueError("odd")]
    write(tmp_path, "a")
    settler.wake()
    while not log:
        threading.Event().wait(0.01)
    write(tmp_path, "b")
    settler.wake()

    assert engines.done.wait(10)
    assert "odd" in log[0]


@pytest.mark.slow
def test_records_written_through_the_daemon_get_vectors(warm: Warm, tmp_path: Path) -> None:
    """A new record is soon found by meaning without an index command."""
    warm.ask("memory.stats")
    (Path(warm.address.home) / "config.toml").write_text('[embedding]\nprovider = "fake"\n')
    client.call_daemon("task.start", {"goal": "teach otters to sleep"}, directory=str(tmp_path))

    def covered() -> bool:
        coverage = client.call_daemon("memory.stats", directory=str(tmp_path))["coverage"]
        return bool(coverage["with_vectors"] == coverage["chunks"] == 1)

    eventually(covered, "the record has its vector")
    (hit,) = client.call_daemon("memory.search", {"query": "otters", "trust": "canonical"}, directory=str(tmp_path))[
        "hits"
    ]
    assert hit["trust"]["tier"] == "canonical_record"
    assert warm.status()["last_error"] is None
