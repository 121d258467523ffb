"""The history of deliveries: lists, sums per day, and memories that are never used."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lorelog.core.atomic_file import append_line
from lorelog.light.delivery_log import session_log
from lorelog.services.usage import history

NOW = datetime(2026, 3, 5, 14, 0, tzinfo=UTC)


def deliver(folder: Path, session: str, when: datetime = NOW, **fields: Any) -> Path:
    """Log one delivery at a time of the past."""
    line = {
        "at": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "host": "claude",
        "session": session,
        "project": "/p",
        "moment": "tool-before",
        "kind": "cue",
        "memories": ["m"],
        "tokens": 10,
        **fields,
    }
    folder.mkdir(exist_ok=True)
    file = Path(session_log(str(folder), "claude", session))
    append_line(str(file), json.dumps(line).encode())
    os.utime(file, (when.timestamp(), when.timestamp()))
    return file


def judge(log: Path, how: str, *memories: str) -> None:
    """Note how memories of a session were used."""
    append_line(str(history.used_file(log)), json.dumps({"turn": "t", "how": how, "memories": memories}).encode())


def test_deliveries_are_listed_newest_first(tmp_path: Path) -> None:
    """Every filter leaves out what does not match it, and the newest delivery comes first."""
    deliver(tmp_path, "one", NOW - timedelta(days=3))
    deliver(tmp_path, "two", NOW, kind="recall", memories=["n1", "n2"])
    deliver(tmp_path, "two", NOW - timedelta(hours=1), project="/q")

    def shown(**filters: Any) -> list[str]:
        return [delivery.at[:13] for delivery in history.list_deliveries(tmp_path, history.DeliveryFilter(**filters))]

    assert shown() == ["2026-03-05T14", "2026-03-05T13", "2026-03-02T14"]
    assert shown(session="on") == ["2026-03-02T14"]
    assert shown(projects=("/q", "")) == ["2026-03-05T13"]
    assert shown(kind="recall") == shown(memory="n2") == ["2026-03-05T14"]
    assert shown(since=history.local_day("2026-03-05T14:00:00Z")) == ["2026-03-05T14", "2026-03-05T13"]
    assert shown(session="x") == []


def test_tokens_are_summed_by_day(tmp_path: Path) -> None:
    """The tokens of all sessions of a day are added up, from the given day on."""
    deliver(tmp_path, "one", NOW, tokens=10)
    deliver(tmp_path, "two", NOW, tokens=5)
    deliver(tmp_path, "two", NOW - timedelta(days=9), tokens=7)
    day = history.local_day("2026-03-05T14:00:00Z")

    days = history.sum_days(tmp_path, day)

    assert {name: (total.deliveries, total.tokens) for name, total in days.items()} == {day: (2, 15)}
    assert sum(total.tokens for total in history.sum_days(tmp_path).values()) == 22
    assert history.sum_days(tmp_path / "missing") == {}


def test_a_memory_counts_as_unused_only_where_its_turns_were_read(tmp_path: Path) -> None:
    """Deliveries without any captured turn, and the list at a session's start, count neither as used nor as unused."""
    for number in range(3):
        judge(deliver(tmp_path, f"read {number}"), "none", "m")
    deliver(tmp_path, "not read")
    judge(deliver(tmp_path, "start", kind="standing", moment="session-start"), "none", "m")

    assert history.unused_counts(tmp_path) == {"m": 3}
    assert history.memory_usage(tmp_path)["m"].delivered == 5


def test_one_use_takes_a_memory_off_the_list(tmp_path: Path) -> None:
    """A memory that was used in any session is not an unused one."""
    for number in range(6):
        judge(deliver(tmp_path, f"s{number}"), "none", "m")
    judge(deliver(tmp_path, "last"), "id", "m")

    assert history.unused_counts(tmp_path) == {}
    assert history.memory_usage(tmp_path)["m"].used == 1


def test_a_memory_has_a_balance(tmp_path: Path) -> None:
    """Tokens are shares of each delivery, signs count by session, and a contradiction is not a use."""
    judge(deliver(tmp_path, "one", memories=["m", "n"], tokens=31), "changed", "m")
    judge(deliver(tmp_path, "two"), "contradicted", "m")
    judge(deliver(tmp_path, "three", kind="standing", moment="prompt"), "none", "m")
    deliver(tmp_path, "four", kind="standing", moment="session-start", tokens=500)

    usage = history.memory_usage(tmp_path)["m"]

    assert (usage.delivered, usage.listed, usage.tokens) == (4, 1, 35)
    assert (usage.signs, usage.used, usage.unused) == ({"changed": 1, "contradicted": 1}, 1, 2)


def test_a_new_line_is_counted_although_sums_are_cached(tmp_path: Path) -> None:
    """A delivery or a use after the first count is seen by the next."""
    log = deliver(tmp_path, "s")
    assert history.memory_usage(tmp_path)["m"].delivered == 1
    deliver(tmp_path, "s")
    judge(log, "none", "m")

    assert (history.memory_usage(tmp_path)["m"].delivered, history.unused_counts(tmp_path)) == (2, {"m": 2})


def test_old_logs_are_deleted(tmp_path: Path) -> None:
    """Logs of sessions that ended more than a year ago are deleted with what was noted about use; later ones stay."""
    judge(deliver(tmp_path, "old", NOW), "id", "m")
    later = NOW + timedelta(days=history.MAX_LOG_AGE_DAYS + 1)
    recent = deliver(tmp_path, "recent", later - timedelta(days=history.MAX_LOG_AGE_DAYS - 1))

    assert history.delete_old_logs(tmp_path, later.timestamp()) == 1

    assert list(tmp_path.iterdir()) == [recent]
    assert history.memory_usage(tmp_path)["m"].delivered == 1
    assert history.delete_old_logs(tmp_path / "missing") == 0


def test_logs_that_are_too_large_together_are_deleted_early(tmp_path: Path) -> None:
    """Beyond the size limit the oldest logs are deleted, but none that a session of the last days may still read."""
    for number in range(5):
        deliver(tmp_path, f"s{number}", NOW - timedelta(days=number))

    assert history.delete_old_logs(tmp_path, NOW.timestamp(), max_bytes=300) == 2
    assert len(history.list_deliveries(tmp_path, history.DeliveryFilter())) == 3


def test_a_period_includes_today() -> None:
    """Seven days end today."""
    assert history.days_ago(7, datetime(2026, 3, 7, tzinfo=UTC).date()) == "2026-03-01"
    assert history.local_day("yesterday") == history.local_day("") == ""
