"""The write queue of a tenant: order of arrival, cancellation, and no waiting for another writer's model."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.models.embedding_server import Answer, EmbeddingServer, Request, well

from lorelog.core.errors import Cancelled
from lorelog.operations.dispatch import ClientIdentity, Dispatcher, WriteQueue
from lorelog.wiring import ResourcePool

ONE = Path("one")


def test_writers_run_in_order_of_arrival() -> None:
    """Waiting writers run one at a time, in order of arrival."""
    turns = WriteQueue()
    order: list[int] = []
    inside: list[int] = []

    def write(number: int) -> None:
        with turns.acquire(ONE):
            inside.append(number)
            assert inside == [number]
            order.append(number)
            inside.remove(number)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(20)]
    with turns.acquire(ONE):
        for waiting, item in enumerate(writers, start=2):
            item.start()
            while turns.queue_length(ONE) < waiting:
                time.sleep(0.001)
    for writer in writers:
        writer.join()

    assert order == list(range(20))


def test_a_writer_that_fails_passes_its_turn_on() -> None:
    """An error releases the slot; another tenant's slot is independent."""
    turns = WriteQueue()
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), turns.acquire(ONE), turns.acquire(Path("two")):
            raise ZeroDivisionError

    assert (turns.queue_length(ONE), turns.queue_length(Path("two"))) == (0, 0)


def test_a_slot_that_is_released_twice_is_taken_back_once() -> None:
    """A review that embeds a rule while its slot is released leaves nothing in the queue for others to wait for."""
    turns = WriteQueue()
    with turns.acquire(ONE) as slot:
        with slot.released():
            with slot.released():
                pass
            assert turns.queue_length(ONE) == 0
        assert turns.queue_length(ONE) == 1

    assert turns.queue_length(ONE) == 0


def test_a_cancelled_writer_leaves_the_queue() -> None:
    """A cancelled writer leaves the queue, and the writers behind it proceed."""
    turns = WriteQueue()
    done: list[str] = []
    called_off = threading.Event()

    def gone(stage: str, at: int, total: int) -> None:
        if called_off.is_set():
            raise Cancelled("gone")

    def write(name: str, progress: Any) -> None:
        try:
            with turns.acquire(ONE, progress):
                done.append(name)
        except Cancelled:
            done.append(f"not {name}")

    writers = [threading.Thread(target=write, args=arguments) for arguments in (("first", gone), ("second", None))]
    with turns.acquire(ONE):
        for waiting, writer in enumerate(writers, start=2):
            writer.start()
            while turns.queue_length(ONE) < waiting:
                time.sleep(0.001)
        called_off.set()
        writers[0].join()
        assert done == ["not first"]
    writers[1].join()

    assert done == ["not first", "second"]
    assert turns.queue_length(ONE) == 0


def test_a_writer_cancelled_at_its_turn_does_nothing() -> None:
    """Cancellation is noticed also when the slot is acquired at the same moment."""
    turns = WriteQueue()
    done: list[str] = []

    def write() -> None:
        def gone(stage: str, at: int, total: int) -> None:
            raise Cancelled("gone")

        with pytest.raises(Cancelled), turns.acquire(ONE, gone):
            done.append("written")

    writer = threading.Thread(target=write)
    with turns.acquire(ONE):
        writer.start()
        while turns.queue_length(ONE) < 2 and writer.is_alive():  # it may have left before it was seen
            time.sleep(0.001)
    writer.join()

    assert done == []


@pytest.fixture
def hung() -> Iterator[tuple[EmbeddingServer, threading.Event]]:
    """A model that replies only when the test allows it."""
    free = threading.Event()

    def late(request: Request) -> Answer:
        free.wait(60)
        return well(request)

    server = EmbeddingServer(late)
    yield server, free
    free.set()
    server.stop()


def test_calls_do_not_wait_for_the_model_of_another(
    tmp_path: Path, home: Path, hung: tuple[EmbeddingServer, threading.Event]
) -> None:
    """While one call waits for its model, other calls of the tenant add and delete; its reply still waits for the vectors."""
    server, free = hung
    holdings = ResourcePool()
    dispatcher = Dispatcher(holdings.engine)
    plain = ClientIdentity(str(tmp_path), {"LORELOG_HOME": str(home), "LORELOG_EMBEDDING_PROVIDER": "none"})
    slow = {
        "LORELOG_HOME": str(home),
        "LORELOG_EMBEDDING_PROVIDER": "openai",
        "LORELOG_EMBEDDING_MODEL": "late",
        "LORELOG_EMBEDDING_BASE_URL": server.url,
        "OPENAI_API_KEY": "a-key",
    }
    said: list[dict[str, Any]] = []

    def add() -> None:
        said.append(dispatcher.call("memory.add", {"text": "the okapi hides"}, ClientIdentity(str(tmp_path), slow)))

    adding = threading.Thread(target=add)
    adding.start()
    while not server.requests:
        time.sleep(0.01)
    kept = dispatcher.call("memory.add", {"text": "the numbat digs"}, plain)
    assert kept["searchable"]
    assert dispatcher.call("memory.delete", {"id": kept["memory"]}, plain)["id"]
    assert said == []
    free.set()
    adding.join()

    assert said[0]["searchable"]
    assert not [note for note in said[0]["notes"] if "saved" in note]
    assert dispatcher.call("memory.stats", {}, ClientIdentity(str(tmp_path), slow))["vectors"] == 1
    holdings.close()
