"""Many who open what was captured for the first time, at once, all get it."""

from __future__ import annotations

import threading
from pathlib import Path

from recollect.services.session.captures import open_captures


def test_all_who_come_first_at_once_get_in(tmp_path: Path) -> None:
    """SQLite refuses who chooses a journal while another does; nobody else needs to know."""
    for number in range(15):
        folder = tmp_path / str(number)
        folder.mkdir()
        start = threading.Barrier(6)
        faults: list[BaseException] = []

        def enter(
            folder: Path = folder, start: threading.Barrier = start, faults: list[BaseException] = faults
        ) -> None:
            try:
                start.wait()
                with open_captures(folder) as captures:
                    captures.shown("claude", "s")
            except BaseException as error:  # noqa: BLE001
                faults.append(error)

        threads = [threading.Thread(target=enter) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert faults == []
