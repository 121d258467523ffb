"""The ledger on a real disk: format, permissions, concurrent writers, full disks, rotation and repair; every change to its files is detected."""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import force_setattr
from tests.examples import examples
from tests.records.any_drafts import drafts
from tests.records.drafts import draft

from lorelog.core.errors import StoreError, StoreIncompatible, StoreUnwritable, UsageError
from lorelog.core.record import SIGNED_FIELDS, Record, RecordDraft, signed_bytes
from lorelog.records import chain as lines
from lorelog.records.chain import GENESIS_HASH, LedgerPosition
from lorelog.records.ledger import Ledger

SOURCE = Path(__file__).resolve().parents[2]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_line_is_what_the_page_says(tmp_path: Path, ledger: Ledger) -> None:
    """A line is compact JSON with sorted keys, a leading checksum, the previous hash and no empty values."""
    first, second = ledger.append([draft(agent="mara"), draft(agent="")])
    text = (tmp_path / "ledger.jsonl").read_bytes()
    first_line, second_line = text.splitlines()

    assert text.endswith(b"\n")
    for line, record, prev in (
        (first_line, first, GENESIS_HASH),
        (second_line, second, hashlib.sha256(first_line).hexdigest()),
    ):
        values = json.loads(line)
        assert line.decode() == json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert values["#"] == hashlib.sha256(line[24:]).hexdigest()[:16]
        assert (values["v"], values["seq"], values["prev"]) == (1, record.seq, prev)
        assert record.hash == hashlib.sha256(line).hexdigest()
        assert "" not in values.values()
    assert "agent" not in json.loads(second_line)


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    """Folder and files are private, and sealed files are read-only."""
    folder = tmp_path / "data" / "t"
    ledger = Ledger(folder, max_segment_bytes=1)
    ledger.append([draft()])
    ledger.append([draft()])

    assert mode(folder) == 0o700
    assert mode(folder / "ledger.jsonl") == 0o600
    assert mode(folder / "ledger.lock") == 0o600
    assert mode(folder / "ledger-000001.jsonl") == 0o400


def test_reading_makes_nothing(tmp_path: Path) -> None:
    """A missing ledger is empty and intact, and reading does not create it."""
    ledger = Ledger(tmp_path / "none")

    assert list(ledger.read()) == []
    assert ledger.verify().ok
    assert ledger.position().seq == 0
    assert ledger.append([]) == []
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("bad", ["kind", "field", "text", "number", "twice"])
def test_a_batch_with_one_bad_draft_writes_nothing(ledger: Ledger, bad: str) -> None:
    """A batch is written completely or not at all, also if encoding fails."""
    good = draft(id="r-1")
    wrong = {
        "kind": draft(),
        "field": draft(fields={"summary": 3}),
        "text": draft(fields={"summary": "\ud800"}),
        "number": draft(fields={"metrics": {"a": float("nan")}}),
        "twice": good,
    }[bad]
    if bad == "kind":
        force_setattr(wrong, "kind", "digest")

    with pytest.raises(UsageError):
        ledger.append([good, wrong])
    assert list(ledger.read()) == []


def test_rotation_keeps_order_and_places(tmp_path: Path) -> None:
    """Segments are in order, and a position in the open file stays valid after it is sealed."""
    ledger = Ledger(tmp_path, max_segment_bytes=2000)
    written = ledger.append([draft()])
    position = ledger.position()
    for _ in range(20):
        written += ledger.append([draft(), draft()])

    assert len(list(tmp_path.glob("ledger-*.jsonl"))) > 3
    assert [record.id for record in ledger.read()] == [record.id for record in written]
    assert ledger.contains(position)
    assert [record.id for record in ledger.read(position)] == [record.id for record in written[1:]]
    assert all(path.stat().st_size >= 2000 for path in tmp_path.glob("ledger-*.jsonl"))


@pytest.mark.parametrize("step", ["renamed", "created"])
def test_a_crash_while_sealing_is_repaired(tmp_path: Path, step: str) -> None:
    """After a crash between the steps of sealing, the next writer makes the segment read-only and continues."""
    ledger = Ledger(tmp_path, max_segment_bytes=10**6)
    ledger.append([draft(), draft()])
    (tmp_path / "ledger.jsonl").rename(tmp_path / "ledger-000001.jsonl")
    if step == "created":
        (tmp_path / "ledger.jsonl").touch(0o600)

    assert ledger.verify().ok
    ledger.append([draft()])
    assert mode(tmp_path / "ledger-000001.jsonl") == 0o400
    assert [record.seq for record in ledger.read()] == [1, 2, 3]
    assert ledger.verify().ok


