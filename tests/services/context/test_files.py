"""What a command leaves behind is whole, its owner's alone, and no one else's loss."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from lorelog.core.errors import UsageError
from lorelog.services.context.files import LOG, write_log, write_whole


def log_many(folder: str, who: int) -> int:
    for number in range(20):
        write_log(folder, {"who": who, "number": number, "text": "x" * 5000})
    return who


def test_every_call_is_logged_by_itself_and_in_the_log(tmp_path: Path) -> None:
    """Many processes that log at once lose nothing: a file for each call, and whole lines in the log, all for the owner alone."""
    folder = tmp_path / "deep" / "log"
    with ProcessPoolExecutor(4) as pool:
        assert sorted(pool.map(log_many, [str(folder)] * 4, range(4))) == [0, 1, 2, 3]

    lines = [json.loads(line) for line in (folder / LOG).read_text("utf-8").splitlines()]
    files = [json.loads(path.read_text("utf-8")) for path in folder.glob("lorelog_context_*.json")]
    wanted = {(who, number) for who in range(4) for number in range(20)}
    for entries in (lines, files):
        assert sorted((one["who"], one["number"]) for one in entries) == sorted(wanted)
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_torn_line_of_the_log_costs_no_other(tmp_path: Path) -> None:
    """What a killed process left of a line does not swallow the next one."""
    (tmp_path / LOG).write_text('{"who": 1}\n{"who"', "utf-8")
    write_log(str(tmp_path), {"who": 2})

    assert json.loads((tmp_path / LOG).read_text("utf-8").splitlines()[-1])["who"] == 2


def test_a_log_that_is_a_link_is_not_written_to(tmp_path: Path) -> None:
    """Questions go into no file that somebody else has chosen."""
    other = tmp_path / "other"
    other.write_text("kept", "utf-8")
    folder = tmp_path / "log"
    folder.mkdir()
    (folder / LOG).symlink_to(other)

    with pytest.raises(OSError, match="symbolic links"):
        write_log(str(folder), {})
    assert other.read_text("utf-8") == "kept"


def test_readers_see_a_whole_file(tmp_path: Path) -> None:
    """While many write the same file, whoever reads it sees one of their texts, and nothing is left beside it."""
    file = tmp_path / "context.md"
    texts = [f"{number}" * 20_000 for number in range(8)]
    write_whole(str(file), texts[0])
    with ThreadPoolExecutor(4) as pool:
        writing = [pool.submit(write_whole, str(file), text) for text in texts * 5]
        while not all(one.done() for one in writing):
            assert file.read_text("utf-8") in texts
        assert [one.result() for one in writing] == [None] * 40

    assert [path.name for path in tmp_path.iterdir()] == ["context.md"]
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_link_is_followed_only_where_that_was_asked_for(tmp_path: Path) -> None:
    """A person's own link leads to its file; a link that lies in a repository is replaced."""
    other = tmp_path / "other"
    other.write_text("old", "utf-8")
    link = tmp_path / "link"
    link.symlink_to(other)

    write_whole(str(link), "new")
    assert (link.is_symlink(), other.read_text("utf-8")) == (True, "new")
    write_whole(str(link), "newest", follow=False)
    assert (link.is_symlink(), other.read_text("utf-8")) == (False, "new")


@pytest.mark.parametrize("path", ["", "missing/file", "/dev/null"])
def test_where_no_file_can_be_none_is_made(tmp_path: Path, path: str) -> None:
    """A directory, a device and a file in no directory are refused, with what to do."""
    with pytest.raises(UsageError) as raised:
        write_whole(str(tmp_path / path), "text")
    assert raised.value.hint
