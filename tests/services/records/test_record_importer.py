"""Exported records are restored unchanged in every format; foreign records are trusted only as far as proven, and no file produces an undeserved verification."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.examples import examples
from tests.records.any_drafts import drafts
from tests.records.drafts import draft

from lorelog.core.errors import NotFound, StoreBusy, UsageError
from lorelog.core.record import Promotion, Record, RecordDraft, TrustTier, signed_bytes
from lorelog.ingest.importers.source import ImportedEntry
from lorelog.light.session_start import OPEN_TASKS_FILE, read_open_tasks
from lorelog.records.trust import COUNTERSIGNING_KINDS, assess_records
from lorelog.services.records.exports import ImportItem, write_jsonl, write_omf
from lorelog.services.records.keyring import Keyring
from lorelog.services.records.record_importer import (
    ImportOptions,
    ImportReport,
    RecordImporter,
    detect_format,
    read_import_file,
)
from lorelog.services.records.store import RecordStore

BACKUP = ImportOptions(restore=True)
FORMATS = {"jsonl": write_jsonl, "omf": write_omf}
AT = "2026-03-05T14:30:00.000Z"
ROOT = Path(__file__).parents[4]


class Home:
    def __init__(self, place: Path) -> None:
        self.place = place
        self.keys = place / "identities"
        self.book = RecordStore(place / "data" / "t", Keyring(self.keys).signing_key)
        self.cache = place / "cache" / "t"
        self.memories: list[ImportedEntry] = []

    def write(self, *some: RecordDraft) -> list[Record]:
        """Append records, each on its own."""
        return [self.book.append([entry])[0] for entry in some]

    def sign(self, name: str, one: RecordDraft) -> RecordDraft:
        return Keyring(self.keys, name).sign(replace(one, agent=name))

    def export(self, form: str = "jsonl", **chosen: Any) -> Path:
        self.place.mkdir(exist_ok=True)
        path = self.place / f"out.{form}"
        path.write_text("".join(FORMATS[form](self.book.ledger.read(), **chosen)), "utf-8")
        return path

    def take(self, path: Path, choices: ImportOptions = ImportOptions()) -> ImportReport:  # noqa: B008  (frozen)
        form = detect_format(str(path))
        return RecordImporter(self.book, Keyring(self.keys), choices, self.memories.extend).run(
            lambda: read_import_file(str(path), form)
        )

    def said(self) -> list[tuple[str, bytes, str]]:
        """Return all records of the ledger as JSON."""
        return [(entry.id, signed_bytes(entry), entry.signature) for entry in self.book.ledger.read()]


@pytest.fixture
def homes(tmp_path: Path) -> Callable[[str], Home]:
    return lambda name: Home(tmp_path / name)


@pytest.fixture
def home(homes: Callable[[str], Home]) -> Home:
    return homes("home")


@pytest.fixture
def one(homes: Callable[[str], Home]) -> Home:
    return homes("one")


@pytest.fixture
def other(homes: Callable[[str], Home]) -> Home:
    return homes("other")


def lines(path: Path, *values: object) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(value) + "\n" for value in values), "utf-8")
    return path


def said(**values: Any) -> dict[str, Any]:
    """Return a record as its line in a file."""
    least = {"v": 1, "at": AT, "kind": "decision", "status": "recorded", "task": "t", "agent": "eve", "origin": "user"}
    return {**least, "id": "r-1", **values}


def start(**values: Any) -> dict[str, Any]:
    return said(kind="task_start", id="s-1", fields={"goal": "g"}, **values)


@pytest.mark.slow
@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(batches=st.lists(st.lists(drafts(), min_size=1, max_size=3), max_size=4))
@pytest.mark.parametrize("form", FORMATS)
def test_what_is_restored_is_what_was_exported(
    form: str, batches: list[list[RecordDraft]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Records survive an export and import unchanged in every format, and a second import adds nothing."""
    place = tmp_path_factory.mktemp("round")
    one, other = Home(place / "one"), Home(place / "other")
    Keyring(one.keys).create("mara")
    for batch in batches:
        one.book.append([one.sign("mara", batch[0]), *batch[1:]])
    file = one.export(form)

    taken = other.take(file, BACKUP)
    assert other.said() == one.said()
    assert (taken.written, taken.refused) == (len(one.said()), 0)
    assert other.book.ledger.verify().ok
    again = other.take(file, BACKUP)
    assert (again.written, again.already_present) == (0, len(one.said()))
    one.book.close()
    other.book.close()


