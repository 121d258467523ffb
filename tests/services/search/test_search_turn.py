"""Searches of one process compute one at a time."""

from __future__ import annotations

import threading

import pytest

from lorelog.services.search import searcher
from lorelog.services.search.searcher import SearchTurn


def test_one_search_computes_at_a_time_and_none_is_overtaken() -> None:
    """Waiting threads get their turn in the order in which they came."""
    turn, order, running = SearchTurn(), list[int](), list[int]()
    threads: list[threading.Thread] = []

    def compute(number: int) -> None:
        with turn.taken():
            running.append(number)
            assert running == [number]
            order.append(number)
            running.remove(number)

    with turn.taken():
        for number in range(8):
            threads.append(threading.Thread(target=compute, args=(number,)))
            threads[-1].start()
            while len(turn._waiting) <= number:
                threads[-1].join(0.001)
        assert not order
    for thread in threads:
        thread.join()
    assert order == list(range(8))


def test_a_search_that_waits_for_its_vector_lets_others_compute() -> None:
    """Another thread computes while the first one has left its turn, and the first has its turn again afterwards."""
    turn, said = SearchTurn(), list[str]()

    def other() -> None:
        with turn.taken():
            said.append("other")

    with turn.taken(), turn.taken():
        with turn.left():
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
        late = threading.Thread(target=other)
        late.start()
        while not turn._waiting:
            late.join(0.001)
        said.append("first")
    late.join()
    assert said == ["other", "first", "other"]


def test_a_search_that_hangs_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread goes ahead without a turn after the longest wait, and the turn still works for the next one."""
    monkeypatch.setattr(searcher, "_MAX_TURN_WAIT_S", 0.01)
    turn, said = SearchTurn(), list[str]()

    def other() -> None:
        with turn.taken():
            said.append("went ahead")

    with turn.taken():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert said == ["went ahead"]
    with turn.taken():
        assert turn._owner == threading.get_ident()
    assert not turn._is_taken
