"""Which texts go together, and how requests take turns."""

from __future__ import annotations

import itertools
import threading
import time

from hypothesis import given
from hypothesis import strategies as st

from lorelog.models.batches import batches, guess_tokens
from lorelog.models.pace import Pace

TEXTS = st.lists(st.text(max_size=60), max_size=30)


@given(texts=TEXTS, most_texts=st.integers(1, 10), most_tokens=st.integers(1, 100))
def test_batches_hold_every_text_once_in_order_within_limits(
    texts: list[str], most_texts: int, most_tokens: int
) -> None:
    """All texts come, in order, none twice; a batch breaks a limit only where a single text does."""
    found = [list(batch) for batch in batches(texts, most_texts, most_tokens)]
    assert [text for batch in found for text in batch] == texts
    for batch in found:
        assert 1 <= len(batch) <= most_texts
        assert len(batch) == 1 or sum(map(guess_tokens, batch)) <= most_tokens


@given(texts=TEXTS, most_texts=st.integers(1, 10), most_tokens=st.integers(1, 100))
def test_batches_are_no_smaller_than_need_be(texts: list[str], most_texts: int, most_tokens: int) -> None:
    """A batch ends only where the next text would break a limit."""
    found = [list(batch) for batch in batches(texts, most_texts, most_tokens)]
    for batch, following in itertools.pairwise(found):
        full = sum(map(guess_tokens, batch)) + guess_tokens(following[0]) > most_tokens
        assert len(batch) == most_texts or full


@given(st.text(), st.text())
def test_more_text_has_no_fewer_tokens(one: str, other: str) -> None:
    """The guess is at least one and grows with the text."""
    assert 1 <= guess_tokens(one) <= guess_tokens(one + other)


def test_the_guess_is_rather_too_many() -> None:
    """English prose, code and Chinese are guessed at no less than common tokenizers find."""
    assert guess_tokens("The quick brown fox jumps over the lazy dog.") >= 10
    assert guess_tokens("def find_files(model: str) -> ModelFiles:") >= 12
    assert guess_tokens("会话从 Redis 移到了 SQLite") >= 14


def test_no_more_go_at_once_than_are_allowed() -> None:
    """However many threads ask, only so many have a turn at a time."""
    pace, lock = Pace(3), threading.Lock()
    inside, most = 0, 0

    def work() -> None:
        nonlocal inside, most
        with pace.turn():
            with lock:
                inside += 1
                most = max(most, inside)
            time.sleep(0.01)
            with lock:
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 3


def test_a_hold_halves_and_good_answers_bring_back() -> None:
    """After a hold half as many may go at once, never none; each good answer lets one more go, up to the first number."""
    pace = Pace(4)
    allowed = [pace._allowed]
    for step in (pace.hold, pace.hold, pace.hold):
        step(0)
        allowed.append(pace._allowed)
    for _ in range(5):
        pace.ease()
        allowed.append(pace._allowed)
    assert allowed == [4, 2, 1, 1, 2, 3, 4, 4, 4]


def test_a_hold_is_for_everyone() -> None:
    """Nobody's turn comes before a hold is over, an urgent one's neither."""
    pace = Pace(4)
    pace.hold(0.3)
    until = time.monotonic() + 0.3
    for urgent in (False, True):
        with pace.turn(urgent=urgent):
            assert time.monotonic() >= until


def test_a_question_passes_texts() -> None:
    """Who is urgent need not wait for those at work."""
    pace = Pace(1)
    with pace.turn(), pace.turn(urgent=True):
        pass