def test_a_ledgers_own_file_can_be_taken(one: Home, other: Home) -> None:
    """Lines of a ledger's own file are accepted; a changed one is rejected."""
    one.write(draft("task_start"), draft(), draft())
    file = one.place / "data" / "t" / "ledger.jsonl"
    text = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(text[0] + text[1].replace(b"mara", b"otto") + text[2])

    taken = other.take(file, BACKUP)
    assert (taken.written, taken.refused) == (2, 1)
    assert [(problem.place, problem.message) for problem in taken.problems] == [
        (2, "it was changed after it was written")
    ]


def test_imported_text_speaks_for_nothing(home: Home) -> None:
    """Unsigned records are tainted and verify nothing, unless the file is restored as one's own backup."""
    home.write(draft("task_start", task="t"))
    (own,) = home.write(draft(task="t", agent="mara"))
    file = lines(
        home.place / "in.jsonl",
        said(id="claim", agent="otto"),
        said(
            id="check", kind="verification", agent="greta", reply_to="claim", relation="verifies", supports_claim=True
        ),
        said(id="mine", kind="verification", agent="greta", reply_to=own.id, relation="verifies", supports_claim=True),
    )

    taken = home.take(file)
    judged = home.book.trust(["claim", "check", "mine", own.id])
    assert (taken.written, taken.tainted, taken.refused, taken.dangling) == (3, 3, 0, 0)
    assert {home.book.tables().get(entry).origin for entry in ("claim", "check", "mine")} == {"import"}  # type: ignore[union-attr]
    assert all(
        judged[entry].tier is TrustTier.CANONICAL and judged[entry].tainted for entry in ("claim", "check", "mine")
    )
    assert {judged[entry].promotion for entry in ("check", "mine")} == {Promotion.REFUSED}
    assert judged[own.id].verified_by == ()


def test_a_known_signature_keeps_what_it_says(one: Home, other: Home) -> None:
    """A record with a trusted signature keeps its origin and signature, and may verify records there."""
    otto = Keyring(one.keys).create("otto")
    Keyring(other.keys).trust("otto", otto.public)
    other.write(draft("task_start"))
    (claim,) = other.write(draft(agent="mara"))
    one.take(other.export(), BACKUP)
    one.write(one.sign("otto", draft("verification", reply_to=claim.id, supports_claim=True)))

    taken = other.take(one.export())
    (check,) = other.book.tables().where("reply_to", claim.id)
    assert (taken.written, taken.already_present, taken.tainted, taken.unsigned) == (1, 2, 0, 0)
    assert (check.origin, other.book.trust([check.id])[check.id].tier) == ("agent", TrustTier.VERIFIED)
    assert other.book.trust([claim.id])[claim.id].verified_by == (check.id,)


def test_an_unknown_signature_is_taken_off(one: Home, other: Home) -> None:
    """A record signed with an unknown key is imported as tainted, and counted."""
    Keyring(one.keys).create("otto")
    one.write(draft("task_start"), one.sign("otto", draft()))

    taken = other.take(one.export())
    assert (taken.written, taken.tainted, taken.unsigned) == (2, 2, 1)
    assert {(entry.origin, entry.signature) for entry in other.book.ledger.read()} == {("import", "")}
    assert other.take(one.export()).already_present == 2


def test_a_signature_does_not_vouch_for_what_was_changed_beside_it(homes: Callable[[str], Home]) -> None:
    """A valid signed verification of a changed claim verifies nothing, in one file or two."""
    there = homes("there")
    otto = Keyring(there.keys).create("otto")
    there.write(draft("task_start"))
    (claim,) = there.write(draft(agent="mara", fields={"summary": "use redis"}))
    there.write(there.sign("otto", draft("verification", reply_to=claim.id, supports_claim=True)))
    forged = there.export()
    forged.write_text(forged.read_text("utf-8").replace("use redis", "use mysql"), "utf-8")
    parts = forged.read_text("utf-8").splitlines(keepends=True)

    for name, files in (("one", [parts]), ("two", [parts[:2], parts[2:]])):
        here = homes(name)
        Keyring(here.keys).trust("otto", otto.public)
        for number, part in enumerate(files):
            file = here.place / f"{number}.jsonl"
            file.write_text("".join(part), "utf-8")
            assert here.take(file).refused == 0
        assert here.book.trust([claim.id])[claim.id].verified_by == ()
        (check,) = here.book.tables().where("reply_to", claim.id)
        assert here.book.trust([check.id])[check.id].tier is TrustTier.CANONICAL


