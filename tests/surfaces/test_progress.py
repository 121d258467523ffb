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


@pytest.mark.parametrize(
    ("reports", "wanted"),
    [
        ([(0, 0), (8, 60), (24, 62), (88, 66), (108, 70)], [None, None, None, None, 90]),  # 100 steps
        ([(0, 0), (8, 60), (16, 75), (24, 80)], [None, None, None, 1230]),  # or 10, and 10 s
        ([(0, 0), (8, 9), (108, 19), (0, 20), (8, 80), (16, 95), (208, 120)], [None, None, 90, 100.8, 100, 99.2, 160]),
    ],
)
def test_the_time_left_is_known_once_it_was_measured(
    reports: list[tuple[int, float]], wanted: list[float | None]
) -> None:
    """The first step, which loads the model, does not count; if another worker goes on, the rate of the first holds for 100 steps."""
    estimate = TimeEstimate()
    assert [estimate.seconds_left(done, 1008, now) for done, now in reports] == pytest.approx(wanted)


def test_the_time_for_vectors_is_announced_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After reading, one line says how long vectors take and that words are searched already."""
    now = iter(range(0, 1000, 1))
    monkeypatch.setattr("time.monotonic", lambda: float(next(now)))
    lines = ProgressLines()
    for done in (0, 8, 24, 140):
        lines.show("vectors", done, 2438)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("2,438 sections; vectors take about ")
    assert line.endswith("min; you can search by words already")
