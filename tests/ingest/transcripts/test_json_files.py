"""Opening transcripts: regular files only, compressed ones too, one line at a time, within limits."""

from __future__ import annotations

import gzip
import json
import os
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
from tests.ingest.conftest import RunUnprivileged
from tests.ingest.transcripts.conversations import (
    claude,
    claude_turn,
    exchanges,
    opencode_message,
    read,
    stored_as_zstd,
    text_part,
    tool_result,
    tool_use,
    write_lines,
)

from lorelog.core.errors import NotFound, SourceError
from lorelog.ingest.transcripts import json_files
from lorelog.ingest.transcripts.conversation import open_conversation
from lorelog.ingest.transcripts.turns import MAX_RESULT_CHARS, MAX_TEXT_CHARS, MAX_TOOL_CALLS


def test_files_that_are_not_transcripts_are_refused(tmp_path: Path) -> None:
    """Missing, empty and foreign files, directories, pipes and devices are errors with the reason."""
    empty, notes, other = tmp_path / "empty", tmp_path / "notes.md", tmp_path / "other.jsonl"
    empty.write_text("\n \n")
    notes.write_text("# Notes\n\nsession_meta\n")
    other.write_text('{"level": "info", "message": "started"}\n' * 300)
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(NotFound, match="there is no file"):
        open_conversation(str(tmp_path / "missing.jsonl"))
    with pytest.raises(NotFound, match="there is no file"):
        open_conversation(str(empty / "below"))
    for path, message in [
        (empty, "is empty"),
        (notes, "not a transcript in a known format"),
        (other, "not a transcript in a known format"),
        (tmp_path, "is a directory"),
        (tmp_path / "pipe", "is not a regular file"),
        (Path(os.devnull), "is not a regular file"),
    ]:
        with pytest.raises(SourceError, match=message) as caught:
            open_conversation(str(path))
        assert caught.value.hint


def test_a_file_without_permission_is_refused(tmp_path: Path, run_unprivileged: RunUnprivileged) -> None:
    """A file without read permission is an error that says so."""
    path = write_lines(tmp_path / "s.jsonl", claude_turn("u1", "One?", "1"))
    path.chmod(0)
    code = (
        "import sys\n"
        "from lorelog.core.errors import SourceError\n"
        "from lorelog.ingest.transcripts.conversation import open_conversation\n"
        "try:\n    open_conversation(sys.argv[1])\n"
        "except SourceError as error:\n    print(error.message)\n"
    )

    assert "cannot be read: Permission denied" in run_unprivileged(code, str(path))


def test_a_packed_file_is_read(tmp_path: Path) -> None:
    """A gzip transcript reads like the plain one, and a truncated one as far as possible."""
    records = [
        line for number in range(300) for line in claude_turn(f"u{number}", f"Question {number}?", os.urandom(40).hex())
    ]
    plain = write_lines(tmp_path / "s.jsonl", records)
    packed, cut = tmp_path / "s.jsonl.gz", tmp_path / "cut.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    cut.write_bytes(packed.read_bytes()[: packed.stat().st_size // 2])

    assert read(packed)[0] == read(plain)[0]
    turns, stats = read(cut)
    assert 0 < len(turns) < 300
    assert turns[:-1] == read(plain)[0][: len(turns) - 1]
    assert stats.broken == 1


def test_a_file_packed_with_zstandard_is_read(tmp_path: Path) -> None:
    """A Zstandard file is read, in any number of frames; of a damaged one, no more than there is."""
    plain = write_lines(tmp_path / "s.jsonl", claude_turn("u1", "One?", "1"))
    path = tmp_path / "s.jsonl.zstd"
    path.write_bytes(stored_as_zstd(plain.read_bytes()[:60]) + stored_as_zstd(plain.read_bytes()[60:]))

    assert exchanges(read(path)[0]) == [("One?", "1")]
    path.write_bytes(path.read_bytes()[:-30])
    with suppress(SourceError):  # versions differ in how much of a damaged file they give
        assert len(read(path)[0]) <= 1


def test_a_line_that_is_too_long_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that is too long is counted and skipped."""
    monkeypatch.setattr(json_files, "MAX_LINE_BYTES", 5000)
    path = write_lines(
        tmp_path / "s.jsonl",
        [*claude_turn("u1", "One?", "1"), claude("user", "u2", "x" * 20_000), *claude_turn("u3", "Three?", "3")],
    )

    turns, stats = read(path)

    assert exchanges(turns) == [("One?", "1"), ("Three?", "3")]
    assert stats.broken == 1


def test_long_texts_and_many_calls_are_cut(tmp_path: Path) -> None:
    """Texts, tool results and the number of calls are limited, and every cut is marked."""
    records = [
        claude("user", "u1", "q" * (MAX_TEXT_CHARS + 7)),
        claude("assistant", "a0", [{"type": "text", "text": "ok"}]),
    ]
    for number in range(MAX_TOOL_CALLS + 3):
        records.append(claude("assistant", f"a{number + 1}", [tool_use(f"t{number}", "Bash", command="yes")]))
        records.append(claude("user", f"r{number}", [tool_result(f"t{number}", "y" * (MAX_RESULT_CHARS + 9))]))

    (turn,), _ = read(write_lines(tmp_path / "s.jsonl", records))

    assert turn.truncated
    assert turn.user == "q" * MAX_TEXT_CHARS + "… [7 more characters]"
    assert (len(turn.tools), turn.tools_left_out) == (MAX_TOOL_CALLS, 3)
    assert turn.tools[0].result == "y" * MAX_RESULT_CHARS + "… [9 more characters]"
    assert turn.tools[0].truncated


def test_control_characters_are_data(tmp_path: Path) -> None:
    """Control characters are returned unchanged; display code makes them safe."""
    (turn,), _ = read(write_lines(tmp_path / "s.jsonl", claude_turn("u1", "\x1b[31mred\x07", "a\u202eb")))

    assert (turn.user, turn.assistant) == ("\x1b[31mred\x07", "a\u202eb")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["lines", "document"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, form: str) -> None:
    """A conversation of 24 MB is read with far less memory."""
    path = tmp_path / "s"
    filler = "word " * 1000
    with path.open("w") as file:
        if form == "lines":
            for number in range(2400):
                for record in claude_turn(f"u{number}", filler, filler):
                    file.write(json.dumps(record) + "\n")
        else:
            file.write('{"info": {"id": "s"}, "messages": [')
            for number in range(4800):
                message = opencode_message(f"m{number}", "user", [text_part(filler)])
                file.write(("," if number else "") + json.dumps(message))
            file.write("]}")
    from lorelog.ingest.transcripts.turns import TranscriptStats

    conversation = open_conversation(str(path))
    tracemalloc.start()
    try:
        count = sum(1 for _ in conversation.turns(TranscriptStats()))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert path.stat().st_size > 24_000_000
    assert count == (2400 if form == "lines" else 4800)
    assert peak < 4_000_000
