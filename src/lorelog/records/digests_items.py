"""What of a record belongs into which library, by memd's rules. Pure functions: whatever the order of the records, the same items.

They take records that are in force, and `meant`: what kind each revision stands for, which is that of the record it replaces.
Nothing here knows what a record is worth; that is asked for once it is known which items are shown.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from lorelog.core.record import DIGEST, Record
from lorelog.records.digests import Item, Role, words_of

IMPLICIT = frozenset({"task_finish", "verification", "review"})
"""Kinds that settle something without being called a decision."""
MOST_CONFIDENCE = 0.95
_A_TASK, _A_PROJECT = 2, 4
_BASE = {"decision": 0.6, "warning": 0.55, "tactic": 0.5}
_TOLD = ("summary", "requested_action", "motivation", "method_summary")

Meant = Mapping[str, str]


def newest_first(records: Iterable[Record]) -> list[Record]:
    """Return records that digests are made of: none of them a digest, each once, the newest first."""
    once = {one.id: one for one in sorted(records, key=lambda one: one.seq, reverse=True)}
    return [one for one in once.values() if one.kind != DIGEST]


def failures(records: Iterable[Record], meant: Meant) -> list[Item]:
    """Return what failed and what stood in the way."""
    found = ((one, _joined((*one.texts("what_failed"), *one.texts("blockers")))) for one in newest_first(records))
    return [Item(one, text) for one, text in found if text]


def decisions(records: Iterable[Record], meant: Meant) -> list[Item]:
    """Return what was decided: first what was recorded as a decision, then what other records settle. Objections settle nothing."""
    explicit, implicit = list[Item](), list[Item]()
    for one in newest_first(records):
        kind = meant.get(one.id, one.kind)
        if kind == "decision":
            text = next(filter(None, (one.text(name).strip() for name in _TOLD)), "") or _settled(one)
            if text:
                explicit.append(Item(one, text, explicit=True))
        elif (
            kind in IMPLICIT
            and one.supports_claim is not False
            and (text := one.text("summary").strip() or _settled(one))
        ):
            implicit.append(Item(one, text, explicit=False))
    return [*explicit, *implicit]


def evidence(records: Iterable[Record], meant: Meant) -> list[Item]:
    """Return what speaks for or against something: evidence, and how things were checked."""
    found = list[Item]()
    for one in newest_first(records):
        if meant.get(one.id, one.kind) == "evidence":
            said = (one.text("evidence_kind").strip(), one.text("summary").strip())
            text = ": ".join(filter(None, said)) + _measured(one)
        else:
            text = _joined(one.texts("validation"))
        if text:
            found.append(Item(one, text))
    return found


def highlights(records: Iterable[Record], meant: Meant) -> list[Item]:
    """Return lessons, the surest first: decisions, what failed, and what worked more than once.

    Texts that are made of the same words are one lesson, told by its newest record and supported by the others.
    """
    told: dict[tuple[str, frozenset[str]], list[tuple[Record, str]]] = defaultdict(list)
    for one in newest_first(records):
        for category, text in _lessons(one, meant):
            words = words_of(text)
            if words and all(record.id != one.id for record, _ in told[category, words]):
                told[category, words].append((one, text))
    lessons = [_lesson(category, said) for (category, _), said in told.items() if category != "tactic" or len(said) > 1]
    return _spread(surest_first(lessons))


def with_trust(lessons: Sequence[Item]) -> list[Item]:
    """Return highlights, judged by now, with what their worth adds to their confidence."""
    return surest_first([replace(one, confidence=_confidence(one)) for one in lessons])


def surest_first(lessons: Iterable[Item]) -> list[Item]:
    """Return lessons in the order of their confidence; among equals the newest first."""
    return sorted(lessons, key=lambda one: (-(one.confidence or 0), -one.record.seq, one.category, one.text))


def _lessons(record: Record, meant: Meant) -> Iterable[tuple[str, str]]:
    if meant.get(record.id, record.kind) == "decision" and record.text("summary").strip():
        yield "decision", record.text("summary").strip()
    for name, category in (("what_failed", "warning"), ("what_worked", "tactic")):
        for text in record.texts(name):
            if text.strip():
                yield category, text.strip()


def _lesson(category: str, said: Sequence[tuple[Record, str]]) -> Item:
    (record, text), *others = said
    item = Item(record, text, category=category, support=tuple(one.id for one, _ in others))
    return replace(item, confidence=_confidence(item))


def _confidence(item: Item) -> float:
    confirmed = bool(item.trust.verified_by) or item.trust.tier == "verified_record"
    sure = _BASE[item.category] + 0.1 * len(item.support) + 0.2 * confirmed - 0.2 * item.trust.tainted
    return round(min(sure, MOST_CONFIDENCE), 2)


def _spread(lessons: Iterable[Item]) -> list[Item]:
    """Return lessons of many tasks rather than many of one."""
    tasks, projects = Counter[str](), Counter[str]()
    kept = list[Item]()
    for one in lessons:
        task, project = one.record.task, one.record.project
        if tasks[task] < _A_TASK and projects[project] < _A_PROJECT:
            tasks[task] += 1
            projects[project] += 1
            kept.append(one)
    return kept


def _settled(record: Record) -> str:
    return _joined((*record.texts("what_worked"), *record.texts("validation")))


def _joined(texts: Iterable[str]) -> str:
    return "; ".join(filter(None, map(str.strip, texts)))


def _measured(record: Record) -> str:
    value = record.fields.get("metric_value")
    if not isinstance(value, int | float) or not record.text("metric_name"):
        return ""
    return f" ({record.text('metric_name').strip()} = {value})"


MAKERS: Mapping[Role, Callable[[Iterable[Record], Meant], list[Item]]] = {
    Role.FAILURES: failures,
    Role.DECISIONS: decisions,
    Role.EVIDENCE: evidence,
    Role.HIGHLIGHTS: highlights,
}
"""What the items of each library are."""
