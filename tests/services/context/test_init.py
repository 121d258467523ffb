"""The block in an instruction file is updated without changing the rest, and files of a command are written whole and privately."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lorelog.core.errors import ConfigError, UsageError
from lorelog.services.context.init import (
    BLOCK,
    BLOCK_END,
    BLOCK_START,
    LOG_NAME,
    insert_block,
    remove_block,
    write_context_log,
    write_output,
)

TEXTS = st.lists(st.sampled_from(["a", "# Title", "é", " ", "\n", "\r\n", "\r", "\n\n", "<!-- x -->", "\ufeff"])).map(
    "".join
)


@given(TEXTS.map(str.encode))
@example(b"")
@example(b"a\nb\r")
@example(b"a\r\nb\r\n")
def test_taking_the_block_out_gives_every_byte_back(before: bytes) -> None:
    """Inserting the block once or twice and removing it restores every byte of a file."""
    after = insert_block(before, "AGENTS.md")

    assert after.startswith(before)
    assert insert_block(after, "AGENTS.md") == after
    assert remove_block(after, "AGENTS.md") == before


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_older_block_is_brought_up_to_date_where_it_stands(end: str) -> None:
    """Updating an old block keeps the text around it byte for byte, and uses the file's line ends."""
    before = end.join(["# Mine", "", BLOCK_START, "old words", BLOCK_END, "", "more of mine", ""]).encode()
    after = insert_block(before, "AGENTS.md")

    assert after.decode() == end.join(["# Mine", "", *BLOCK.split("\n"), "", "more of mine", ""])
    assert insert_block(after, "AGENTS.md") == after


@pytest.mark.parametrize(
    "marks",
    [
        [BLOCK_START],
        [BLOCK_END],
        [BLOCK_END, BLOCK_START],
        [BLOCK_START, BLOCK_START, BLOCK_END],
        [BLOCK_START, BLOCK_END, BLOCK_START],
        [BLOCK_START, BLOCK_END, BLOCK_START, BLOCK_END],
    ],
)
def test_a_broken_block_is_refused(marks: list[str]) -> None:
    """Marks that do not form one block are an error that names their lines."""
    broken = "\n".join(["text", *marks, "text"]).encode()

    for change in (insert_block, remove_block):
        with pytest.raises(ConfigError, match="line 2") as raised:
            change(broken, "AGENTS.md")
        assert "nothing was changed" in raised.value.hint


def test_a_mark_within_a_line_is_none() -> None:
    """A mark inside a line is not a block."""
    text = f"The mark `{BLOCK_START}` begins it.\n".encode()

    assert remove_block(text, "AGENTS.md") == text
    assert insert_block(text, "AGENTS.md").startswith(text)


def test_a_file_of_another_encoding_is_left_alone() -> None:
    """A file that is not UTF-8 is refused, because our bytes would not be text in it."""
    with pytest.raises(ConfigError, match="not UTF-8"):
        insert_block("é".encode("utf-16"), "AGENTS.md")


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