def test_imported_text_puts_nothing_aside(home: Home) -> None:
    """An imported record may supersede imported ones only."""
    home.write(draft("task_start", task="t"))
    (own,) = home.write(draft(task="t"))
    file = lines(
        home.place / "in.jsonl",
        said(id="a", kind="revision", reply_to=own.id, supersedes=own.id),
        said(id="b"),
        said(id="c", kind="revision", reply_to="b", supersedes="b"),
    )

    taken = home.take(file)
    assert [(problem.id, "supersede" in problem.message) for problem in taken.problems] == [("a", True)]
    assert home.book.tables().where("supersedes", own.id) == []
    assert [entry.id for entry in home.book.tables().where("supersedes", "b")] == ["c"]


def test_the_same_id_with_another_content_is_refused(home: Home) -> None:
    """A record with an existing id and another content is rejected, in the ledger or earlier in the file."""
    assert home.take(lines(home.place.parent / "1", start(), said(id="a", fields={"summary": "x"}))).written == 2
    file = lines(
        home.place / "2", said(id="a", fields={"summary": "y"}), said(id="b"), said(id="b", agent="z"), said(id="b")
    )

    for choices in (ImportOptions(dry_run=True), ImportOptions()):
        taken = home.take(file, choices)
        assert (taken.written, taken.already_present, taken.refused) == (1, 1, 2)
        assert [(problem.place, problem.id) for problem in taken.problems] == [(1, "a"), (3, "b")]
    assert home.book.tables().get("a").text("summary") == "x"  # type: ignore[union-attr]


BAD: Sequence[tuple[str, str]] = (
    ("nonsense", "not valid JSON"),
    ("[1]", "not a JSON object"),
    (json.dumps(said(v=2)), "format is '2'"),
    (json.dumps(said(id="")), "'id' is missing"),
    (json.dumps(said(at="yesterday")), "not a valid time"),
    (json.dumps(said(kind="digest")), "compiled"),
    (json.dumps(said(kind="dezision")), "not a kind"),
    (json.dumps(said(origin="god")), "not an origin"),
    (json.dumps(said(agnt="x")), "did you mean 'agent'"),
    (json.dumps(said(tier="verified_record")), "no field 'tier'"),
    (json.dumps(said(fields={"trust_tier": "verified_record"})), "no field"),
    (json.dumps(said(fields=[])), "Expected `object`, got `array` - at `$.fields`"),
    (json.dumps(said(agent=3)), "Expected `str`, got `int` - at `$.agent`"),
    (json.dumps(said(supports_claim="yes")), "Expected `bool | null`, got `str`"),
    (json.dumps(said(agent="\ud800")), "cannot be encoded"),
    (json.dumps(said(fields={"metrics": {"a": float("inf")}})), "cannot be encoded"),
    (json.dumps(said(fields={"metrics": json.loads('{"a":' * 60 + "1" + "}" * 60)})), "nested too deeply"),
    ('{"v":1,"id":' + "[" * 100_000, "not valid JSON"),
)


@pytest.mark.parametrize(("bad", "why"), BAD)
def test_a_bad_line_is_told_and_the_rest_taken(bad: str, why: str, home: Home) -> None:
    """An invalid line is reported with its number; the lines around it are imported."""
    home.place.mkdir()
    file = home.place / "in.jsonl"
    file.write_text(f"{json.dumps(start())}\n\n{bad}\n{json.dumps(said(id='after'))}", "utf-8")

    taken = home.take(file)
    assert (taken.read, taken.written, taken.refused) == (3, 2, 1)
    assert [problem.place for problem in taken.problems] == [3]
    assert why in taken.problems[0].message