def test_lines_taken_from_the_end_are_missed(tmp_path: Path, ledger: Ledger) -> None:
    """Removed acknowledged lines are reported before the next write and stay visible after it."""
    for _ in range(5):
        ledger.append([draft()])
    file = tmp_path / "ledger.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:3]))

    report = ledger.verify()
    assert [(fault.file, fault.what) for fault in report.faults] == [
        ("ledger.jsonl", "records 4 to 5 are missing at the end")
    ]
    assert report.first_bad_seq == 4
    ledger.append([draft()])
    report = ledger.verify()
    assert [(fault.line, fault.what) for fault in report.faults] == [(4, "records 4 to 5 are missing before it")]
    assert [(record.seq, record.verified) for record in ledger.read()] == [(1, True), (2, True), (3, True), (6, False)]


def test_a_last_line_that_was_exchanged_is_found(tmp_path: Path, ledger: Ledger) -> None:
    """A last line replaced by another valid line is detected."""
    first, _ = ledger.append([draft()])[0], ledger.append([draft(agent="mara")])
    file = tmp_path / "ledger.jsonl"
    forged = lines.encode_line(draft(agent="eve", id="r", at="2026-03-05T14:30:00.000Z"), 2, first.hash)
    file.write_bytes(file.read_bytes().splitlines(keepends=True)[0] + forged + b"\n")

    assert [fault.what for fault in ledger.verify().faults] == ["record 2 is not the one that was acknowledged"]
    ledger.append([draft()])
    assert [fault.line for fault in ledger.verify().faults] == [3]


def test_a_repeated_line_is_called_that(tmp_path: Path, ledger: Ledger) -> None:
    """The fault of a duplicate line names the location of the first."""
    ledger.append([draft()])
    file = tmp_path / "ledger.jsonl"
    file.write_bytes(file.read_bytes() * 2)

    assert [(fault.line, fault.what) for fault in ledger.verify().faults] == [(2, "it repeats line 1 of ledger.jsonl")]


def test_nothing_is_written_into_a_line_without_an_end(tmp_path: Path, ledger: Ledger) -> None:
    """If the last line end was overwritten, the next record still gets its own line."""
    ledger.append([draft()])
    ledger.append([draft()])
    file = tmp_path / "ledger.jsonl"
    file.write_bytes(file.read_bytes()[:-1] + b" ")
    (after,) = ledger.append([draft()])

    assert [record.id for record in ledger.read()][-1] == after.id
    assert [fault.what for fault in ledger.verify().faults] == ["record 2 is missing before it"]
    assert (tmp_path / "ledger.torn").exists()


@pytest.mark.parametrize("junk", [b"junk\n", b"[]\n", b"\n", b'{"seq":true}\n', b"\xff\xfe\n", b"[" * 100_000 + b"\n"])
def test_lines_of_others_are_passed_over_and_named(tmp_path: Path, junk: bytes, ledger: Ledger) -> None:
    """Lines that are not records are reported but stop neither reading nor writing, and nothing is dropped."""
    ledger.append([draft()])
    with (tmp_path / "ledger.jsonl").open("ab") as file:
        file.write(junk)
    (after,) = ledger.append([draft()])

    assert after.seq == 3
    assert [(record.seq, record.verified) for record in ledger.read()] == [(1, True), (3, False)]
    assert [fault.line for fault in ledger.verify().faults] == [2]
    assert junk in (tmp_path / "ledger.jsonl").read_bytes()


def test_a_line_of_a_newer_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger: Ledger) -> None:
    """A line of a newer format is an error, not damage."""
    monkeypatch.setattr(lines, "LINE_FORMAT_VERSION", 2)
    (tmp_path / "ledger.jsonl").write_bytes(lines.encode_line(draft(id="r", at="x"), 1, GENESIS_HASH) + b"\n")
    monkeypatch.undo()

    with pytest.raises(StoreIncompatible, match="newer lorelog"):
        list(ledger.read())


