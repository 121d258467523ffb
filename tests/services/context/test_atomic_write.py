"""Files and logs of a command are written whole and privately."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from lorelog.core.errors import UsageError
from lorelog.services.context.init import LOG_NAME, write_context_log, write_output


def log_many(folder: str, who: int) -> int:
    for number in range(20):
        write_context_log(folder, {"who": who, "number": number, "text": "x" * 5000})
    return who


def test_every_call_is_logged_by_itself_and_in_the_log(tmp_path: Path) -> None:
    """Processes that log at once lose nothing: each call has its own private file and a whole line in the log."""
    folder = tmp_path / "deep" / "log"
    with ProcessPoolExecutor(4) as pool:
        assert sorted(pool.map(log_many, [str(folder)] * 4, range(4))) == [0, 1, 2, 3]

    lines = [json.loads(line) for line in (folder / LOG_NAME).read_text("utf-8").splitlines()]
    files = [json.loads(path.read_text("utf-8")) for path in folder.glob("lorelog_context_*.json")]
    wanted = {(who, number) for who in range(4) for number in range(20)}
    for entries in (lines, files):
        assert sorted((entry["who"], entry["number"]) for entry in entries) == sorted(wanted)
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_torn_line_of_the_log_costs_no_other(tmp_path: Path) -> None:
    """An incomplete line of a killed process does not swallow the next one."""
    (tmp_path / LOG_NAME).write_text('{"who": 1}\n{"who"', "utf-8")
    write_context_log(str(tmp_path), {"who": 2})

    assert json.loads((tmp_path / LOG_NAME).read_text("utf-8").splitlines()[-1])["who"] == 2


def test_a_log_that_is_a_link_is_not_written_to(tmp_path: Path) -> None:
    """A log that is a symbolic link is not written to."""
    other = tmp_path / "other"
    other.write_text("kept", "utf-8")
    folder = tmp_path / "log"
    folder.mkdir()
    (folder / LOG_NAME).symlink_to(other)

    with pytest.raises(OSError, match="symbolic links"):
        write_context_log(str(folder), {})
    assert other.read_text("utf-8") == "kept"


def test_readers_see_a_whole_file(tmp_path: Path) -> None:
    """Readers see one whole text while several processes write a file, and no temporary file remains."""
    file = tmp_path / "context.md"
    texts = [f"{number}" * 20_000 for number in range(8)]
    write_output(str(file), texts[0])
    with ThreadPoolExecutor(4) as pool:
        writing = [pool.submit(write_output, str(file), text) for text in texts * 5]
        while not all(item.done() for item in writing):
            assert file.read_text("utf-8") in texts
        assert [item.result() for item in writing] == [None] * 40

    assert [path.name for path in tmp_path.iterdir()] == ["context.md"]
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("path", ["", "missing/file", "/dev/null"])
def test_where_no_file_can_be_none_is_made(tmp_path: Path, path: str) -> None:
    """A directory, a device and a file in a missing directory are refused with a hint."""
    with pytest.raises(UsageError) as raised:
        write_output(str(tmp_path / path), "text")
    assert raised.value.hint
