"""What models cost is written down before and after, and the daily limit holds whoever asks at once."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lorelog.core.errors import DailyLimitReached, ModelUnavailable, StoreBusy, StoreUnwritable
from lorelog.services.llm import receipts as module
from lorelog.services.llm.receipts import (
    FAILURE_PAUSE,
    MAX_FAILURES,
    PURPOSE_EMBEDDING,
    PURPOSE_NOTE,
    CallOutcome,
    CallUsage,
    ModelCall,
    Receipts,
    Reservation,
)

NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)
ASKED = ModelCall(PURPOSE_NOTE, "host", "claude/haiku", "claude", "/p")


class ReceiptClock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> ReceiptClock:
    return ReceiptClock()


@pytest.fixture
def receipts(tmp_path: Path, clock: ReceiptClock) -> Receipts:
    return Receipts(tmp_path / "tenant" / "receipts.jsonl", clock)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def reserved(receipts: Receipts, tokens: int, errand: ModelCall = ASKED, limit: int = 1000) -> Reservation:
    return receipts.reserve(tokens, errand, limit)


def is_refused(receipts: Receipts, tokens: int, errand: ModelCall = ASKED, limit: int = 1000) -> bool:
    with pytest.raises(DailyLimitReached):
        receipts.reserve(tokens, errand, limit)
    return True


def is_left_alone(receipts: Receipts, errand: ModelCall = ASKED) -> bool:
    with pytest.raises(ModelUnavailable, match="paused until"):
        receipts.reserve(10, errand, 1000)
    return True


def test_a_call_is_written_down_before_and_after(receipts: Receipts, tmp_path: Path) -> None:
    """Two lines tell of a call: what it may cost, and what it did; they hold no text and are for their owner's eyes."""
    ticket = reserved(receipts, 600)
    assert receipts.spent_today() == 600
    receipts.settle(ticket, CallOutcome("ok", 100, 20, 1.23456))

    path = tmp_path / "tenant" / "receipts.jsonl"
    who = {"purpose": "note", "project": "/p", "provider": "host", "host": "claude", "model": "claude/haiku"}
    common = {"day": "2026-03-05", "id": ticket.id, **who}
    first = {"at": "2026-03-05T12:00:00.000Z", **common, "outcome": "started", "reserved": 600}
    last = {"outcome": "ok", "tokens_in": 100, "tokens_out": 20, "seconds": 1.235}
    assert lines(path) == [first, {"at": first["at"], **common, **last}]
    assert path.stat().st_mode & 0o777 == 0o600
    assert receipts.spent_today() == 120


def test_a_call_that_may_exceed_the_limit_is_refused(receipts: Receipts, clock: ReceiptClock) -> None:
    """A call that might cost more than is left is refused, and tomorrow there is as much as ever."""
    assert is_refused(receipts, 1, limit=0)
    reserved(receipts, 700)

    assert is_refused(receipts, 301)
    reserved(receipts, 300)
    assert is_refused(receipts, 1)
    clock.now += timedelta(days=1)
    reserved(receipts, 1000)


def test_a_call_counts_for_the_day_on_which_it_was_begun(receipts: Receipts, clock: ReceiptClock) -> None:
    """Ending after midnight takes nothing from the new day, and hides nothing of it."""
    clock.now = NOON.replace(hour=23, minute=59)
    late = reserved(receipts, 500)
    clock.now += timedelta(minutes=5)
    reserved(receipts, 400)
    receipts.settle(late, CallOutcome("ok", 900, 50, 9.0))

    assert receipts.spent_today() == 400
    assert is_refused(receipts, 601)


