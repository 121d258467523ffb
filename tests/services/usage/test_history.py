"""The history of deliveries: lists, sums per day, and memories that are never used."""

from __future__ import annotations

import json
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lorelog.core.atomic_file import append_line
from lorelog.light.delivery_log import session_log
from lorelog.services.usage.history import (
    MAX_LOG_AGE_DAYS,
    DeliveryFilter,
    compact_deliveries,
    days_ago,
    list_deliveries,
    local_day,
    memory_usage,
    sum_days,
    unused_counts,
    used_file,
)

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
    append_line(str(used_file(log)), json.dumps({"turn": "t", "how": how, "memories": memories}).encode())


def test_deliveries_are_listed_newest_first(tmp_path: Path) -> None:
    """Every filter leaves out what does not match it, and the newest delivery comes first."""
    deliver(tmp_path, "one", NOW - timedelta(days=3))
    deliver(tmp_path, "two", NOW, kind="recall", memories=["n1", "n2"])
    deliver(tmp_path, "two", NOW - timedelta(hours=1), project="/q")

    def shown(**filters: Any) -> list[str]:
        return [delivery.at[:13] for delivery in list_deliveries(tmp_path, DeliveryFilter(**filters))]

    assert shown() == ["2026-03-05T14", "2026-03-05T13", "2026-03-02T14"]
    assert shown(session="on") == ["2026-03-02T14"]
    assert shown(projects=("/q", "")) == ["2026-03-05T13"]
    assert shown(kind="recall") == shown(memory="n2") == ["2026-03-05T14"]
    assert shown(since=local_day("2026-03-05T14:00:00Z")) == ["2026-03-05T14", "2026-03-05T13"]
    assert shown(session="x") == []


def test_tokens_are_summed_by_day(tmp_path: Path) -> None:
    """The tokens of all sessions of a day are added up, from the given day on."""
    deliver(tmp_path, "one", NOW, tokens=10)
    deliver(tmp_path, "two", NOW, tokens=5)
    deliver(tmp_path, "two", NOW - timedelta(days=9), tokens=7)
    day = local_day("2026-03-05T14:00:00Z")

    days = sum_days(tmp_path, day)

    assert {name: (total.deliveries, total.tokens) for name, total in days.items()} == {day: (2, 15)}
    assert sum(total.tokens for total in sum_days(tmp_path).values()) == 22
    assert sum_days(tmp_path / "missing") == {}


def test_a_memory_counts_as_unused_only_where_its_turns_were_read(tmp_path: Path) -> None:
    """Deliveries without any captured turn, and the list at a session's start, count neither as used nor as unused."""
    for number in range(3):
        judge(deliver(tmp_path, f"read {number}"), "none", "m")
    deliver(tmp_path, "not read")
    judge(deliver(tmp_path, "start", kind="standing", moment="session-start"), "none", "m")

    assert unused_counts(tmp_path) == {"m": 3}
    assert memory_usage(tmp_path)["m"].delivered == 5


def test_one_use_takes_a_memory_off_the_list(tmp_path: Path) -> None:
    """A memory that was used in any session is not an unused one."""
    for number in range(6):
        judge(deliver(tmp_path, f"s{number}"), "none", "m")
    judge(deliver(tmp_path, "last"), "id", "m")

    assert unused_counts(tmp_path) == {}
    assert memory_usage(tmp_path)["m"].used == 1


def test_a_memory_has_a_balance(tmp_path: Path) -> None:
    """Tokens are shares of each delivery, signs count by session, and a contradiction is not a use."""
    judge(deliver(tmp_path, "one", memories=["m", "n"], tokens=31), "changed", "m")
    judge(deliver(tmp_path, "two"), "contradicted", "m")
    judge(deliver(tmp_path, "three", kind="standing", moment="prompt"), "none", "m")
    deliver(tmp_path, "four", kind="standing", moment="session-start", tokens=500)

    usage = memory_usage(tmp_path)["m"]

    assert (usage.delivered, usage.listed, usage.tokens) == (4, 1, 35)
    assert (usage.signs, usage.used, usage.unused) == ({"changed": 1, "contradicted": 1}, 1, 2)


