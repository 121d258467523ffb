"""The order of the end-to-end run: every host's core rows before anything else, and no row left out for ever."""

from __future__ import annotations

from e2e.__main__ import CORE_ROWS, order_cells
from e2e.behaviours import BEHAVIOURS
from e2e.hosts import HOSTS

from lorelog.hosts import HOSTS as PROVEN


def test_core_rows_of_every_host_come_first() -> None:
    """Whatever the day, the run begins with the core rows of all hosts, and every row is in it once."""
    for day in (None, 0, 7, 400):
        cells = order_cells(list(HOSTS), list(BEHAVIOURS), day)
        core = len(CORE_ROWS) * len(HOSTS)
        assert {row for _, row in cells[:core]} == set(CORE_ROWS)
        assert sorted(cells) == sorted((host, row) for host in HOSTS for row in BEHAVIOURS)


def test_every_other_row_comes_next_on_some_day() -> None:
    """A run that is short of time leaves out other rows on another day."""
    rest = [row for row in BEHAVIOURS if row not in CORE_ROWS]
    core = len(CORE_ROWS) * len(HOSTS)
    first = {order_cells(list(HOSTS), list(BEHAVIOURS), day)[core][1] for day in range(len(rest))}
    assert first == set(rest)


def test_every_host_with_an_adapter_is_run() -> None:
    """A host counts as proven only if the end-to-end run starts it."""
    assert set(HOSTS) == set(PROVEN)
