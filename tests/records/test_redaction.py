"""Redacted records: the text is gone, the chain holds, and nobody can pass off another line as a redaction."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.records.any_drafts import drafts as any_drafts
from tests.records.drafts import draft

from lorelog.core import atomic_file
from lorelog.core.errors import NotFound, StoreUnwritable, UsageError
from lorelog.core.record import Promotion, Record, RecordDraft
from lorelog.records import chain
from lorelog.records.kinds import check_draft
from lorelog.records.ledger import Ledger
from lorelog.records.tables import RecordTables
from lorelog.records.trust import assess_records

SECRET = "the walrus sleeps under the harbour bridge"


def secret_ledger(folder: Path, *, max_segment_bytes: int = 1 << 20) -> tuple[Ledger, list[str]]:
    """Return a ledger of five records, two of which hold the secret."""
    ledger = Ledger(folder, max_segment_bytes=max_segment_bytes)
    drafts = [
        draft("task_start", {"goal": f"find out why {SECRET}"}),
        draft("decision", {"summary": "use two threads"}),
        draft(
            "evidence",
            {"summary": SECRET, "metrics": {SECRET: 1}, "entity_refs": [{"name": SECRET, "entity_type": "x"}]},
        ),
        draft("decision", {"summary": "keep it"}, status=SECRET),
        draft("task_finish", {"what_failed": [SECRET, "other"]}),
    ]
    return ledger, [ledger.append([each])[0].id for each in drafts]


def all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.mark.parametrize("segment_bytes", [1, 1 << 20], ids=["sealed", "open"])
def test_the_text_is_gone_and_the_chain_holds(tmp_path: Path, segment_bytes: int) -> None:
    """After a redaction no file holds the text, every line verifies, and later records are appended as before."""
    ledger, ids = secret_ledger(tmp_path, max_segment_bytes=segment_bytes)
    before = {record.id: record for record in ledger.read()}
    modes = {path.name: path.stat().st_mode for path in tmp_path.iterdir() if path.name != "ledger.jsonl"}
    redacted = ledger.redact([ids[0], *ids[2:]], actor="mara", reason="asked to")

    assert SECRET.encode() not in all_bytes(tmp_path)
    assert {record.id for record in redacted} == {ids[0], *ids[2:]}
    report = ledger.verify()
    assert (report.ok, report.lines, report.redacted) == (True, 6, 4)
    after = {record.id: record for record in ledger.read()}
    for id_ in ids:
        kept = ("seq", "kind", "at", "task", "thread", "agent", "reply_to", "hash", "verified")
        assert [getattr(before[id_], name) for name in kept] == [getattr(after[id_], name) for name in kept]
    assert after[ids[1]] == before[ids[1]]
    assert all((tmp_path / name).stat().st_mode == mode for name, mode in modes.items())
    ledger.append([draft()])
    assert ledger.verify().ok
    assert ledger.redact(ids[2:], actor="mara", reason="again") == ()
    assert ledger.verify().lines == 7
    with pytest.raises(NotFound):
        ledger.redact(["nobody"], actor="mara", reason="")
    redaction = next(record for record in ledger.read() if record.kind == "redaction")
    with pytest.raises(UsageError):
        ledger.redact([redaction.id], actor="mara", reason="")


@given(drafts=st.lists(any_drafts(), min_size=1, max_size=4))
def test_any_record_can_be_redacted(tmp_path_factory: pytest.TempPathFactory, drafts: list[RecordDraft]) -> None:
    """Whatever a record holds, its redacted line verifies and its kind still accepts its fields."""
    ledger = Ledger(tmp_path_factory.mktemp("ledger"))
    ids = [record.id for record in ledger.append([replace(each, id="") for each in drafts])]
    for record in ledger.redact(ids, actor="mara", reason="r"):
        check_draft(_as_draft(record))
    assert ledger.verify().ok


def _as_draft(record: Record) -> RecordDraft:
    names = ("id", "at", "task", "thread", "agent", "reply_to", "origin", "status", "fields", "supersedes")
    return RecordDraft(record.kind, **{name: getattr(record, name) for name in names})


def rewrite(folder: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    path = folder / "ledger.jsonl"
    path.write_bytes(b"\n".join(change(path.read_bytes().splitlines())) + b"\n")


def with_values(line: bytes, **values: object) -> bytes:
    """Return a line with other values and a right checksum."""
    changed = {name: value for name, value in (json.loads(line) | values).items() if name != "#"}
    return chain.encode_values(changed)


def test_a_redaction_without_its_record_is_named(tmp_path: Path) -> None:
    """A line that somebody redacted by hand, with all hashes right, is broken."""
    ledger, _ = secret_ledger(tmp_path)

    def forge(lines: list[bytes]) -> list[bytes]:
        line = chain.decode_line(lines[2])
        assert line is not None
        return [*lines[:2], chain.redact_line(line, lines[2])[0], *lines[3:]]

    rewrite(tmp_path, forge)
    (fault,) = ledger.verify().faults
    assert (fault.line, fault.what) == (3, "it was redacted, but no later record names its redaction")
    assert [record.verified for record in ledger.read()] == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"agent": "someone else"}, "not the line that its redaction record names"),
        ({"fields": {"summary": "approved by the owner"}}, "not the line that its redaction record names"),
        ({"redacted": "0" * 64}, "no later record names"),
    ],
)
def test_a_redacted_line_that_was_changed_is_named(tmp_path: Path, values: dict[str, object], what: str) -> None:
    """A redacted line altered afterwards, its checksum made right, is broken."""
    ledger, ids = secret_ledger(tmp_path)
    ledger.redact([ids[2]], actor="mara", reason="r")
    rewrite(tmp_path, lambda lines: [*lines[:2], with_values(lines[2], **values), *lines[3:]])
    report = ledger.verify()
    assert not report.ok
    assert what in report.faults[0].what
    assert report.faults[0].line == 3


def test_a_redaction_cannot_plant_text(tmp_path: Path) -> None:
    """A redacted line that holds other text is broken, even if somebody appends a record that names it."""
    ledger, _ = secret_ledger(tmp_path)

    def forge(lines: list[bytes]) -> list[bytes]:
        line = chain.decode_line(lines[2])
        assert line is not None
        planted = with_values(chain.redact_line(line, lines[2])[0], fields={"summary": "approved by the owner"})
        entry = {"id": line.values["id"], "seq": 3, "original": line.hash, "redacted": chain.hash_line(planted)}
        forged = RecordDraft(
            "redaction", id="x", at=line.values["at"], status="recorded", fields={"redactions": [entry]}
        )
        last = chain.decode_line(lines[-1])
        assert last is not None
        return [*lines[:2], planted, *lines[3:], chain.encode_line(forged, 6, last.hash)]

    rewrite(tmp_path, forge)
    assert "holds text" in ledger.verify().faults[0].what


def test_text_that_comes_back_is_named(tmp_path: Path) -> None:
    """The original line, put back in its old place, is reported although all its hashes are right."""
    ledger, ids = secret_ledger(tmp_path)
    old = (tmp_path / "ledger.jsonl").read_bytes().splitlines()
    ledger.redact([ids[2]], actor="mara", reason="r")
    rewrite(tmp_path, lambda lines: [*lines[:2], old[2], *lines[3:]])
    (fault,) = ledger.verify().faults
    assert (fault.line, fault.what) == (3, "its text was redacted, but is there")


@pytest.mark.parametrize("opener", ["append", "complete"])
@pytest.mark.parametrize("step", ["first segment", "rename"])
def test_an_interrupted_redaction_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, opener: str
) -> None:
    """Killed between the redaction record and the removal, the next write or check removes the text, once."""
    ledger, ids = secret_ledger(tmp_path, max_segment_bytes=1)

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if step == "rename":
            patch.setattr(os, "replace", die)
        else:
            patch.setattr(Ledger, "_remove_texts", die)
        with pytest.raises(KeyboardInterrupt):
            ledger.redact([ids[0], *ids[2:]], actor="mara", reason="r")
    assert SECRET.encode() in all_bytes(tmp_path)
    assert Ledger(tmp_path).has_pending_redactions()
    if opener == "append":
        Ledger(tmp_path).append([draft()])
    else:
        Ledger(tmp_path).complete_redactions()
    assert SECRET.encode() not in all_bytes(tmp_path)
    report = ledger.verify()
    assert (report.ok, report.redacted) == (True, 4)
    assert not Ledger(tmp_path).has_pending_redactions()
    assert sum(record.kind == "redaction" for record in ledger.read()) == 1


def test_tables_follow_a_redaction(tmp_path: Path) -> None:
    """Tables that had applied the records notice the rewrite, and a purge leaves no text in their file or log."""
    ledger, ids = secret_ledger(tmp_path / "ledger", max_segment_bytes=1500)
    reader, tables = RecordTables(tmp_path / "records.db"), RecordTables(tmp_path / "records.db")
    tables.catch_up(ledger)
    generation = tables.generation()
    ledger.redact([ids[0], *ids[2:]], actor="mara", reason="r")
    reader.catch_up(ledger)
    assert reader.generation() != generation
    goal = reader.get(ids[0])
    assert goal is not None
    assert goal.redacted
    assert goal.text("goal").startswith("sha256:")
    assert tables.purge(ledger) == 6
    assert SECRET.encode() not in all_bytes(tmp_path)


def test_a_position_in_a_rewritten_file_leads_to_the_next_line(tmp_path: Path) -> None:
    """A reader that continues at a byte offset from before the redaction reads the lines that follow, all sound."""
    ledger, ids = secret_ledger(tmp_path)
    entries = list(ledger.walk())
    position = entries[3].position
    ledger.redact([ids[0], ids[2]], actor="mara", reason="r")
    rest = list(ledger.walk(position))
    assert [entry.record.id for entry in rest if entry.record][:1] == [ids[4]]
    assert [entry.fault for entry in rest] == ["", ""]


def test_trust_never_rises_by_a_redaction(tmp_path: Path) -> None:
    """A redacted record supports nothing and is supported by nothing; a redacted withdrawal still withdraws."""
    ledger = Ledger(tmp_path)
    (claim,) = ledger.append([draft("evidence", agent="mara")])
    (support,) = ledger.append(
        [draft("review", {"summary": "right"}, agent="jo", reply_to=claim.id, supports_claim=True)]
    )
    (against,) = ledger.append(
        [draft("review", {"summary": "no"}, agent="jo", reply_to=claim.id, supports_claim=False)]
    )
    key = {claim.id: "k1", support.id: "k2", against.id: "k2"}

    def signer(record: Record) -> str:
        return "" if record.redacted else key.get(record.id, "")

    ledger.redact([against.id], actor="mara", reason="r")
    trust = assess_records(ledger.read(), signer)
    assert trust[support.id].promotion is Promotion.REFUSED
    assert trust[against.id].reason.startswith("redacted")
    assert trust[against.id].requires_verification
    # Signed with the same key as the claim: refused while the claim's text is there, and after it is gone.
    (other,) = ledger.append([draft("evidence", agent="mara")])
    (again,) = ledger.append([draft("review", {"summary": "yes"}, agent="ann", reply_to=other.id, supports_claim=True)])
    key |= {other.id: "k1", again.id: "k1"}
    assert assess_records(ledger.read(), signer)[again.id].promotion is Promotion.REFUSED
    ledger.redact([other.id], actor="mara", reason="r")
    assert assess_records(ledger.read(), signer)[again.id].promotion is Promotion.REFUSED


def test_a_full_disk_while_redacting_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the redaction record cannot be written, the ledger is as before and nothing is pending."""
    ledger, ids = secret_ledger(tmp_path)
    before = (tmp_path / "ledger.jsonl").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(atomic_file, "write_all", full)
        with pytest.raises(StoreUnwritable):
            ledger.redact([ids[0]], actor="mara", reason="r")
    assert (tmp_path / "ledger.jsonl").read_bytes() == before
    assert not ledger.has_pending_redactions()
