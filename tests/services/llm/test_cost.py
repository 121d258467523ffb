"""The bill: every call once, told apart by what one likes, and what is left of the day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.options import SpendOptions
from lorelog.services.llm.receipts import (
    COST_KEYS,
    PURPOSE_EMBEDDING,
    PURPOSE_NOTE,
    CallOutcome,
    CostLine,
    DayLimit,
    ModelCall,
    Receipts,
    report_cost,
)

NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)


class Clock:
    now = NOON

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def receipts(tmp_path: Path) -> Receipts:
    """Three days: a note that went well, a compaction that failed, another that did not end, and vectors."""
    clock = Clock()
    kept = Receipts(tmp_path / "receipts.jsonl", clock)
    note, compact = (
        ModelCall(PURPOSE_NOTE, "host", "claude/haiku", "claude", "/p"),
        ModelCall("compact", "openai", "m", project="/q"),
    )
    kept.settle(kept.reserve(500, note, 10_000), CallOutcome("ok", 100, 20, 1.5))
    clock.now += timedelta(days=1)
    kept.settle(kept.reserve(500, compact, 10_000), CallOutcome("fault", 500, 0, 2.0))
    kept.settle(kept.reserve(500, compact, 10_000), CallOutcome("ok", 40, 60, 3.0))
    clock.now += timedelta(days=1)
    kept.reserve(300, compact, 10_000)
    kept.record(ModelCall(PURPOSE_EMBEDDING, "openai", "e", project="/p"), CallOutcome("ok", 7000, 0, 0.25))
    return kept


def test_the_bill_is_laid_out_by_day_purpose_and_project(receipts: Receipts) -> None:
    """Days in their order, what cost most first, each call in one line; the total is the sum."""
    bill = report_cost(receipts, SpendOptions(), "2026-03-05")

    assert bill.by == ("day", "purpose", "project")
    assert bill.lines == (
        CostLine("2026-03-05", "note", "/p", "", 1, 0, 0, 100, 20, 1.5),
        CostLine("2026-03-06", "compact", "/q", "", 2, 1, 0, 540, 60, 5.0),
        CostLine("2026-03-07", "embedding", "/p", "", 1, 0, 0, 7000, 0, 0.25),
        CostLine("2026-03-07", "compact", "/q", "", 1, 0, 1, 300, 0, 0.0),
    )
    assert bill.total == CostLine("", "", "", "", 5, 1, 1, 7940, 80, 6.75)


def test_the_bill_begins_on_the_given_day(receipts: Receipts) -> None:
    """Earlier days are not in it."""
    assert report_cost(receipts, SpendOptions(), "2026-03-07").total.calls == 2
    assert report_cost(receipts, SpendOptions(), "2026-03-08").lines == ()


def test_models_are_listed_by_provider_and_name(receipts: Receipts) -> None:
    """Laid out by model, what cost most comes first."""
    bill = report_cost(receipts, SpendOptions(), "2026-03-05", ["model"])

    assert [(line.model, line.calls) for line in bill.lines] == [
        ("openai/e", 1),
        ("openai/m", 3),
        ("host/claude/haiku", 1),
    ]


def test_the_rest_of_each_daily_limit_is_shown(receipts: Receipts) -> None:
    """Each limit with its setting; vectors are under none, and what goes on counts with what it may cost."""
    bill = report_cost(receipts, SpendOptions(notes=1000, others=250), "2026-03-05")

    assert bill.today == (DayLimit("summarize.daily_tokens", 1000, 0, 1000), DayLimit("llm.daily_tokens", 250, 300, 0))


@given(by=st.sampled_from([combination for size in range(5) for combination in combinations(COST_KEYS, size)]))
def test_lines_add_up_to_the_total(tmp_path_factory: pytest.TempPathFactory, by: tuple[str, ...]) -> None:
    """However it is laid out, the lines add up to the total, and only what was asked for is told."""
    kept = Receipts(tmp_path_factory.mktemp("r") / "receipts.jsonl")
    for number in range(12):
        errand = ModelCall(f"p{number % 2}", "a", f"m{number % 3}", project=f"/{number % 4}")
        kept.record(errand, CallOutcome("ok" if number % 5 else "fault", number, 1, 0.0))

    bill = report_cost(kept, SpendOptions(), "2020-01-01", by)

    assert bill.by == by
    assert bill.total.calls == 12
    for name in ("calls", "failures", "tokens_in", "tokens_out"):
        assert sum(getattr(line, name) for line in bill.lines) == getattr(bill.total, name)
    assert all((getattr(line, key) != "") == (key in by) for line in bill.lines for key in COST_KEYS)


def test_a_damaged_log_is_reported(receipts: Receipts, tmp_path: Path) -> None:
    """What can be read is counted, and that there is more which cannot is said."""
    with (tmp_path / "receipts.jsonl").open("ab") as file:
        file.write(b'{"day": "2026-03-07", "id": "x", "outc\n\x00\x00\n')
    bill = report_cost(receipts, SpendOptions(), "2026-03-05")

    assert bill.total.calls == 5
    assert bill.notes == ("2 lines of receipts.jsonl cannot be read and are not counted",)


def test_an_empty_log_is_not_a_fault(tmp_path: Path) -> None:
    """Nothing was asked, and all of today is left."""
    (tmp_path / "receipts.jsonl").touch()
    bill = report_cost(Receipts.of_tenant(tmp_path), SpendOptions(notes=100, others=200), "2026-03-05")

    assert (bill.lines, bill.total, bill.notes) == ((), CostLine(), ())
    assert [item.left for item in bill.today] == [100, 200]