def test_a_long_day_is_read_to_its_beginning(receipts: Receipts, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many lines a day has, all of them count."""
    monkeypatch.setattr(module, "_BLOCK_BYTES", 100)
    for _ in range(50):
        receipts.settle(reserved(receipts, 20), CallOutcome("ok", 15, 4, 0.1))

    assert receipts.spent_today() == 50 * 19


def test_lines_that_cannot_be_read_are_passed_over(receipts: Receipts, tmp_path: Path) -> None:
    """A torn line, a blank one and somebody's remark neither count nor swallow the next line."""
    path = tmp_path / "tenant" / "receipts.jsonl"
    reserved(receipts, 100)
    with path.open("ab") as file:
        file.write(b'# mine\n\n[1]\n{"day": 3}\n\xff\xfe\n{"at": "2026-')

    reserved(receipts, 200)

    assert receipts.spent_today() == 300
    assert receipts.usage_since("2026-03-05")[1] == 5


@pytest.mark.parametrize(
    "odd",
    [
        '"tokens_in": 1e999, "seconds": NaN',
        '"tokens_in": -5, "seconds": -1',
        f'"tokens_in": {"9" * 400}, "seconds": 1e300',
    ],
)
def test_numbers_that_nothing_can_cost_count_nothing(receipts: Receipts, tmp_path: Path, odd: str) -> None:
    """A damaged number neither blocks the day nor makes a bill that is no number."""
    path = tmp_path / "tenant" / "receipts.jsonl"
    path.parent.mkdir()
    path.write_text(f'{{"day": "2026-03-05", "id": "a", "outcome": "ok", {odd}}}\n', "utf-8")

    assert receipts.spent_today() == 0
    (call,) = receipts.usage_since("2026-03-05")[0]
    assert (call.tokens_in, call.tokens_out, call.seconds) == (0, 0, 0.0)
    reserved(receipts, 1000)


def test_a_clock_that_was_set_back_hides_nothing_of_the_day(
    receipts: Receipts, clock: ReceiptClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls of another day among today's, of a clock that was wrong or of another time zone, take nothing from the sum."""
    monkeypatch.setattr(module, "_BLOCK_BYTES", 2000)
    for hours in (0, 0, 0, -24, 0, 24, 0, -24):
        clock.now = NOON + timedelta(hours=hours)
        for _ in range(4):
            receipts.settle(reserved(receipts, 40), CallOutcome("ok", 30, 5, 0.1))
    clock.now = NOON

    assert receipts.spent_today() == 5 * 4 * 35
    assert is_refused(receipts, 301)


def test_vectors_of_long_ago_are_not_read_again(
    receipts: Receipts, clock: ReceiptClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long log is read as far as the days that are asked for, whatever its lines are of."""
    monkeypatch.setattr(module, "_BLOCK_BYTES", 400)
    for _ in range(50):
        receipts.record(ModelCall(PURPOSE_EMBEDDING, "openai", "e"), CallOutcome("ok", 9, 0, 0.5))
    clock.now += timedelta(days=4)
    reserved(receipts, 10)
    read: list[bytes] = []
    really = module._parse_line

    def counted(line: bytes) -> dict[str, Any]:
        read.append(line)
        return really(line)

    monkeypatch.setattr(module, "_parse_line", counted)

    assert receipts.spent_today() == 10
    assert len(read) < 10


def test_an_unreadable_log_is_an_error(tmp_path: Path) -> None:
    """Whoever asks what was spent is told that nobody knows, and not that it was nothing."""
    (tmp_path / "r.jsonl").symlink_to(tmp_path / "r.jsonl")
    for path in (tmp_path, tmp_path / "r.jsonl"):
        with pytest.raises(StoreUnwritable, match="cannot be read"):
            Receipts(path).usage_since("2026-01-01")


def test_after_failures_in_a_row_there_is_a_pause(receipts: Receipts, clock: ReceiptClock) -> None:
    """Three failures in a row stop a model for a quarter of an hour; then one call may try, and a failure begins the pause again."""
    for outcome in ("fault", "fault", "ok", "fault", "fault"):
        receipts.settle(reserved(receipts, 10), CallOutcome(outcome, 0, 0, 1.0))
    for _ in range(MAX_FAILURES - 2):
        receipts.settle(reserved(receipts, 10), CallOutcome("timeout", 0, 0, 60.0))

    assert is_left_alone(receipts)
    reserved(receipts, 10, ModelCall(PURPOSE_NOTE, "openai", "another"))
    clock.now += FAILURE_PAUSE
    receipts.settle(reserved(receipts, 10), CallOutcome("fault", 0, 0, 1.0))
    assert is_left_alone(receipts)
    clock.now += FAILURE_PAUSE
    receipts.settle(reserved(receipts, 10), CallOutcome("ok", 1, 1, 1.0))
    reserved(receipts, 10)


def test_a_call_without_a_receipt_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be written, or is held by another, is an error before anything is asked; so is a link."""
    (tmp_path / "elsewhere").write_text("", "utf-8")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "elsewhere")
    for path in (tmp_path, tmp_path / "elsewhere" / "r.jsonl", tmp_path / "link.jsonl"):
        with pytest.raises(StoreUnwritable):
            reserved(Receipts(path), 1)
    monkeypatch.setattr(module, "_WAIT_S", 0.05)
    held = Receipts(tmp_path / "held.jsonl")
    with held._locked(), pytest.raises(StoreBusy):
        reserved(held, 1)


def test_notes_and_the_rest_have_limits_of_their_own(receipts: Receipts) -> None:
    """What notes cost is not taken from what a person starts, nor the other way; vectors are told and limit nobody."""
    compact = ModelCall("compact", "openai", "m")
    reserved(receipts, 900)
    receipts.record(ModelCall(PURPOSE_EMBEDDING, "openai", "e"), CallOutcome("ok", 5000, 0, 1.0))

    assert is_refused(receipts, 101)
    reserved(receipts, 700, compact)
    assert is_refused(receipts, 301, ModelCall("other", "openai", "m"))
    reserved(receipts, 100)

    spent = [receipts.spent_today(purpose) for purpose in (PURPOSE_NOTE, "compact", "other", PURPOSE_EMBEDDING)]
    assert spent == [1000, 700, 700, 5000]


def test_the_limit_that_was_reached_is_named(receipts: Receipts) -> None:
    """Who is refused is told how much is left of how much, and which setting raises it."""
    reserved(receipts, 900)
    reserved(receipts, 990, ModelCall("compact"))
    for errand, left, key in (
        (ASKED, "100", "summarize.daily_tokens"),
        (ModelCall("compact"), "10", "llm.daily_tokens"),
    ):
        with pytest.raises(DailyLimitReached, match=rf"200 tokens, but only {left} of today's 1,000") as raised:
            receipts.reserve(200, errand, 1000)
        assert key in raised.value.hint


def test_calls_of_some_days_are_listed(receipts: Receipts, clock: ReceiptClock) -> None:
    """A call is told once, as it ended; one that never did with what it reserved."""
    compact = ModelCall("compact", "openai", "m", project="/q")
    reserved(receipts, 300)
    clock.now += timedelta(days=1)
    receipts.settle(reserved(receipts, 600, compact), CallOutcome("ok", 100, 20, 1.5))
    clock.now += timedelta(days=1)
    reserved(receipts, 70)
    receipts.record(ModelCall(PURPOSE_EMBEDDING, "openai", "e"), CallOutcome("ok", 9, 0, 0.5))

    later = [
        CallUsage("ok", 100, 20, 1.5, day="2026-03-06", at="2026-03-06T12:00:00.000Z", call=compact),
        CallUsage("started", 70, 0, 0.0, day="2026-03-07", at="2026-03-07T12:00:00.000Z", call=ASKED),
        CallUsage(
            "ok",
            9,
            0,
            0.5,
            day="2026-03-07",
            at="2026-03-07T12:00:00.000Z",
            call=ModelCall(PURPOSE_EMBEDDING, "openai", "e"),
        ),
    ]
    assert list(receipts.usage_since("2026-03-06")[0]) == later
    first = CallUsage("started", 300, 0, 0.0, day="2026-03-05", at="2026-03-05T12:00:00.000Z", call=ASKED)
    assert receipts.usage_since("2026-01-01") == ((first, *later), 0)


_PROCESS = """
import random, sys
from pathlib import Path
from lorelog.core.errors import DailyLimitReached
from lorelog.services.llm.receipts import ModelCall, CallOutcome, Receipts
shared, chance, spent = Receipts(Path(sys.argv[1])), random.Random(int(sys.argv[3])), 0
for _ in range(60):
    tokens = chance.randrange(1, 300)
    try:
        ticket = shared.reserve(tokens, ModelCall("note", "host", "m"), int(sys.argv[2]))
    except DailyLimitReached:
        continue
    cost = chance.randrange(tokens + 1)
    spent += cost
    if chance.random() < 0.9:
        shared.settle(ticket, CallOutcome("ok", cost, 0, 0.0))
print(spent)
"""


def test_processes_never_spend_more_than_the_limit(tmp_path: Path) -> None:
    """Two processes that ask at random share one limit, and come close to it."""
    limit, path = 5000, tmp_path / "receipts.jsonl"
    seed = random.randrange(1 << 30)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _PROCESS, str(path), str(limit), str(seed + number)], stdout=subprocess.PIPE
        )
        for number in range(2)
    ]
    said = [process.communicate(timeout=120)[0] for process in started]
    spent = sum(map(int, said))

    shared = Receipts(path)
    assert limit - 300 < shared.spent_today() <= limit, seed
    assert spent <= shared.spent_today(), seed
    assert len({line["id"] for line in lines(path)}) > 2


def test_days_are_those_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The day of a receipt is the local one."""
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.tzset()
    try:
        ticket = reserved(Receipts(tmp_path / "r.jsonl"), 1)
        assert ticket.day == (datetime.now(UTC) + timedelta(hours=14)).date().isoformat()
    finally:
        monkeypatch.undo()
        time.tzset()
