"""Locks of files: one has it at a time, and waiting for it ends."""

from __future__ import annotations

import os
from pathlib import Path

from recollect.core.locking import locks_within


def test_a_lock_is_held_by_one_and_ends_with_its_descriptor(tmp_path: Path) -> None:
    """Who comes second waits in vain while the first has the file open, and gets it afterwards."""
    first, second = (os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(2))
    try:
        assert locks_within(first, 0)
        assert not locks_within(second, 0.03)
    finally:
        os.close(first)
    assert locks_within(second, 0)
    os.close(second)
