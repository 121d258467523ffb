"""The bill: what models were asked for, by day, purpose, project or model, and what is left of today's limits.

Tokens as the models told them, or what was reserved where one did not say. No prices: they are the vendors' to change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lorelog.core.options import SpendOptions
from lorelog.services.receipts import DONE, NOTE, STARTED, Receipts, Spending, limit_key

KEYS = ("day", "purpose", "project", "model")
"""What a bill can be laid out by."""
USUAL = KEYS[:3]
OTHERS = ""
"""A purpose that stands for all that share one limit: all but notes and vectors."""


@dataclass(frozen=True, slots=True)
class CostLine:
    """Calls that have something in common; what they are not told apart by is empty."""

    day: str = ""
    purpose: str = ""
    project: str = ""
    model: str = ""
    """As provider/model."""
    calls: int = 0
    failures: int = 0
    unfinished: int = 0
    """Calls that were begun and never ended, or that go on; they count with what they may cost."""
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class DayLimit:
    """One of today's limits."""

    setting: str
    tokens: int
    spent: int
    left: int


@dataclass(frozen=True, slots=True)
class CostReply:
    """What was spent since a day."""

    since: str
    by: tuple[str, ...]
    lines: tuple[CostLine, ...]
    total: CostLine
    today: tuple[DayLimit, ...]
    notes: tuple[str, ...] = ()


def cost(receipts: Receipts, limits: SpendOptions, since: str, by: Iterable[str] = USUAL) -> CostReply:
    """Lay out what was spent since a day. Days come in their order, and within them what cost most comes first."""
    chosen = tuple(key for key in KEYS if key in set(by))
    told = receipts.since(since)
    calls = told.calls
    grouped: dict[tuple[str, ...], list[Spending]] = {}
    for call in calls:
        grouped.setdefault(tuple(_told(call)[key] for key in chosen), []).append(call)
    lines = [_line(dict(zip(chosen, key, strict=True)), group) for key, group in grouped.items()]
    lines.sort(key=lambda line: (line.day, -line.tokens_in - line.tokens_out, line.purpose, line.project, line.model))
    today = (_limit(receipts, NOTE, limits.notes), _limit(receipts, OTHERS, limits.others))
    return CostReply(since, chosen, tuple(lines), _line({}, calls), today, _damage(told.unreadable))


def _damage(unreadable: int) -> tuple[str, ...]:
    if not unreadable:
        return ()
    lines = "1 line" if unreadable == 1 else f"{unreadable:,} lines"
    return (f"{lines} of receipts.jsonl cannot be read; what they told is not counted",)


def _told(call: Spending) -> dict[str, str]:
    model = "/".join(filter(None, (call.errand.provider, call.errand.model)))
    return {"day": call.day, "purpose": call.errand.purpose, "project": call.errand.project, "model": model}


def _line(common: dict[str, str], calls: Sequence[Spending]) -> CostLine:
    return CostLine(
        **common,
        calls=len(calls),
        failures=sum(call.outcome not in {DONE, STARTED} for call in calls),
        unfinished=sum(call.outcome == STARTED for call in calls),
        tokens_in=sum(call.tokens_in for call in calls),
        tokens_out=sum(call.tokens_out for call in calls),
        seconds=round(sum(call.seconds for call in calls), 3),
    )


def _limit(receipts: Receipts, purpose: str, tokens: int) -> DayLimit:
    spent = receipts.spent_today(purpose)
    return DayLimit(limit_key(purpose), tokens, spent, max(0, tokens - spent))