@pytest.mark.parametrize("name", ["ledger.jsonl", "ledger.lock"])
def test_a_link_is_not_followed(tmp_path: Path, name: str) -> None:
    """A link in position of a ledger file is not followed."""
    other = tmp_path / "other"
    other.write_text("mine\n")
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / name).symlink_to(other)

    with pytest.raises(StoreError):
        Ledger(tmp_path / "t").append([draft()])
    assert other.read_text() == "mine\n"


def test_a_full_disk_changes_nothing(tmp_path: Path, ledger: Ledger) -> None:
    """A short write is undone exactly; the next one that fits is chained as if nothing had happened."""
    ledger.append([draft()])
    before = (tmp_path / "ledger.jsonl").read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 1000, hard))
    try:
        with pytest.raises(StoreUnwritable, match="too large"):
            ledger.append([draft(), draft(), draft(fields={"summary": "x" * 2000})])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert (tmp_path / "ledger.jsonl").read_bytes() == before
    ledger.append([draft()])
    assert ledger.verify().ok
    assert not (tmp_path / "ledger.torn").exists()


def test_readers_never_see_half_a_batch(tmp_path: Path) -> None:
    """During writes and sealing, readers see whole batches, in order, in an unbroken chain."""
    ledger = Ledger(tmp_path, max_segment_bytes=6000)
    wrong: list[object] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen = list(ledger.read())
            if len(seen) % 3 or [record.seq for record in seen] != list(range(1, len(seen) + 1)):
                wrong.append([record.seq for record in seen])
            if not all(record.verified for record in seen):
                wrong.append("unverified")

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(60):
        ledger.append([draft()] * 3)
    done.set()
    for reader in readers:
        reader.join()

    assert wrong == []
    assert len(list(ledger.read())) == 180


WRITER = """
import os, sys
from pathlib import Path
from tests.records.drafts import draft
from lorelog.records.ledger import Ledger
folder, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
ledger = Ledger(folder, max_segment_bytes=20_000)
for number in range(count):
    batch = [draft(agent=name, fields={"summary": "x" * (number * 37 % 400)}) for _ in range(1 + number % 3)]
    written = ledger.append(batch)
    os.write(1, (",".join(record.id for record in written) + "\\n").encode())
"""


def writer(folder: Path, name: str, count: int) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": f"{SOURCE / 'src'}:{SOURCE}"}
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), name, str(count)], stdout=subprocess.PIPE, env=environment
    )


@pytest.mark.slow
def test_24_processes_at_once_keep_every_record(tmp_path: Path) -> None:
    """Every record of every process is stored once, batches together, in one unbroken chain over several segments."""
    writers = [writer(tmp_path, f"agent {number}", 12) for number in range(24)]
    acknowledged = [out.decode().split() for out, _ in (writer.communicate() for writer in writers)]
    ledger = Ledger(tmp_path)
    ids = [record.id for record in ledger.read()]

    assert [writer.returncode for writer in writers] == [0] * 24
    assert ledger.verify().ok
    assert len(ids) == 24 * 24
    for batches in acknowledged:
        assert len(batches) == 12
        for batch in (line.split(",") for line in batches):
            first = ids.index(batch[0])
            assert ids[first : first + len(batch)] == batch
    assert len(list(tmp_path.glob("ledger-*.jsonl"))) > 2


def kill_and_check(folder: Path, cycles: int, seed: int) -> int:
    """Kill writers at random times, and return the number of acknowledged records."""
    chance = random.Random(seed)
    ledger = Ledger(folder)
    acknowledged: list[str] = []
    for cycle in range(cycles):
        process = writer(folder, f"cycle {cycle}", 10_000)
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(chance.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read()
        process.wait()
        process.stdout.close()
        lines = (first + rest).decode().split("\n")[:-1]
        acknowledged += [identity for line in lines for identity in line.split(",")]
        report = ledger.verify()
        assert report.ok, report
        assert set(acknowledged) <= {record.id for record in ledger.read()}
    return len(acknowledged)


@pytest.mark.slow
def test_killed_writers_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """After repeated kills all acknowledged records exist and the chain is unbroken."""
    assert kill_and_check(tmp_path, 15, 6) > 15


def test_a_line_that_is_nested_too_deeply_is_not_a_record(tmp_path: Path, ledger: Ledger) -> None:
    """A line nested too deeply is reported as not a record, and everything else is read."""
    ledger.append([draft("task_start")])
    fields = '{"a":' * 400 + "1" + "}" * 400
    with (tmp_path / "ledger.jsonl").open("a", encoding="utf-8") as file:
        file.write(f'{{"v":1,"seq":2,"id":"x","prev":"","at":"a","kind":"evidence","fields":{{"metrics":{fields}}}}}\n')
    ledger.append([draft("task_start")])

    assert len(list(ledger.read())) == 2
    assert not ledger.verify().ok


ANY = settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))


