"""Files are replaced completely or not at all."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lorelog.core.atomic_file import AtomicFile, write_atomic


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_is_private(tmp_path: Path) -> None:
    """A new file is readable by its owner only, and nothing is left beside it."""
    write_atomic(tmp_path / "a", b"text")

    assert (tmp_path / "a").read_bytes() == b"text"
    assert mode_of(tmp_path / "a") == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_the_mode_is_kept_on_request(tmp_path: Path) -> None:
    """A replaced file keeps its mode where that is asked for, and becomes private otherwise."""
    path = tmp_path / "a"
    path.touch()
    path.chmod(0o640)

    write_atomic(path, b"text", keep_mode=True)
    assert mode_of(path) == 0o640

    write_atomic(path, b"text")
    assert mode_of(path) == 0o600


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    """The file that a link leads to is not changed."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("theirs")
    (tmp_path / "a").symlink_to(elsewhere)

    write_atomic(tmp_path / "a", b"ours", keep_mode=True)

    assert elsewhere.read_text() == "theirs"
    assert not (tmp_path / "a").is_symlink()
    assert mode_of(tmp_path / "a") == 0o600


def test_a_block_that_raises_changes_nothing(tmp_path: Path) -> None:
    """If the block raises, the file is as it was and the temporary file is gone."""
    path = tmp_path / "a"
    path.write_text("before")

    with pytest.raises(TypeError), AtomicFile(path) as file:
        file.writelines([b"after", "not bytes"])  # type: ignore[list-item]

    assert path.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_an_exclusive_file_replaces_nothing(tmp_path: Path) -> None:
    """With `exclusive`, a file that exists is kept."""
    path = tmp_path / "a"
    path.write_text("theirs")

    with pytest.raises(FileExistsError):
        write_atomic(path, b"ours", exclusive=True)

    assert path.read_text() == "theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_name_may_have_the_maximum_length(tmp_path: Path) -> None:
    """A name of 255 bytes leaves room for the name of the temporary file."""
    write_atomic(tmp_path / ("ä" * 127 + "a"), b"text")

    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_may_be_given_as_a_descriptor(tmp_path: Path) -> None:
    """A name is written into an open folder, wherever that has been moved."""
    (tmp_path / "old").mkdir()
    folder = os.open(tmp_path / "old", os.O_RDONLY)
    try:
        (tmp_path / "old").rename(tmp_path / "new")
        with AtomicFile("a", folder=folder) as file:
            file.write(b"text")
    finally:
        os.close(folder)

    assert (tmp_path / "new" / "a").read_bytes() == b"text"


def test_writers_at_the_same_time_do_not_mix(tmp_path: Path) -> None:
    """With many writers, the file has the whole text of one of them."""
    texts = [character * 100_000 for character in (b"a", b"b", b"c", b"d")]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda text: write_atomic(tmp_path / "file", text, durable=False), texts * 5))

    assert (tmp_path / "file").read_bytes() in texts
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
