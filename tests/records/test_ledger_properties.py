"""Whatever is written is read back, and whatever is done to a ledger's files afterwards is found."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.records.any_drafts import drafts
from tests.records.drafts import draft

from lorelog.core.record import SIGNED, Draft, Record, signed_bytes
from lorelog.records.chain import Position
from lorelog.records.ledger import Ledger

ANY = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def said(one: Draft | Record) -> dict[str, object]:
    """Return what a writer says with a draft, and a record says of it."""
    return {name: getattr(one, name) for name in SIGNED if name not in {"id", "at"}}


@ANY
@given(batches=st.lists(st.lists(drafts(), min_size=1, max_size=4), max_size=5), most=st.sampled_from([1, 900, 10**6]))
def test_any_drafts_are_read_back_as_they_were_written(batches: list[list[Draft]], most: int) -> None:
    """Batches of anything, whatever the size of segments: the same records in the same order, of an unbroken chain."""
    with TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder), most_bytes=most)
        written = [record for batch in batches for record in ledger.append(batch)]
        read = list(ledger.read())

        assert [said(one) for one in read] == [said(one) for batch in batches for one in batch]
        assert [(one.id, one.hash, signed_bytes(one)) for one in read] == [
            (one.id, one.hash, signed_bytes(one)) for one in written
        ]
        assert [one.seq for one in read] == list(range(1, len(read) + 1))
        assert all(one.verified for one in read)
        assert ledger.verify().ok
        assert ledger.verify().lines == len(read)


@ANY
@given(sizes=st.lists(st.integers(1, 3), min_size=1, max_size=6), most=st.sampled_from([1, 700, 10**6]), data=st.data())
def test_reading_goes_on_from_any_position(sizes: list[int], most: int, data: st.DataObject) -> None:
    """What follows a position is the same whether one reads from there or from the beginning."""
    with TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder), most_bytes=most)
        for size in sizes:
            ledger.append([draft()] * size)
        entries = list(ledger.walk())
        cut = data.draw(st.integers(0, len(entries)))
        after = entries[cut - 1].position if cut else Position()

        assert list(ledger.read(after)) == [entry.record for entry in entries[cut:]]
        assert ledger.holds(after)
        assert ledger.position() == entries[-1].position


def lay(folder: Path, most: int) -> tuple[Ledger, list[Path]]:
    """Write nine records, some in batches, and return the ledger and its files in order."""
    ledger = Ledger(folder, most_bytes=most)
    for size in (1, 3, 1, 2, 1, 1):
        ledger.append([draft(agent=f"mara {size}")] * size)
    files = [*sorted(folder.glob("ledger-*.jsonl")), folder / "ledger.jsonl"]
    for file in files:
        file.chmod(0o600)
    return ledger, files


def check_found(ledger: Ledger, places: set[tuple[str, int]], first_bad: int) -> None:
    """The damage is found, one of the places is named, and all from a record on is unverified, before and after a write."""
    found = ledger.verify()
    assert not found.ok
    assert {(fault.file, fault.line) for fault in found.faults} & places, (found, places)
    assert found.first_bad_seq == first_bad
    ledger.append([draft(agent="later")])
    after = ledger.verify()
    assert after.first_bad_seq == first_bad
    records = list(ledger.read())
    assert records[-1].agent == "later"
    assert not any(one.verified for one in records[first_bad - 1 :])
    assert all(one.verified and one.seq == number for number, one in enumerate(records[: first_bad - 1], 1))


@settings(ANY, max_examples=80)
@given(most=st.sampled_from([1500, 10**6]), data=st.data(), byte=st.integers(0, 255))
def test_any_changed_byte_is_found_and_its_line_named(most: int, data: st.DataObject, byte: int) -> None:
    """One byte of one line is not what it was: that line is named, and nothing from it on counts as verified."""
    with TemporaryDirectory() as folder:
        ledger, files = lay(Path(folder), most)
        file = data.draw(st.sampled_from(files))
        text = bytearray(file.read_bytes())
        at = data.draw(st.integers(0, len(text) - 1))
        if text[at] == byte:
            byte ^= 1
        line = text[:at].count(b"\n") + 1
        bad = sum(one.read_bytes().count(b"\n") for one in files[: files.index(file)]) + line
        text[at] = byte
        file.write_bytes(text)

        ends = file == files[-1] and at == len(text) - 1
        # Without its end the last line is torn, and missed because it had been acknowledged.
        check_found(ledger, {(file.name, 0)} if ends else {(file.name, line)}, bad)


@settings(ANY, max_examples=60)
@given(most=st.sampled_from([1500, 10**6]), data=st.data(), how=st.sampled_from(["remove", "repeat", "swap", "insert"]))
def test_any_removed_repeated_moved_or_inserted_line_is_found(most: int, data: st.DataObject, how: str) -> None:
    """Lines that are all sound, but not those that were written there: the first place that is wrong is named."""
    with TemporaryDirectory() as folder:
        ledger, files = lay(Path(folder), most)
        file = data.draw(st.sampled_from(files))
        lines = file.read_bytes().splitlines(keepends=True)
        before = sum(one.read_bytes().count(b"\n") for one in files[: files.index(file)])
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
            places |= {(one.name, 1) for one in files[files.index(file) + 1 :][:1]}
        # A forged line that is chained rightly to the one before it is told by the line that follows.
        slack = 1 if how == "insert" and ledger.verify().first_bad_seq == before + at + 2 else 0
        check_found(ledger, places, before + at + 1 + slack)


@ANY
@given(data=st.data())
def test_a_missing_segment_is_found_and_named(data: st.DataObject) -> None:
    """A sealed file is gone: it is named, and what follows is there and unverified."""
    with TemporaryDirectory() as folder:
        ledger, files = lay(Path(folder), 1)
        gone = data.draw(st.sampled_from(files[:-1]))
        before = sum(one.read_bytes().count(b"\n") for one in files[: files.index(gone)])
        gone.unlink()

        check_found(ledger, {(gone.name, 0)}, before + 1)


@settings(ANY, max_examples=25)
@given(data=st.data())
def test_a_write_that_was_cut_anywhere_is_made_good(data: st.DataObject) -> None:
    """Whatever part of a batch reached the disk: readers see none of it, the next writer sets it aside, and no more is lost."""
    with TemporaryDirectory() as folder:
        ledger, files = lay(Path(folder), data.draw(st.sampled_from([1500, 10**6])))
        before, lock = files[-1].read_bytes(), Path(folder, "ledger.lock").read_bytes()
        known = list(ledger.read())
        ledger.append([draft(agent="a"), draft(agent="b"), draft(agent="c")])
        file = files[-1] if files[-1].stat().st_size > len(before) else Path(folder, "ledger.jsonl")
        whole = Path(folder, "ledger.jsonl").read_bytes()
        start = len(before) if whole.startswith(before) else 0
        cut = data.draw(st.integers(start, len(whole) - 1))
        file.write_bytes(whole[:cut])
        Path(folder, "ledger.lock").write_bytes(lock)

        assert list(ledger.read()) == known
        assert ledger.verify().ok
        assert ledger.verify().torn == cut - start
        (after,) = ledger.append([draft(agent="after")])
        assert after.seq == len(known) + 1
        assert [one.id for one in ledger.read()] == [*(one.id for one in known), after.id]
        assert ledger.verify().ok
        torn = Path(folder, "ledger.torn")
        assert (torn.read_bytes() if torn.exists() else b"") == (whole[start:cut] + b"\n" if cut > start else b"")