def content(source: RecordDraft | Record) -> dict[str, object]:
    """Return the fields that a draft and its record share."""
    return {name: getattr(source, name) for name in SIGNED_FIELDS if name not in {"id", "at"}}


@pytest.mark.slow
@ANY
@given(
    batches=st.lists(st.lists(drafts(), min_size=1, max_size=4), max_size=5), max_bytes=st.sampled_from([1, 900, 10**6])
)
def test_any_drafts_are_read_back_as_they_were_written(batches: list[list[RecordDraft]], max_bytes: int) -> None:
    """Batches of any drafts with any segment size give the same records in order, in an unbroken chain."""
    with TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder), max_segment_bytes=max_bytes)
        written = [record for batch in batches for record in ledger.append(batch)]
        read = list(ledger.read())

        assert [content(record) for record in read] == [content(draft) for batch in batches for draft in batch]
        assert [(record.id, record.hash, signed_bytes(record)) for record in read] == [
            (record.id, record.hash, signed_bytes(record)) for record in written
        ]
        assert [record.seq for record in read] == list(range(1, len(read) + 1))
        assert all(record.verified for record in read)
        assert ledger.verify().ok
        assert ledger.verify().lines == len(read)


@pytest.mark.slow
@ANY
@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=6),
    max_bytes=st.sampled_from([1, 700, 10**6]),
    data=st.data(),
)
def test_reading_goes_on_from_any_position(sizes: list[int], max_bytes: int, data: st.DataObject) -> None:
    """Reading from a position gives the same records as reading from the start."""
    with TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder), max_segment_bytes=max_bytes)
        for size in sizes:
            ledger.append([draft()] * size)
        entries = list(ledger.walk())
        cut = data.draw(st.integers(0, len(entries)))
        after = entries[cut - 1].position if cut else LedgerPosition()

        assert list(ledger.read(after)) == [entry.record for entry in entries[cut:]]
        assert ledger.contains(after)
        assert ledger.position() == entries[-1].position


def lay(folder: Path, max_bytes: int) -> tuple[Ledger, list[Path]]:
    """Write nine records, some in batches, and return the ledger and its files in order."""
    ledger = Ledger(folder, max_segment_bytes=max_bytes)
    for size in (1, 3, 1, 2, 1, 1):
        ledger.append([draft(agent=f"mara {size}")] * size)
    files = [*sorted(folder.glob("ledger-*.jsonl")), folder / "ledger.jsonl"]
    for file in files:
        file.chmod(0o600)
    return ledger, files


def check_found(ledger: Ledger, places: set[tuple[str, int]], first_bad: int) -> None:
    """Check that damage is reported at one of the places, and that records from there on are unverified, before and after a write."""
    report = ledger.verify()
    assert not report.ok
    assert {(fault.file, fault.line) for fault in report.faults} & places, (report, places)
    assert report.first_bad_seq == first_bad
    ledger.append([draft(agent="later")])
    after = ledger.verify()
    assert after.first_bad_seq == first_bad
    records = list(ledger.read())
    assert records[-1].agent == "later"
    assert not any(record.verified for record in records[first_bad - 1 :])
    assert all(record.verified and record.seq == number for number, record in enumerate(records[: first_bad - 1], 1))


@pytest.mark.slow
@settings(ANY, max_examples=examples(80))
@given(max_bytes=st.sampled_from([1500, 10**6]), data=st.data(), byte=st.integers(0, 255))
def test_any_changed_byte_is_found_and_its_line_named(max_bytes: int, data: st.DataObject, byte: int) -> None:
    """For any changed byte its line is named, and records from there on are unverified."""
    with TemporaryDirectory() as folder:
        ledger, files = lay(Path(folder), max_bytes)
        file = data.draw(st.sampled_from(files))
        text = bytearray(file.read_bytes())
        at = data.draw(st.integers(0, len(text) - 1))
        if text[at] == byte:
            byte ^= 1
        line = text[:at].count(b"\n") + 1
        bad = sum(path.read_bytes().count(b"\n") for path in files[: files.index(file)]) + line
        text[at] = byte
        file.write_bytes(text)

        ends = file == files[-1] and at == len(text) - 1
        # Without its end the last line is torn, and missed because it had been acknowledged.
        check_found(ledger, {(file.name, 0)} if ends else {(file.name, line)}, bad)


