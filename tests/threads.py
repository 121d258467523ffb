"""Functions of tests that run at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable


def in_threads(work: Callable[[int], object], count: int) -> list[BaseException]:
    """Run a function in threads, and return what they raised."""
    raised: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001
            raised.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised
