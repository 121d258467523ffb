"""Any log is read within bounded memory, and its errors are stored once."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from lorelog.core.errors import NotFound, SourceError
from lorelog.core.options import TraceOptions
from lorelog.services.traces.logs import LogIngester
from lorelog.services.traces.tables import TraceFilter, TraceTables

STACK = 'Traceback (most recent call last):\n  File "/a.py", line {line}, in f\n    g()\nKeyError: {message}\n'
STAMPED = "2026-11-15 10:00:{second:02},000 ERROR app: failed\n" + STACK


@pytest.fixture
def tables(tmp_path: Path) -> TraceTables:
    """Empty tables."""
    return TraceTables(tmp_path / "home" / "traces.db", TraceOptions())


@pytest.fixture
def ingester(tables: TraceTables) -> LogIngester:
    """An ingester for the project /app."""
    return LogIngester(tables, "/app")


def plain(count: int, message: str = "'a'") -> str:
    """A text without times, with the same error repeated."""
    return "".join(f"run {number}\n" + STACK.format(line=number, message=message) for number in range(count))


def test_a_log_is_read_and_its_errors_can_be_asked_for(
    ingester: LogIngester, tables: TraceTables, tmp_path: Path
) -> None:
    """Errors are stored with project, position and time, and grouped."""
    log = tmp_path / "app.log"
    log.write_text(
        "ok\n" + STAMPED.format(second=1, line=3, message="'a'") + STAMPED.format(second=2, line=9, message="'a'")
    )
    reply = ingester.read_file(str(log))
    assert (reply.lines, reply.bytes, reply.found, reply.added) == (11, log.stat().st_size, 2, 2)
    assert [(group.type, group.times) for group in reply.groups] == [("KeyError", 2)]
    newest, oldest = tables.errors(TraceFilter())[0]
    assert (oldest.place, oldest.origin.project, oldest.origin.source) == (f"{log}:3", "/app", "log")
    assert newest.at - oldest.at == 1_000


@pytest.mark.parametrize(
    "text", [plain(3), "".join(STAMPED.format(second=one, line=one, message="1") for one in range(3))]
)
def test_the_same_log_again_adds_nothing(ingester: LogIngester, tables: TraceTables, tmp_path: Path, text: str) -> None:
    """A log read again adds nothing, also renamed, compressed, from a pipe, or with a byte order mark."""
    log, packed = tmp_path / "a.log", tmp_path / "b.gz"
    log.write_text(text)
    packed.write_bytes(gzip.compress(text.encode()))
    assert ingester.read_file(str(log)).added == 3
    for again in (log, packed, log.rename(tmp_path / "c.log")):
        reply = ingester.read_file(str(again)) if again.exists() else None
        assert reply is None or (reply.found, reply.added) == (3, 0)
    assert ingester.read(io.BytesIO(text.encode()), "standard input").added == 0
    assert tables.errors(TraceFilter())[1] == 3


def test_a_log_that_has_grown_adds_what_is_new(ingester: LogIngester, tables: TraceTables, tmp_path: Path) -> None:
    """A log that has grown adds only its new errors, even without times."""
    log = tmp_path / "a.log"
    for count, added in ((2, 2), (5, 3), (5, 0), (9, 4)):
        log.write_text(plain(count))
        assert ingester.read_file(str(log)).added == added
    assert tables.errors(TraceFilter())[1] == 9


def test_another_run_of_the_same_tests_is_another_text(ingester: LogIngester, tables: TraceTables) -> None:
    """The same failure in another run counts again."""
    assert ingester.read_text(plain(1) + "1 failed in 0.12s\n").added == 1
    assert ingester.read_text(plain(1) + "1 failed in 0.14s\n").added == 1
    assert tables.groups(TraceFilter())[0].times == 2


@pytest.mark.slow
def test_a_reading_that_was_interrupted_is_gone_on_with(ingester: LogIngester, tables: TraceTables) -> None:
    """An interrupted read keeps its errors, and the next one adds the rest."""

    class Torn(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            if self.tell() > 0:
                raise KeyboardInterrupt
            return super().read1(size)

    text = plain(1_500).encode()
    with pytest.raises(KeyboardInterrupt):
        ingester.read(Torn(text), "standard input")
    before = tables.errors(TraceFilter())[1]
    assert 0 < before < 1_500
    reply = ingester.read(io.BytesIO(text), "standard input")
    assert reply.found == 1_500
    assert tables.errors(TraceFilter())[1] == 1_500
    assert ingester.read(io.BytesIO(text), "standard input").added == 0


def test_what_a_killed_reading_has_left_is_cleared_away(ingester: LogIngester, tables: TraceTables) -> None:
    """Errors of a killed read are removed by the next one, since its log is unknown."""
    ingester.read_text(plain(2))
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    with tables.transaction() as db:
        db.execute("UPDATE errors SET run = ?", (f"{dead.pid}-1",))
        db.execute("DELETE FROM ingested")
    assert ingester.read_text(plain(2)).added == 2
    assert tables.errors(TraceFilter())[1] == 2


def test_many_of_the_same_are_counted_and_not_all_kept(ingester: LogIngester, tables: TraceTables) -> None:
    """Of a thousand errors with one signature fifty are stored, with the total count."""
    reply = ingester.read_text(plain(1_000))
    assert (reply.found, reply.added, reply.groups[0].times) == (1_000, 1_000, 1_000)
    assert (len(tables.errors(TraceFilter(limit=500))[0]), tables.errors(TraceFilter())[1]) == (51, 1_000)


@pytest.mark.slow
def test_a_long_log_is_read_in_little_memory(ingester: LogIngester) -> None:
    """Megabytes of errors and endless lines are read with little memory."""

    class Endless(io.BytesIO):
        left = 10_000_000

        def read1(self, size: int | None = -1, /) -> bytes:
            said = plain(1).encode() + b"all is well, and nothing of it matters to anyone\n" * 1_000
            self.left -= len(said)
            return b"" if self.left < 0 else said if self.left % 7 else b"x" * 90_000

    tracemalloc.start()
    try:
        reply = ingester.read(Endless(), "pipe")
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert reply.bytes > 8_000_000
    assert reply.found > 20
    assert most < 5_000_000


@pytest.mark.parametrize(
    "bytes_",
    [
        b"\xef\xbb\xbf" + plain(1).encode(),
        plain(1).encode("utf-16"),
        b"\xff\xfe\x00\xd8 \xc3\x28 caf\xe9\n".replace(b"\x00", b" ")[2:] + plain(1).encode("latin-1"),
        plain(1).replace("\n", "\r\n").encode(),
        plain(1).rstrip("\n").encode(),
    ],
)
def test_texts_of_many_kinds_are_read(ingester: LogIngester, bytes_: bytes) -> None:
    """Byte order marks, UTF-16, invalid bytes, other line ends and a missing last line end are read."""
    assert ingester.read(io.BytesIO(bytes_), "log").found == 1


def test_what_is_no_text_is_refused(ingester: LogIngester, tables: TraceTables, tmp_path: Path) -> None:
    """A binary, a folder and a missing file are errors, and nothing is stored."""
    (tmp_path / "a.bin").write_bytes(b"\x7fELF\x00\x01\x02" * 500)
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"\x00\x01\x02" * 500))
    for name in ("a.bin", "b.gz"):
        with pytest.raises(SourceError, match="is not text"):
            ingester.read_file(str(tmp_path / name))
    for path in (tmp_path, tmp_path / "gone.log"):
        with pytest.raises(NotFound):
            ingester.read_file(str(path))
    assert tables.errors(TraceFilter()) == ([], 0)


def test_a_damaged_archive_is_read_as_far_as_it_goes(ingester: LogIngester, tmp_path: Path) -> None:
    """A damaged gzip file is read up to the damage, with a note."""
    import random

    random.seed(3)
    noise = "".join(f"{random.random()}\n" for _ in range(40_000))
    whole = gzip.compress((plain(2) + noise).encode())
    (tmp_path / "a.gz").write_bytes(whole[: len(whole) // 2])
    reply = ingester.read_file(str(tmp_path / "a.gz"))
    assert reply.found == 2
    assert "damaged" in reply.notes[0]


def test_secrets_are_taken_out_before_anything_is_kept(tables: TraceTables) -> None:
    """Secrets are removed, custom patterns included, and do not change the signature."""
    secret = "ghp_x7Kq2mZ9vB4nT1wY6rL8" + "sD3fG5hJ0pQaCeUi"
    reader = LogIngester(tables, "/app", (r"otter-\d+",))
    reader.read_text(STACK.format(line=1, message=f"token {secret} of otter-77"))
    reader.read_text(
        STACK.format(line=1, message=f"token {secret[::-1][:36]} of otter-78").replace("token ", "token ghp_")
    )
    tables.close()
    held = tables.path.read_bytes()
    assert secret.encode() not in held
    assert b"otter-77" not in held
    assert "[redacted:" in tables.errors(TraceFilter())[0][-1].trace.message


def test_an_empty_log_tells_nothing(ingester: LogIngester) -> None:
    """An empty log has no errors."""
    reply = ingester.read_text("")
    assert (reply.lines, reply.found, reply.added, reply.groups) == (0, 0, 0, ())
