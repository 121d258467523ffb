"""Files of the home: only their owner can read them, whatever the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.surfaces.conftest import Shell, write
from tests.surfaces.daemon.conftest import Warm, eventually, warm  # noqa: F401  (a fixture)


@pytest.fixture
def _careless() -> Iterator[None]:
    """A umask that hides nothing."""
    before = os.umask(0)
    yield
    os.umask(before)


def shown_to_others(home: Path) -> list[str]:
    """Return what other users could read, write or enter below a home."""
    modes = {path: path.lstat().st_mode for path in (home, *home.rglob("*"))}
    return [f"{mode & 0o777:o} {path.relative_to(home)}" for path, mode in modes.items() if mode & 0o077]


@pytest.mark.usefixtures("_careless")
def test_nothing_in_the_home_is_readable_by_others(project: Path, home: Path, shell: Shell) -> None:
    """After indexing, adding, searching and a task, no file or folder of the home is open to others."""
    notes = (f"# Cache {number}\n\nRedis, because it runs already.\n" for number in range(70))
    write(project / "notes" / "a.md", "\n".join(notes))  # fewer rows have no file of the keyword index
    for words in (("index", "notes"), ("add", "The otter sleeps."), ("search", "otter"), ("task", "start", "Ship it")):
        assert shell(*words).status == 0

    assert {"catalog.db", "current.json"} <= {path.name for path in home.rglob("*")}
    assert list(home.rglob("*.store"))
    assert shown_to_others(home) == []


@pytest.mark.slow
@pytest.mark.usefixtures("_careless")
def test_nor_while_a_daemon_has_it_open(warm: Warm, home: Path) -> None:  # noqa: F811
    """The files that only exist while databases are open, the socket and the log are private too."""
    warm.start()
    warm.ask("memory.add", {"text": "The otter sleeps."})
    warm.ask("memory.search", {"query": "otter"})
    eventually(lambda: list(home.rglob("*-wal")), "a database is open")

    assert any(stat.S_ISSOCK(path.lstat().st_mode) for path in home.rglob("*"))
    assert shown_to_others(home) == []
