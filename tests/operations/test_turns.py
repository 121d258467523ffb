"""Writers of one tenant take turns, in the order they came, and none of them with a model to wait for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.models.embedding_server import Answer, EmbeddingServer, Request, well

from lorelog.core.errors import Cancelled
from lorelog.operations.dispatch import Caller, Dispatcher
from lorelog.operations.turns import Turns
from lorelog.wiring import Holdings

ONE = Path("one")


def test_who_comes_first_goes_first() -> None:
    """Of many who wait to write, each goes when those before it are done, and one at a time."""
    turns = Turns()
    order: list[int] = []
    inside: list[int] = []

    def write(number: int) -> None:
        with turns.take(ONE):
            inside.append(number)
            assert inside == [number]
            order.append(number)
            inside.remove(number)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(20)]
    with turns.take(ONE):
        for waiting, one in enumerate(writers, start=2):
            one.start()
            while turns.waiting(ONE) < waiting:
                time.sleep(0.001)
    for one in writers:
        one.join()

    assert order == list(range(20))


def test_a_writer_that_fails_passes_its_turn_on() -> None:
    """An error inside a turn ends the turn; another tenant's turn waits for nobody."""
    turns = Turns()
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), turns.take(ONE), turns.take(Path("two")):
            raise ZeroDivisionError

    assert (turns.waiting(ONE), turns.waiting(Path("two"))) == (0, 0)


def test_who_is_called_off_while_waiting_leaves_the_queue() -> None:
    """A writer whose caller has gone leaves before its turn, and those behind it go on."""
    turns = Turns()
    done: list[str] = []
    called_off = threading.Event()

    def gone(stage: str, at: int, total: int) -> None:
        if called_off.is_set():
            raise Cancelled("gone")

    def write(name: str, progress: Any) -> None:
        try:
            with turns.take(ONE, progress):
                done.append(name)
        except Cancelled:
            done.append(f"not {name}")

    writers = [threading.Thread(target=write, args=one) for one in (("first", gone), ("second", None))]
    with turns.take(ONE):
        for waiting, one in enumerate(writers, start=2):
            one.start()
            while turns.waiting(ONE) < waiting:
                time.sleep(0.001)
        called_off.set()
        writers[0].join()
        assert done == ["not first"]
    writers[1].join()

    assert done == ["not first", "second"]
    assert turns.waiting(ONE) == 0


def test_who_was_called_off_just_before_its_turn_does_nothing() -> None:
    """That the caller has gone is seen after the turn was won, too."""
    turns = Turns()
    done: list[str] = []

    def write() -> None:
        def gone(stage: str, at: int, total: int) -> None:
            raise Cancelled("gone")

        with pytest.raises(Cancelled), turns.take(ONE, gone):
            done.append("written")

    writer = threading.Thread(target=write)
    with turns.take(ONE):
        writer.start()
        while turns.waiting(ONE) < 2:
            time.sleep(0.001)
    writer.join()

    assert done == []


@pytest.fixture
def hung() -> Iterator[tuple[EmbeddingServer, threading.Event]]:
    """A model that answers only when the test lets it."""
    free = threading.Event()

    def late(request: Request) -> Answer:
        free.wait(60)
        return well(request)

    server = EmbeddingServer(late)
    yield server, free
    free.set()
    server.stop()


def test_nobody_waits_for_another_ones_model(
    tmp_path: Path, home: Path, hung: tuple[EmbeddingServer, threading.Event]
) -> None:
    """While one's model does not answer, others of the tenant add and delete; the answer still waits for the vectors."""
    server, free = hung
    holdings = Holdings()
    dispatcher = Dispatcher(holdings.engine)
    plain = Caller(str(tmp_path), {"LORELOG_HOME": str(home), "LORELOG_EMBEDDING_PROVIDER": "none"})
    slow = {
        "LORELOG_HOME": str(home),
        "LORELOG_EMBEDDING_PROVIDER": "openai",
        "LORELOG_EMBEDDING_MODEL": "late",
        "LORELOG_EMBEDDING_BASE_URL": server.url,
        "OPENAI_API_KEY": "a-key",
    }
    said: list[dict[str, Any]] = []

    def add() -> None:
        said.append(dispatcher.call("memory.add", {"text": "the okapi hides"}, Caller(str(tmp_path), slow)))

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
    assert said[0]["notes"] == []
    assert dispatcher.call("memory.stats", {}, Caller(str(tmp_path), slow))["vectors"] == 1
    holdings.close()


def test_a_memory_whose_teller_went_while_it_waited_is_not_written(tmp_path: Path, home: Path) -> None:
    """A call that is called off while it waits for its turn leaves no journal."""
    dispatcher = Dispatcher()
    caller = Caller(str(tmp_path), {"LORELOG_HOME": str(home), "LORELOG_EMBEDDING_PROVIDER": "none"})
    folder = home / "tenants" / "default"
    said: list[str] = []

    def gone(stage: str, at: int, total: int) -> None:
        raise Cancelled("gone")

    def add() -> None:
        try:
            dispatcher.call("memory.add", {"text": "too late"}, caller, gone)
        except Cancelled as error:
            said.append(error.code)

    adding = threading.Thread(target=add)
    with dispatcher._turns.take(folder):
        adding.start()
        adding.join(60)
    adding.join()

    assert said == ["cancelled"]
    assert not (tmp_path / ".lorelog").exists()
