"""Splitting texts into batches, and limiting concurrent requests."""

from __future__ import annotations

import itertools
import threading
import time

from hypothesis import given
from hypothesis import strategies as st

from lorelog.models.embed.remote import estimate_tokens, split_batches
from lorelog.models.http import RateLimiter

TEXTS = st.lists(st.text(max_size=60), max_size=30)


@given(texts=TEXTS, most_texts=st.integers(1, 10), max_tokens=st.integers(1, 100))
def test_batches_hold_every_text_once_in_order_within_limits(
    texts: list[str], most_texts: int, max_tokens: int
) -> None:
    """All texts are kept in order, and only a single text may exceed a limit."""
    found = [list(batch) for batch in split_batches(texts, most_texts, max_tokens)]
    assert [text for batch in found for text in batch] == texts
    for batch in found:
        assert 1 <= len(batch) <= most_texts
        assert len(batch) == 1 or sum(map(estimate_tokens, batch)) <= max_tokens


@given(texts=TEXTS, most_texts=st.integers(1, 10), max_tokens=st.integers(1, 100))
def test_batches_are_as_large_as_limits_allow(texts: list[str], most_texts: int, max_tokens: int) -> None:
    """A batch ends only where the next text would break a limit."""
    found = [list(batch) for batch in split_batches(texts, most_texts, max_tokens)]
    for batch, following in itertools.pairwise(found):
        full = sum(map(estimate_tokens, batch)) + estimate_tokens(following[0]) > max_tokens
        assert len(batch) == most_texts or full


@given(st.text(), st.text())
def test_more_text_has_no_fewer_tokens(one: str, other: str) -> None:
    """The estimate is at least one and grows with the text."""
    assert 1 <= estimate_tokens(one) <= estimate_tokens(one + other)


def test_the_guess_is_rather_too_many() -> None:
    """Estimates for English prose, code and Chinese are not below the counts of common tokenizers."""
    assert estimate_tokens("The quick brown fox jumps over the lazy dog.") >= 10
    assert estimate_tokens("def find_files(model: str) -> ModelFiles:") >= 12
    assert estimate_tokens("会话从 Redis 移到了 SQLite") >= 14


def test_no_more_go_at_once_than_are_allowed() -> None:
    """The limit on concurrent requests holds for any number of threads."""
    pace, lock = RateLimiter(3), threading.Lock()
    inside, most = 0, 0

    def work() -> None:
        nonlocal inside, most
        with pace.slot():
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
    """After a 429 the concurrency is halved, but never zero; each good reply raises it by one, up to the initial limit."""
    pace = RateLimiter(4)
    allowed = [pace._allowed]
    for step in (pace.back_off, pace.back_off, pace.back_off):
        step(0)
        allowed.append(pace._allowed)
    for _ in range(5):
        pace.recover()
        allowed.append(pace._allowed)
    assert allowed == [4, 2, 1, 1, 2, 3, 4, 4, 4]


def test_a_hold_is_for_everyone() -> None:
    """No slot is granted before the delay is over, not even for an urgent request."""
    pace = RateLimiter(4)
    pace.back_off(0.3)
    until = time.monotonic() + 0.3
    for urgent in (False, True):
        with pace.slot(urgent=urgent):
            assert time.monotonic() >= until


def test_a_question_passes_texts() -> None:
    """An urgent request does not wait for a slot."""
    pace = RateLimiter(1)
    with pace.slot(), pace.slot(urgent=True):
        pass
