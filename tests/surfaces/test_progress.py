"""Progress without a terminal: what is waited for, the time left, and that search works already."""

from __future__ import annotations

import pytest

from lorelog.surfaces.cli.progress import ProgressLines, TimeEstimate, WaitNotice


def test_a_wait_is_said_after_a_second_and_then_every_thirty() -> None:
    """What is waited for is said once, and again every 30 seconds."""
    notice = WaitNotice()
    lines = [notice.text("waiting for the index run of process 7", second) for second in range(62)]
    assert [line for line in lines if line] == [
        f"waiting for the index run of process 7 ({second} s so far)" for second in (1, 31, 61)
    ]


def test_the_time_left_is_known_from_the_second_step() -> None:
    """The first step, which loads the model, does not count."""
    estimate = TimeEstimate()
    reports = [(0, 0.0), (8, 60.0), (24, 62.0), (40, 64.0)]
    assert [estimate.seconds_left(done, 104, now) for done, now in reports] == [None, None, 10.0, 8.0]


def test_the_time_for_vectors_is_announced_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After reading, one line says how long vectors take and that words are searched already."""
    now = iter(range(0, 1000, 1))
    monkeypatch.setattr("time.monotonic", lambda: float(next(now)))
    lines = ProgressLines()
    for done in (0, 8, 24, 40):
        lines.show("vectors", done, 2438)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("2,438 sections; vectors take about ")
    assert line.endswith("min; you can search by words already")