@pytest.mark.slow
@settings(ANY, max_examples=examples(60))
@given(
    max_bytes=st.sampled_from([1500, 10**6]),
    data=st.data(),
    how=st.sampled_from(["remove", "repeat", "swap", "insert"]),
)
def test_any_removed_repeated_moved_or_inserted_line_is_found(max_bytes: int, data: st.DataObject, how: str) -> None:
    """For valid lines in the wrong place the first wrong location is named."""
    with TemporaryDirectory() as folder:
        ledger, files = lay(Path(folder), max_bytes)
        file = data.draw(st.sampled_from(files))
        lines = file.read_bytes().splitlines(keepends=True)
        before = sum(path.read_bytes().count(b"\n") for path in files[: files.index(file)])
        at = data.draw(st.integers(0, len(lines) - (2 if how == "swap" and len(lines) > 1 else 1)))
        if how == "remove":
            del lines[at]
        elif how == "repeat" or (how == "swap" and len(lines) == 1):
            lines.insert(at, lines[at])
            at += 1
        elif how == "swap":
            lines[at], lines[at + 1] = lines[at + 1], lines[at]
        else:
            other = Ledger(Path(folder, "other"))
            other.append([draft(agent="forged")] * (before + at + 1))
            lines.insert(at, other._segments.open_path.read_bytes().splitlines(keepends=True)[before + at])
        file.write_bytes(b"".join(lines))

        places = {(file.name, at + 1), (file.name, at + 2)}
        if at >= len(lines):  # what follows is in the next file, or nowhere
            following = files[files.index(file) + 1 :]
            places = {(following[0].name, 1)} if following else {(file.name, 0)}
        elif how == "insert" and at + 1 == len(lines):
            places |= {(path.name, 1) for path in files[files.index(file) + 1 :][:1]}
        # A forged line that is chained rightly to the one before it is detected by the next line.
        slack = 1 if how == "insert" and ledger.verify().first_bad_seq == before + at + 2 else 0
        check_found(ledger, places, before + at + 1 + slack)


@ANY
@given(data=st.data())
def test_a_missing_segment_is_found_and_named(data: st.DataObject) -> None:
    """A missing sealed file is named, and the records after it are readable but unverified."""
    with TemporaryDirectory() as folder:
        ledger, files = lay(Path(folder), 1)
        gone = data.draw(st.sampled_from(files[:-1]))
        before = sum(file.read_bytes().count(b"\n") for file in files[: files.index(gone)])
        gone.unlink()

        check_found(ledger, {(gone.name, 0)}, before + 1)


@pytest.mark.slow
@settings(ANY, max_examples=examples(25))
@given(data=st.data())
def test_a_write_that_was_cut_anywhere_is_made_good(data: st.DataObject) -> None:
    """Readers see nothing of a partial batch, the next writer moves it aside, and nothing else is lost."""
    with TemporaryDirectory() as folder:
        ledger, files = lay(Path(folder), data.draw(st.sampled_from([1500, 10**6])))
        before, lock = files[-1].read_bytes(), Path(folder, "ledger.lock").read_bytes()
        records = list(ledger.read())
        ledger.append([draft(agent="a"), draft(agent="b"), draft(agent="c")])
        file = files[-1] if files[-1].stat().st_size > len(before) else Path(folder, "ledger.jsonl")
        whole = Path(folder, "ledger.jsonl").read_bytes()
        start = len(before) if whole.startswith(before) else 0
        cut = data.draw(st.integers(start, len(whole) - 1))
        file.write_bytes(whole[:cut])
        Path(folder, "ledger.lock").write_bytes(lock)

        assert list(ledger.read()) == records
        assert ledger.verify().ok
        assert ledger.verify().torn == cut - start
        (after,) = ledger.append([draft(agent="after")])
        assert after.seq == len(records) + 1
        assert [record.id for record in ledger.read()] == [*(record.id for record in records), after.id]
        assert ledger.verify().ok
        torn = Path(folder, "ledger.torn")
        assert (torn.read_bytes() if torn.exists() else b"") == (whole[start:cut] + b"\n" if cut > start else b"")
