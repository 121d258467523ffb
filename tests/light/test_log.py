"""The log of deliveries: written by parallel hooks, read while an agent waits."""

from __future__ import annotations

import json
import os
import stat
import threading
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.atomic_file import append_line
from lorelog.light.delivery_log import (
    append_delivery,
    call_digest,
    estimate_tokens,
    read_deliveries,
    read_lines,
    session_log,
    target_digest,
)

CUE = {"project": "/p", "moment": "tool-before", "kind": "cue", "memories": ["m1"], "tokens": 12, "cue": "path=a.py"}


def delivered_memories(folder: str, host: str, session: str) -> set[str]:
    return {memory for line in read_deliveries(session_log(folder, host, session)) for memory in line["memories"]}


def test_a_delivery_is_read_back(tmp_path: Path) -> None:
    """Everything that was logged is read back, with the time, the host and the session."""
    folder = str(tmp_path / "deliveries")
    append_delivery(folder, "claude", "s1", CUE)

    (line,) = read_deliveries(session_log(folder, "claude", "s1"))

    assert line.items() >= {**CUE, "host": "claude", "session": "s1"}.items()
    assert line["at"].endswith("Z")
    assert delivered_memories(folder, "claude", "s1") == {"m1"}
    assert delivered_memories(folder, "claude", "s2") == delivered_memories(folder, "codex", "s1") == set()


def test_only_the_owner_may_read_the_log(tmp_path: Path) -> None:
    """The folder and its files are readable by their owner only, whatever the umask."""
    old = os.umask(0)
    try:
        append_delivery(str(tmp_path / "d"), "claude", "s", CUE)
    finally:
        os.umask(old)
    file = Path(session_log(str(tmp_path / "d"), "claude", "s"))

    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_torn_line_costs_only_itself(tmp_path: Path) -> None:
    """A line that was cut by a crash is skipped, and the next delivery begins a line of its own."""
    folder = str(tmp_path)
    append_delivery(folder, "claude", "s", CUE)
    file = Path(session_log(folder, "claude", "s"))
    file.write_bytes(file.read_bytes() + b'{"at": "2026-03-05T14:00:00Z", "memor')
    append_delivery(folder, "claude", "s", {**CUE, "memories": ["m2"]})

    assert delivered_memories(folder, "claude", "s") == {"m1", "m2"}


@pytest.mark.parametrize(
    "text", [b"[" * 100_000, b"null", b"[1]", b'{"memories": 3}', b"\xff\xfe", b'{"memories": "m"}', b"\0" * 50]
)
def test_malformed_lines_are_skipped(tmp_path: Path, text: bytes) -> None:
    """A line that is not a delivery is skipped, however malformed it is."""
    append_delivery(str(tmp_path), "claude", "s", CUE)
    file = Path(session_log(str(tmp_path), "claude", "s"))
    file.write_bytes(text + b"\n" + file.read_bytes())

    assert delivered_memories(str(tmp_path), "claude", "s") == {"m1"}


def test_ids_that_are_not_text_are_skipped(tmp_path: Path) -> None:
    """Numbers and objects among the ids of a line do not hide the others."""
    append_line(session_log(str(tmp_path), "claude", "s"), b'{"memories": [1, null, "m", {"id": "x"}]}')

    assert delivered_memories(str(tmp_path), "claude", "s") == {"m"}


def test_links_pipes_and_folders_are_neither_read_nor_written(tmp_path: Path) -> None:
    """A path that is not a regular file costs the line, and neither blocks nor changes another file."""
    other = tmp_path / "other"
    other.write_text('{"memories": ["secret"]}\n')
    file = Path(session_log(str(tmp_path), "claude", "s"))
    for make in (partial(os.symlink, other), os.mkfifo, os.mkdir):
        make(file)
        with pytest.raises(OSError):  # noqa: PT011
            append_delivery(str(tmp_path), "claude", "s", CUE)
        assert delivered_memories(str(tmp_path), "claude", "s") == set()
        file.rmdir() if file.is_dir() and not file.is_symlink() else file.unlink()

    assert other.read_text() == '{"memories": ["secret"]}\n'


def test_only_an_unwritable_log_is_an_error(tmp_path: Path) -> None:
    """A file in place of the folder is an OSError, which hooks expect; a value that is not JSON is written as text."""
    (tmp_path / "d").write_text("")
    with pytest.raises(OSError):  # noqa: PT011
        append_delivery(str(tmp_path / "d"), "claude", "s", CUE)
    append_delivery(str(tmp_path / "e"), "claude", "s", {**CUE, "cue": object(), "call": {"a": 1}, "tokens": float})
    assert delivered_memories(str(tmp_path / "e"), "claude", "s") == {"m1"}


def test_a_huge_field_is_cut(tmp_path: Path) -> None:
    """A host that sends megabytes in a field does not make the log grow by them."""
    append_delivery(str(tmp_path), "claude", "s", {**CUE, "call": "x" * 5_000_000, "memories": ["m" * 9_000] * 5_000})

    assert Path(session_log(str(tmp_path), "claude", "s")).stat().st_size < 250_000


def test_only_the_end_of_a_huge_log_is_read(tmp_path: Path) -> None:
    """Of a log beyond the limit the newest lines are read, and no half line."""
    file = tmp_path / "big"
    file.write_text("".join(json.dumps({"number": number}) + "\n" for number in range(10_000)))

    numbers = [line["number"] for line in read_lines(str(file), 1_000)]

    assert numbers == list(range(10_000 - len(numbers), 10_000))
    assert 50 < len(numbers) < 80


def test_parallel_hooks_mix_no_lines(tmp_path: Path) -> None:
    """Deliveries of many hooks at once are all read back."""

    def deliver(number: int) -> None:
        for part in range(25):
            append_delivery(str(tmp_path), "claude", "s", {**CUE, "memories": [f"{number}-{part}"]})

    threads = [threading.Thread(target=deliver, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(delivered_memories(str(tmp_path), "claude", "s")) == 200


@given(st.text(), st.text(max_size=60), st.lists(st.text(), max_size=5))
def test_any_session_and_host_names_a_file_in_the_folder(session: str, host: str, memories: list[str]) -> None:
    """Slashes, dots, line breaks and surrogates in ids never lead out of the folder, and sessions stay apart."""
    path = session_log("/tenant/deliveries", host, session)

    assert os.path.dirname(os.path.normpath(path)) == "/tenant/deliveries"  # noqa: PTH120
    assert path != session_log("/tenant/deliveries", host, session + "x")
    assert path.isascii()


@given(st.text())
def test_tokens_are_never_underestimated_to_zero(text: str) -> None:
    """A text that is not empty costs at least one token, and a longer one no less than its beginning."""
    assert (estimate_tokens(text) > 0) == bool(text)
    assert estimate_tokens(text + "a") >= estimate_tokens(text)


def test_a_call_is_recognised_by_command_and_file_names() -> None:
    """White space and the folder of a file do not change a call's digest; another command or file does."""
    assert call_digest("npm  install\n") == call_digest("npm install")
    assert call_digest("", ["/w/src/a.py"]) == call_digest("", ["src/a.py"])
    assert (
        len({call_digest("npm install"), call_digest("pnpm install"), call_digest("", ["npm"]), call_digest("")}) == 4
    )
    assert call_digest("", ()) == ""
    edit = {"kind": "edit", "paths": ["/w/src/a.py"], "command": ""}
    assert target_digest(edit) == call_digest("", ["src/a.py"])
    assert target_digest({"kind": "run", "paths": ["/w"], "command": "npm test"}) == call_digest("npm test")
    assert target_digest({}) == ""