def test_a_new_line_is_counted_although_sums_are_cached(tmp_path: Path) -> None:
    """A delivery or a use after the first count is seen by the next."""
    log = deliver(tmp_path, "s")
    assert memory_usage(tmp_path)["m"].delivered == 1
    deliver(tmp_path, "s")
    judge(log, "none", "m")

    assert (memory_usage(tmp_path)["m"].delivered, unused_counts(tmp_path)) == (2, {"m": 2})


def test_old_logs_become_sums_and_change_no_number(tmp_path: Path) -> None:
    """Merging old logs changes neither the tokens per day nor the counts of memories, and keeps recent logs."""
    for number in range(4):
        log = deliver(tmp_path, f"old {number}", NOW - timedelta(days=number), tokens=number)
        judge(log, "none" if number else "id", "m")
        os.utime(used_file(log), (NOW.timestamp(), NOW.timestamp()))
    later = NOW + timedelta(days=MAX_LOG_AGE_DAYS + 4)
    recent = deliver(tmp_path, "recent", later, memories=["m", "n"])
    days, usage = sum_days(tmp_path), memory_usage(tmp_path)

    assert compact_deliveries(tmp_path, later.timestamp()) == 4

    assert sum_days(tmp_path) == days
    assert memory_usage(tmp_path) == usage
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([recent.name, "sums.jsonl"])
    assert stat.S_IMODE((tmp_path / "sums.jsonl").stat().st_mode) == 0o600
    assert compact_deliveries(tmp_path, later.timestamp()) == 0


def test_an_interrupted_merge_counts_nothing_twice(tmp_path: Path) -> None:
    """Logs that are in the sums but were not removed yet are not counted again, and are removed by the next run."""
    log = deliver(tmp_path, "old", NOW)
    text = log.read_text()
    later = (NOW + timedelta(days=200)).timestamp()
    assert compact_deliveries(tmp_path, later) == 1
    log.write_text(text)
    os.utime(log, (NOW.timestamp(), NOW.timestamp()))
    sums = (tmp_path / "sums.jsonl").read_text().replace('"merged": []', json.dumps({"merged": [log.name]})[1:-1])
    (tmp_path / "sums.jsonl").write_text(sums)

    assert memory_usage(tmp_path)["m"].delivered == 1
    assert compact_deliveries(tmp_path, later) == 0
    assert not log.exists()
    assert memory_usage(tmp_path)["m"].delivered == 1


def test_a_session_that_is_resumed_after_a_merge_is_counted_on(tmp_path: Path) -> None:
    """A new log of a merged session is added to the sums."""
    deliver(tmp_path, "old", NOW)
    compact_deliveries(tmp_path, (NOW + timedelta(days=200)).timestamp())
    deliver(tmp_path, "old", datetime.now(UTC))

    assert memory_usage(tmp_path)["m"].delivered == 2


def test_logs_that_are_too_large_together_are_merged_early(tmp_path: Path) -> None:
    """Beyond the size limit the oldest logs are merged, but none that a session of the last days may still read."""
    for number in range(5):
        deliver(tmp_path, f"s{number}", NOW - timedelta(days=number))

    assert compact_deliveries(tmp_path, NOW.timestamp(), max_bytes=300) == 2
    assert len(list_deliveries(tmp_path, DeliveryFilter())) == 3


@pytest.mark.parametrize("text", ["{}", "null", '{"memory": "m"}', '{"day": 1}', '{"merged": 3}', "\0", '{"day": "d'])
def test_malformed_sums_are_skipped(tmp_path: Path, text: str) -> None:
    """A line of the sums that cannot be read hides neither the other lines nor the logs."""
    deliver(tmp_path, "s")
    (tmp_path / "sums.jsonl").write_text(
        text + '\n{"day": "2026-03-01", "project": "", "kind": "cue", "deliveries": 1, "tokens": 9}\n'
    )

    assert sum(total.tokens for total in sum_days(tmp_path).values()) == 19


def test_merging_without_a_folder_does_nothing(tmp_path: Path) -> None:
    """A tenant without deliveries gets no folder."""
    assert compact_deliveries(tmp_path / "deliveries") == 0
    assert not (tmp_path / "deliveries").exists()


def test_a_period_includes_today() -> None:
    """Seven days end today."""
    assert days_ago(7, datetime(2026, 3, 7, tzinfo=UTC).date()) == "2026-03-01"
    assert local_day("yesterday") == local_day("") == ""
