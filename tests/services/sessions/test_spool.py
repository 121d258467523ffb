"""A spooled event is written whole or not at all, in order, and privately."""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.errors import SourceError, StoreUnwritable, UsageError
from lorelog.light import spool
from lorelog.services.sessions import drain


def mode(path: str | Path) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


def test_an_event_comes_back_as_it_was(home: Path) -> None:
    """A written event is read back with an id and a version, from a private file."""
    path = spool.write_event(str(home), {"host": "claude", "moment": "turn-end", "session": "s", "later": [1]})

    event = drain.read_event(path)
    assert (event["host"], event["session"], event["later"], event["v"]) == ("claude", "s", [1], 1)
    assert path == f"{home}/spool/{event['id']}.json"
    assert (mode(path), mode(home / "spool"), mode(home)) == (0o600, 0o700, 0o700)
    assert [item.name for item in (home / "spool").iterdir()] == [f"{event['id']}.json"]


def test_events_are_listed_as_they_came(home: Path) -> None:
    """Events are listed oldest first, without temporary and parked ones."""
    paths = []
    for number in range(5):
        paths.append(spool.write_event(str(home), {"session": str(number)}))
        time.sleep(0.002)
    (home / "spool" / ".x.tmp").touch()
    drain.park_event(paths[0], "it is broken")
    for _ in range(2):  # a second time does no harm
        drain.remove_event(paths[1])
    drain.park_event(paths[1], "gone")

    assert drain.list_events(str(home)) == paths[2:]
    assert (home / "spool" / "failed" / Path(paths[0]).name).exists()
    assert "it is broken" in Path(paths[0]).parent.joinpath("failed", Path(paths[0]).stem + ".why").read_text("utf-8")


def test_what_is_missing_is_empty_and_what_is_strange_is_passed_over(home: Path) -> None:
    """A read event has every field, with the right type."""
    path = spool.write_event(
        str(home), {"session": 7, "offset": "x", "environment": {"A": 1, "B": "2"}, "again": "yes"}
    )

    event = drain.read_event(path)
    assert all(event[name] == "" for name in ("session", "turn", "transcript", "directory", "branch", "answer"))
    assert (event["offset"], event["environment"], event["again"]) == (0, {"B": "2"}, False)


@pytest.mark.parametrize("held", [b"", b"{", b"[]", b"\xff", b'"x"', b"[" * 50_000, b" " * 70_000])
def test_a_damaged_event_is_a_source_error(home: Path, held: bytes) -> None:
    """A damaged, overlong or other file is a SourceError."""
    path = home / "spool" / "x.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(held)

    with pytest.raises(SourceError):
        drain.read_event(str(path))


def test_a_link_or_a_pipe_is_not_an_event(home: Path) -> None:
    """Only regular files are read, and a pipe does not block."""
    folder = home / "spool"
    folder.mkdir(parents=True)
    (home / "secret.json").write_text("{}", "utf-8")
    (folder / "a.json").symlink_to(home / "secret.json")
    os.mkfifo(folder / "b.json")

    for name in ("a.json", "b.json"):
        with pytest.raises(SourceError):
            drain.read_event(str(folder / name))


def test_an_event_that_is_too_large_is_refused(home: Path) -> None:
    """An event of more than 64 KB is rejected."""
    with pytest.raises(UsageError):
        spool.write_event(str(home), {"directory": "x" * 70_000})

    assert drain.list_events(str(home)) == []


def test_a_failed_write_leaves_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk the caller gets an error, and no partial event remains."""
    drain.remove_event(spool.write_event(str(home), {}))

    def full(*_paths: object, **_folders: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(StoreUnwritable, match="No space left"):
        spool.write_event(str(home), {"session": "s"})

    assert list((home / "spool").iterdir()) == []


def test_waiting_tells_count_and_age(home: Path) -> None:
    """The number of waiting events and the age of the oldest are returned."""
    assert spool.count_waiting(str(home)) == (0, 0.0)
    first = spool.write_event(str(home), {})
    time.sleep(0.002)
    spool.write_event(str(home), {})
    os.utime(first, (time.time() - 1000, time.time() - 1000))

    count, age = spool.count_waiting(str(home))
    assert count == 2
    assert 1000 <= age < 1100
    (home / "spool" / "0.json").symlink_to(home / "gone")  # removed during the count
    assert spool.count_waiting(str(home))[0] == 2


def test_what_was_begun_long_ago_is_taken_away(home: Path) -> None:
    """Old temporary files are removed; new ones are kept."""
    folder = home / "spool"
    folder.mkdir(parents=True)
    old, new = folder / ".a.tmp", folder / ".b.tmp"
    old.touch()
    new.touch()
    os.utime(old, (0, 0))

    drain.list_events(str(home))
    assert (old.exists(), new.exists()) == (False, True)


@given(st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text(), max_size=8))
def test_any_event_survives(tmp_path_factory: pytest.TempPathFactory, event: dict[str, Any]) -> None:
    """Unknown fields are kept unchanged."""
    home = str(tmp_path_factory.mktemp("spool"))
    named = {f"x{name}": value for name, value in event.items()}

    read = drain.read_event(spool.write_event(home, named))
    assert {name: read[name] for name in named} == json.loads(json.dumps(named))