def test_a_line_without_end_does_not_fill_the_memory(
    homes: Callable[[str], Home], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An overlong line is reported without reading it whole."""
    from lorelog.services.records import exports as formats

    monkeypatch.setattr(formats, "MAX_LINE_BYTES", 1000)
    home = homes("home")
    home.place.mkdir()
    file = home.place / "in.jsonl"
    file.write_text("x" * 100_000 + "\n" + json.dumps(start()) + "\n", "utf-8")

    taken = home.take(file)
    assert (taken.written, [(problem.place, problem.message) for problem in taken.problems]) == (
        1,
        [(1, "it is longer than 1,000 bytes")],
    )


def test_what_a_file_does_not_bring_is_told(home: Home) -> None:
    """A missing task or parent is reported; one that comes later in the file is not."""
    file = lines(
        home.place / "in.jsonl",
        said(id="a", reply_to="b"),
        said(id="b", reply_to="nowhere"),
        said(id="c", task="unheard"),
        start(),
    )

    taken = home.take(file)
    assert (taken.written, taken.refused, taken.dangling) == (4, 0, 2)
    assert [(problem.id, "nowhere" in problem.message, "unheard" in problem.message) for problem in taken.problems] == [
        ("b", True, False),
        ("c", False, True),
    ]


def test_a_dry_run_writes_nothing_and_tells_the_same(homes: Callable[[str], Home]) -> None:
    """A dry run has the same counts as a real one and creates nothing."""
    one, dry, real = homes("one"), homes("dry"), homes("real")
    one.write(draft("task_start"), draft(), draft())
    file = one.export()

    assert dry.take(file, ImportOptions(dry_run=True)) == real.take(file)
    assert not dry.place.exists()


def test_records_can_be_filed_under_another_project(one: Home, other: Home) -> None:
    """With a project given, records get it and lose a signature over another; global records stay global."""
    Keyring(one.keys).create("mara")
    one.write(draft("task_start", project="/a"), one.sign("mara", draft(project="/a")), draft(project=""))

    taken = other.take(one.export(), ImportOptions(restore=True, project="/b"))
    assert [(item.project, item.signature, item.origin) for item in other.book.ledger.read()] == [
        ("/b", "", "agent"),
        ("/b", "", "agent"),
        ("", "", "agent"),
    ]
    assert taken.unsigned == 1
    assert other.take(one.export(), ImportOptions(restore=True, project="/b")).already_present == 3


@pytest.mark.parametrize("form", FORMATS)
def test_records_after_a_break_stay_tainted(form: str, one: Home, other: Home) -> None:
    """Records after a break in the exported ledger stay tainted when they are restored."""
    one.write(draft("task_start", agent="greta"), draft(agent="mara"), draft(agent="otto"))
    file = one.place / "data" / "t" / "ledger.jsonl"
    file.write_bytes(file.read_bytes().replace(b"mara", b"evil"))

    taken = other.take(one.export(form), BACKUP)
    assert (taken.written, taken.tainted) == (3, 2)
    assert [item.origin for item in other.book.ledger.read()] == ["agent", "import", "import"]


SECRET = "ghp_" + "a1B2" * 9


@pytest.mark.parametrize("choices", [ImportOptions(), BACKUP])
@pytest.mark.parametrize("form", FORMATS)
def test_no_secret_comes_in(form: str, choices: ImportOptions, one: Home, other: Home) -> None:
    """Secrets in any part of a record are removed on import, even from a backup."""
    one.write(
        draft(
            "task_start",
            fields={
                "goal": SECRET,
                "what_failed": [SECRET],
                "parameters": {"a": [{"b": SECRET}], SECRET: 1, "password": "hunter2hunter2"},
                "dataset_refs": [{"name": SECRET}],
                "provenance": {"uri": "https://mara:s3cretpw99@example.org/x"},
            },
            agent=SECRET,
            session=SECRET,
            status=SECRET,
        )
    )

    taken = other.take(one.export(form), choices)

    assert (taken.written, taken.redacted, taken.refused) == (1, 1, 0)
    held = b"".join(path.read_bytes() for path in other.place.rglob("*") if path.is_file()).decode("utf-8", "replace")
    assert not [word for word in (SECRET, "hunter2hunter2", "s3cretpw99") if word in held]
    again = other.take(one.export(form), choices)
    assert (again.written, again.already_present) == (0, 1)


@pytest.mark.parametrize("name", ["id", "task", "reply_to", "supersedes", "project"])
def test_a_secret_where_something_is_named_is_refused(name: str, home: Home) -> None:
    """A secret in a reference is rejected, since removing it would change the reference."""
    taken = home.take(lines(home.place / "in.jsonl", start(), said(**{name: SECRET})))

    assert [problem.message for problem in taken.problems] == [f"its {name!r} contains a secret"]
    assert SECRET not in home.book.ledger.folder.joinpath("ledger.jsonl").read_text("utf-8")


def test_a_signed_record_loses_its_signature_with_its_secret(home: Home) -> None:
    """Removing a secret invalidates the signature, so the record is imported as tainted."""
    Keyring(home.keys).create("mara")
    signed = home.sign("mara", draft("task_start", fields={"goal": SECRET}))
    values = said(**{name: getattr(signed, name) for name in ("id", "at", "kind", "task", "thread", "agent", "origin")})
    values |= {"status": signed.status, "fields": dict(signed.fields), "signature": signed.signature}

    taken = home.take(lines(home.place / "in.jsonl", values))

    (record,) = home.book.ledger.read()
    assert (taken.redacted, taken.unsigned, record.signature, record.origin) == (1, 1, "", "import")


@pytest.mark.parametrize("kind", ["task_start", "task_progress", "task_finish"])
def test_imported_text_does_not_move_a_task_of_ours(kind: str, home: Home) -> None:
    """An imported record neither finishes nor renames a task that began here; a restored backup does."""
    home.write(draft("task_start", task="t", fields={"goal": "ours"}))
    fields = {"goal": "theirs", "summary": "s", "next_step": "n"}
    file = lines(home.place / "in.jsonl", said(kind=kind, task="t", status="failed", fields=fields))

    home.take(file)
    task = home.book.tables().task("t")

    assert task is not None
    assert (task.goal, task.status, task.finished_at, task.records) == ("ours", "in_progress", "", 2)
    shown = read_open_tasks(str(home.cache / OPEN_TASKS_FILE), ("",))
    assert [(entry["goal"], entry["status"]) for entry in shown] == [("ours", "in_progress")]


def test_an_imported_task_ends_as_it_did(home: Home) -> None:
    """A task that begins in a file has the project given there."""
    file = lines(home.place / "in.jsonl", start(), said(kind="task_finish", status="failed"))

    home.take(file)

    task = home.book.tables().task("t")
    assert task is not None
    assert (task.status, bool(task.finished_at)) == ("failed", True)
    assert read_open_tasks(str(home.cache / OPEN_TASKS_FILE), ("",)) == []


def test_formats_are_recognised(homes: Callable[[str], Home], tmp_path: Path) -> None:
    """The format of a file is detected from its beginning, also for files of other programs."""
    home = homes("home")
    for form in FORMATS:
        assert detect_format(str(home.export(form))) == form
    home.write(draft("task_start"))
    for form in FORMATS:
        assert detect_format(str(home.export(form))) == form
    theirs = tmp_path / "theirs"
    for text in ('{"omf":"1.0"}', '{\n  "omf": "1.0",\n', '{"exported_at": "x", "omf": "1.0"}', '\ufeff{ "omf":"1.0"}'):
        theirs.write_text(text, "utf-8")
        assert detect_format(str(theirs)) == "omf"
    with pytest.raises(NotFound):
        detect_format(str(tmp_path / "none"))


MEMD = {
    "omf": "1.0",
    "exported_at": "2026-04-18T00:00:00Z",
    "source": {"app": "memd"},
    "memories": [
        {
            "content": "fact A",
            "category": "topic:release",
            "tags": ["topic:release", "owner:alice", "", 3],
            "created_at": "2026-04-18",
            "extensions": {
                "memd": {"v": 1, "chunk_type": "decision", "lifecycle": {"status": "final", "tier": "working"}}
            },
        },
        {"content": "old", "status": "archived"},
        {"content": "   "},
        {
            "content": "verified!",
            "extensions": {"lorelog": {"v": 1, "type": "x y", "origin": "user", "tier": "verified"}},
        },
        "no object",
    ],
}


def test_memories_of_others_are_handed_on_without_their_worth(home: Home) -> None:
    """Text, type, tags and time of a memd document are imported; archived memories on request; empty ones are reported."""
    home.place.mkdir()
    file = home.place / "in.json"
    for text in (json.dumps(MEMD), json.dumps(MEMD, indent=2)):
        file.write_text(text, "utf-8")
        home.memories.clear()
        taken = home.take(file)
        at = datetime.fromisoformat("2026-04-18T00:00:00Z").astimezone()
        assert [(memory.text, memory.type, memory.tags, memory.at) for memory in home.memories] == [
            ("fact A", "decision", ("topic:release", "owner:alice"), at),
            ("verified!", "x-y", (), None),
        ]
        assert (taken.memories, taken.archived, taken.refused, taken.written) == (2, 1, 2, 0)
        assert [problem.place for problem in taken.problems] == [3, 5]
    home.memories.clear()
    assert home.take(file, ImportOptions(archived=True, dry_run=True)).memories == 3
    assert len(home.memories) == 3  # for the preview; their writer is told that it is one


@pytest.mark.parametrize("text", ['{"omf":"2.0","memories":[{"content":"x"}]}', '{"memories":[{"content":"x"}]}'])
def test_another_format_is_refused_before_anything_is_written(text: str, home: Home) -> None:
    """A document of another format is rejected as a whole."""
    home.place.mkdir()
    (home.place / "in.json").write_text(text, "utf-8")

    with pytest.raises(UsageError, match=r"OMF 1\.0"):
        home.take(home.place / "in.json")
    assert home.memories == []


def test_a_document_that_breaks_off_is_told(one: Home, other: Home) -> None:
    """A truncated document is imported up to the break, which is reported."""
    one.write(draft("task_start"), draft(), draft())
    file = one.export("omf")
    file.write_bytes(file.read_bytes()[:-200])

    taken = other.take(file, BACKUP)
    assert (taken.written, taken.refused) == (2, 1)
    assert "ends here unexpectedly" in taken.problems[-1].message


def test_two_imports_do_not_run_into_each_other(homes: Callable[[str], Home], monkeypatch: pytest.MonkeyPatch) -> None:
    """A second import waits for the first, and gives up without writing."""
    from lorelog.services.records import record_importer as exchange

    monkeypatch.setattr(exchange, "_LOCK_WAIT_S", 0.05)
    home = homes("home")
    file = lines(home.place / "in.jsonl", start())
    importer = RecordImporter(home.book, Keyring(home.keys), ImportOptions(), home.memories.extend)
    with importer._import_lock(), pytest.raises(StoreBusy):
        home.take(file)
    assert home.take(file).written == 1


def peak_bytes(form: str, place: Path) -> int:
    """Return the peak memory while 7 MB of records are exported and imported."""
    from lorelog.services.records import record_importer as exchange

    exchange._MAX_BATCH_BYTES = 200_000
    home, other, earlier = Home(place / "home"), Home(place / "other"), Home(place / "earlier")
    other.place.mkdir()
    records = (said(id=f"r-{number}", fields={"summary": f"{number} " * 5000}) for number in range(400))
    file = lines(other.place / "in", start(), *records)
    assert file.stat().st_size > 7_000_000
    home.take(file)
    earlier.take(home.export(form))  # what is loaded once is loaded now, both ways
    tracemalloc.start()
    with (other.place / "out").open("w", encoding="utf-8") as out:
        out.writelines(FORMATS[form](home.book.ledger.read()))
    other.take(other.place / "out")
    other.take(other.place / "out", ImportOptions(dry_run=True))
    most = tracemalloc.get_traced_memory()[1]
    assert len(other.said()) == 401
    return most


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
def test_a_large_file_does_not_fill_the_memory(form: str, tmp_path: Path) -> None:
    """Export and import of 7 MB keep only a part in memory."""
    asked = f"from tests.services.records.test_record_importer import *; print(peak_bytes({form!r}, Path({str(tmp_path)!r})))"
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    # In a process of its own: what other tests left running in this one allocates too.
    told = subprocess.run(
        [sys.executable, "-c", asked], check=True, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths}
    )

    assert int(told.stdout) < 4_000_000


@pytest.mark.parametrize("form", FORMATS)
def test_an_import_never_brings_redacted_text_back(tmp_path: Path, form: str) -> None:
    """An old copy of a redacted record is refused, even as a backup; a redacted export is imported without its texts."""
    here, there = Home(tmp_path / "here"), Home(tmp_path / "there")
    kept, gone = here.write(draft("task_start"), draft("evidence", {"summary": "the walrus sleeps"}))
    old = here.export(form)
    old = old.rename(old.with_name(f"old-{old.name}"))
    here.book.redact([gone.id], actor="mara", reason="asked to")

    report = here.take(old, BACKUP)
    assert (report.written, report.refused, report.already_present) == (0, 1, 1)
    assert report.problems[0].message == "its text was redacted here"
    new = here.export(form)
    assert b"walrus" not in new.read_bytes()
    assert here.take(new, BACKUP).already_present == 2

    assert there.take(new, BACKUP).written == 2
    assert there.book.ledger.verify().ok
    there_record = there.book.tables().get(gone.id)
    assert there_record is not None
    assert there_record.origin == "import"
    assert there.book.tables().get(kept.id) is not None
    assert b"walrus" not in b"".join(path.read_bytes() for path in (tmp_path / "here" / "tenant").rglob("*.*"))


NAMES = ("mara", "otto", " Mara", "")
ANY = settings(max_examples=examples(80), deadline=None, suppress_health_check=list(HealthCheck))
IDS = [f"r-{number}" for number in range(6)]


@st.composite
def spoken(draw: st.DrawFn) -> list[RecordDraft]:
    """Records that support each other in all ways, forwards and backwards."""
    said = []
    for identity in IDS[: draw(st.integers(2, 6))]:
        kind = draw(st.sampled_from(["decision", "evidence", *sorted(COUNTERSIGNING_KINDS)]))
        said.append(
            draft(
                kind,
                id=identity,
                at="2026-03-05T14:30:00.000Z",
                agent=draw(st.sampled_from(NAMES)),
                reply_to=draw(st.sampled_from(["", *IDS])),
                supersedes="",
                supports_claim=draw(st.sampled_from([True, True, None, False])),
                origin=draw(st.sampled_from(["user", "agent", "tool", "import"])),
            )
        )
    return said


def take(book: RecordStore, keyring: Keyring, drafts: list[RecordDraft]) -> None:
    """Import drafts as a file from someone else."""
    RecordImporter(book, keyring, ImportOptions(), lambda some: None).run(
        lambda: (ImportItem(place=place, draft=item) for place, item in enumerate(drafts, 1))
    )


def judged(book: RecordStore, keyring: Keyring) -> list[tuple[TrustTier, bool]]:
    worth = assess_records(book.ledger.read(), keyring.signing_key)
    return [(value.tier, value.signed) for value in worth.values()]


@pytest.mark.slow
@ANY
@given(files=st.lists(spoken(), min_size=1, max_size=3))
def test_files_without_signatures_verify_nothing(files: list[list[RecordDraft]]) -> None:
    """Any sequence of imported files verifies nothing, neither in the files nor here."""
    with TemporaryDirectory() as place:
        folder = Path(place)
        keyring = Keyring(folder / "keys")
        book = RecordStore(folder / "data" / "t", keyring.signing_key)
        (own,) = book.append([draft(id="own", agent="greta")])
        for number, file in enumerate(files):
            take(
                book,
                keyring,
                [replace(item, id=f"{number}-{item.id}", reply_to=item.reply_to and own.id) for item in file],
            )
            take(book, keyring, file)

        assert all(tier is TrustTier.CANONICAL for tier, _ in judged(book, keyring))
        book.close()


@pytest.mark.slow
@ANY
@given(said=spoken(), signed=st.lists(st.booleans(), min_size=6, max_size=6), brought=st.booleans())
def test_one_key_never_makes_a_signed_verification(
    *, said: list[RecordDraft], signed: list[bool], brought: bool
) -> None:
    """A single key cannot produce a signed verification, whatever names it uses."""
    with TemporaryDirectory() as place:
        folder = Path(place)
        Keyring(folder / "keys").create("mara")
        keyring, signer = Keyring(folder / "keys"), Keyring(folder / "keys", "mara")
        book = RecordStore(folder / "data" / "t", keyring.signing_key)
        drafts = []
        for item, signs in zip(said, signed, strict=False):
            sealed = signer.sign(replace(item, agent="mara"))
            # Its own name as it is, and every other name with the signature that it made for its own.
            drafts.append(replace(item, signature=sealed.signature) if signs else item)
            if signs and item.agent.strip().lower() == "mara":
                drafts[-1] = signer.sign(item)
        if brought:
            take(book, keyring, drafts)
        else:
            book.append(drafts)

        assert not [item for item in judged(book, keyring) if item == (TrustTier.VERIFIED, True)]
        book.close()
