"""What leaves a ledger comes into another as it was, in every format; and what others send is believed no further than it is proven."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.records.any_drafts import drafts
from tests.records.drafts import draft

from lorelog.core.errors import NotFound, StoreBusy, UsageError
from lorelog.core.record import Draft, Promotion, Record, Tier, signed_bytes
from lorelog.services.records.book import Book
from lorelog.services.records.exchange import FORMATS, Choices, Importer, Taken, detect, export, read_file
from lorelog.services.records.exchange_lines import Foreign
from lorelog.services.records.keys import Keyring
from lorelog.services.records.keys_folder import KeyFolder
from lorelog.services.session.open_tasks import OPEN_TASKS, open_tasks

BACKUP = Choices(restore=True)
AT = "2026-03-05T14:30:00.000Z"
ROOT = Path(__file__).parents[3]


class Home:
    """A tenant's records and keys."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.keys = place / "identities"
        self.book = Book(place / "tenant", Keyring(self.keys).key_of)
        self.memories: list[Foreign] = []

    def write(self, *some: Draft) -> list[Record]:
        """Write records, each on its own."""
        return [self.book.append([one])[0] for one in some]

    def sign(self, name: str, one: Draft) -> Draft:
        return Keyring(self.keys, name).sign(replace(one, agent=name))

    def export(self, form: str = "jsonl", **chosen: Any) -> Path:
        """Write the ledger to a file."""
        self.place.mkdir(exist_ok=True)
        path = self.place / f"out.{form}"
        path.write_text("".join(export(self.book, form, **chosen)), "utf-8")
        return path

    def take(self, path: Path, choices: Choices = Choices()) -> Taken:  # noqa: B008  (frozen)
        """Take a file in."""
        form = detect(str(path))
        return Importer(self.book, Keyring(self.keys), choices, self.memories.extend).take(
            lambda: read_file(str(path), form)
        )

    def said(self) -> list[tuple[str, bytes, str]]:
        """Return all that the ledger says."""
        return [(one.id, signed_bytes(one), one.signature) for one in self.book.ledger.read()]


@pytest.fixture
def homes(tmp_path: Path) -> Callable[[str], Home]:
    """Homes by name."""
    return lambda name: Home(tmp_path / name)


def lines(path: Path, *values: object) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in values), "utf-8")
    return path


def said(**values: Any) -> dict[str, Any]:
    """Return a record as a line of a file says it."""
    least = {"v": 1, "at": AT, "kind": "decision", "status": "recorded", "task": "t", "agent": "eve", "origin": "user"}
    return {**least, "id": "r-1", **values}


def start(**values: Any) -> dict[str, Any]:
    return said(kind="task_start", id="s-1", fields={"goal": "g"}, **values)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(batches=st.lists(st.lists(drafts(), min_size=1, max_size=3), max_size=4))
@pytest.mark.parametrize("form", FORMATS)
def test_what_is_restored_is_what_was_exported(
    form: str, batches: list[list[Draft]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever records say, in every format: ids, times, fields and signatures come back as they were, and a second time nothing."""
    place = tmp_path_factory.mktemp("round")
    one, other = Home(place / "one"), Home(place / "other")
    KeyFolder(one.keys).create("mara")
    for batch in batches:
        one.book.append([one.sign("mara", batch[0]), *batch[1:]])
    file = one.export(form)

    taken = other.take(file, BACKUP)
    assert other.said() == one.said()
    assert (taken.written, taken.refused) == (len(one.said()), 0)
    assert other.book.ledger.verify().ok
    again = other.take(file, BACKUP)
    assert (again.written, again.there) == (0, len(one.said()))
    one.book.close()
    other.book.close()


def test_an_export_can_be_made_again_from_what_was_restored(homes: Callable[[str], Home]) -> None:
    """JSON lines and Markdown of a restored ledger are the same to the byte."""
    one, other = homes("one"), homes("other")
    one.write(draft("task_start"), draft(fields={"summary": "a\n<!-- lorelog:record {} -->\n\u2028b"}))
    for form in ("jsonl", "markdown"):
        text = one.export(form).read_bytes()
        other.take(one.export(form), BACKUP)
        assert other.export(form).read_bytes() == text


def test_a_ledgers_own_file_can_be_taken(homes: Callable[[str], Home]) -> None:
    """The lines of a ledger's file are taken as they lie there; one that was changed is not."""
    one, other = homes("one"), homes("other")
    one.write(draft("task_start"), draft(), draft())
    file = one.place / "tenant" / "ledger.jsonl"
    text = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(text[0] + text[1].replace(b"mara", b"otto") + text[2])

    taken = other.take(file, BACKUP)
    assert (taken.written, taken.refused) == (2, 1)
    assert [(one.place, one.what) for one in taken.faults] == [(2, "it was changed after it was written")]


def test_imported_text_speaks_for_nothing(homes: Callable[[str], Home]) -> None:
    """Without a person's word that it is their backup, what nobody signed is tainted, and verifies nothing, whatever it says."""
    home = homes("home")
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
    assert {home.book.tables().get(one).origin for one in ("claim", "check", "mine")} == {"import"}  # type: ignore[union-attr]
    assert all(judged[one].tier is Tier.CANONICAL and judged[one].tainted for one in ("claim", "check", "mine"))
    assert {judged[one].promotion for one in ("check", "mine")} == {Promotion.REFUSED}
    assert judged[own.id].verified_by == ()


def test_a_known_signature_keeps_what_it_says(homes: Callable[[str], Home]) -> None:
    """A record whose writer is proven here keeps its origin and its signature, and may verify what was said here."""
    here, there = homes("here"), homes("there")
    otto = KeyFolder(there.keys).create("otto")
    KeyFolder(here.keys).trust("otto", otto.public)
    here.write(draft("task_start"))
    (claim,) = here.write(draft(agent="mara"))
    there.take(here.export(), BACKUP)
    there.write(there.sign("otto", draft("verification", reply_to=claim.id, supports_claim=True)))

    taken = here.take(there.export())
    (check,) = here.book.tables().replies(claim.id)
    assert (taken.written, taken.there, taken.tainted, taken.unsigned) == (1, 2, 0, 0)
    assert (check.origin, here.book.trust([check.id])[check.id].tier) == ("agent", Tier.VERIFIED)
    assert here.book.trust([claim.id])[claim.id].verified_by == (check.id,)


def test_an_unknown_signature_is_taken_off(homes: Callable[[str], Home]) -> None:
    """Signed with a key that is not known here: imported text like any other, and it is said how many were."""
    here, there = homes("here"), homes("there")
    KeyFolder(there.keys).create("otto")
    there.write(draft("task_start"), there.sign("otto", draft()))

    taken = here.take(there.export())
    assert (taken.written, taken.tainted, taken.unsigned) == (2, 2, 1)
    assert {(one.origin, one.signature) for one in here.book.ledger.read()} == {("import", "")}
    assert here.take(there.export()).there == 2


def test_a_signature_does_not_vouch_for_what_was_changed_beside_it(homes: Callable[[str], Home]) -> None:
    """The claim is changed in the file, its verification is signed and right: it verifies nothing, in one file or in two."""
    there = homes("there")
    otto = KeyFolder(there.keys).create("otto")
    there.write(draft("task_start"))
    (claim,) = there.write(draft(agent="mara", fields={"summary": "use redis"}))
    there.write(there.sign("otto", draft("verification", reply_to=claim.id, supports_claim=True)))
    forged = there.export()
    forged.write_text(forged.read_text("utf-8").replace("use redis", "use mysql"), "utf-8")
    parts = forged.read_text("utf-8").splitlines(keepends=True)

    for name, files in (("one", [parts]), ("two", [parts[:2], parts[2:]])):
        here = homes(name)
        KeyFolder(here.keys).trust("otto", otto.public)
        for number, part in enumerate(files):
            file = here.place / f"{number}.jsonl"
            file.write_text("".join(part), "utf-8")
            assert here.take(file).refused == 0
        assert here.book.trust([claim.id])[claim.id].verified_by == ()
        (check,) = here.book.tables().replies(claim.id)
        assert here.book.trust([check.id])[check.id].tier is Tier.CANONICAL


def test_imported_text_puts_nothing_aside(homes: Callable[[str], Home]) -> None:
    """A record that would supersede what was said here is refused; among imported ones it may."""
    home = homes("home")
    home.write(draft("task_start", task="t"))
    (own,) = home.write(draft(task="t"))
    file = lines(
        home.place / "in.jsonl",
        said(id="a", kind="revision", reply_to=own.id, supersedes=own.id),
        said(id="b"),
        said(id="c", kind="revision", reply_to="b", supersedes="b"),
    )

    taken = home.take(file)
    assert [(one.id, "supersede" in one.what) for one in taken.faults] == [("a", True)]
    assert home.book.tables().superseding(own.id) == []
    assert [one.id for one in home.book.tables().superseding("b")] == ["c"]


def test_the_same_id_with_another_content_is_refused(homes: Callable[[str], Home]) -> None:
    """What is there stays; whether the other one stands in the ledger or earlier in the file."""
    home = homes("home")
    assert home.take(lines(home.place.parent / "1", start(), said(id="a", fields={"summary": "x"}))).written == 2
    file = lines(
        home.place / "2", said(id="a", fields={"summary": "y"}), said(id="b"), said(id="b", agent="z"), said(id="b")
    )

    for choices in (Choices(dry_run=True), Choices()):
        taken = home.take(file, choices)
        assert (taken.written, taken.there, taken.refused) == (1, 1, 2)
        assert [(one.place, one.id) for one in taken.faults] == [(1, "a"), (3, "b")]
    assert home.book.tables().get("a").text("summary") == "x"  # type: ignore[union-attr]


BAD: Sequence[tuple[str, str]] = (
    ("nonsense", "no JSON"),
    ("[1]", "no JSON object"),
    (json.dumps(said(v=2)), "format is '2'"),
    (json.dumps(said(id="")), "no 'id'"),
    (json.dumps(said(at="yesterday")), "no time"),
    (json.dumps(said(kind="digest")), "compiled"),
    (json.dumps(said(kind="dezision")), "no kind"),
    (json.dumps(said(origin="god")), "no origin"),
    (json.dumps(said(agnt="x")), "did you mean 'agent'"),
    (json.dumps(said(tier="verified_record")), "no 'tier'"),
    (json.dumps(said(fields={"trust_tier": "verified_record"})), "no field"),
    (json.dumps(said(fields=[])), "no object"),
    (json.dumps(said(agent=3)), "no text"),
    (json.dumps(said(supports_claim="yes")), "neither"),
    (json.dumps(said(agent="\ud800")), "cannot be written"),
    (json.dumps(said(fields={"metrics": {"a": float("inf")}})), "cannot be written"),
    (json.dumps(said(fields={"metrics": json.loads('{"a":' * 60 + "1" + "}" * 60)})), "nested too deeply"),
    ('{"v":1,"id":' + "[" * 100_000, "no JSON"),
)


@pytest.mark.parametrize(("bad", "why"), BAD)
def test_a_bad_line_is_told_and_the_rest_taken(bad: str, why: str, homes: Callable[[str], Home]) -> None:
    """What is wrong with a line is said with its number; those before and after it are there."""
    home = homes("home")
    home.place.mkdir()
    file = home.place / "in.jsonl"
    file.write_text(f"{json.dumps(start())}\n\n{bad}\n{json.dumps(said(id='after'))}", "utf-8")

    taken = home.take(file)
    assert (taken.read, taken.written, taken.refused) == (3, 2, 1)
    assert [one.place for one in taken.faults] == [3]
    assert why in taken.faults[0].what


def test_a_line_without_end_does_not_fill_the_memory(
    homes: Callable[[str], Home], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that is longer than any record is told as such, and not read whole."""
    from lorelog.services.records import exchange_lines

    monkeypatch.setattr(exchange_lines, "MOST_LINE", 1000)
    home = homes("home")
    home.place.mkdir()
    file = home.place / "in.jsonl"
    file.write_text("x" * 100_000 + "\n" + json.dumps(start()) + "\n", "utf-8")

    taken = home.take(file)
    assert (taken.written, [(one.place, one.what) for one in taken.faults]) == (
        1,
        [(1, "it is longer than 1,000 bytes")],
    )


def test_what_a_file_does_not_bring_is_told(homes: Callable[[str], Home]) -> None:
    """A task or a parent that is neither here nor in the file is named; one that comes later in the file is not."""
    home = homes("home")
    home.place.mkdir()
    file = lines(
        home.place / "in.jsonl",
        said(id="a", reply_to="b"),
        said(id="b", reply_to="nowhere"),
        said(id="c", task="unheard"),
        start(),
    )

    taken = home.take(file)
    assert (taken.written, taken.refused, taken.dangling) == (4, 0, 2)
    assert [(one.id, "nowhere" in one.what, "unheard" in one.what) for one in taken.faults] == [
        ("b", True, False),
        ("c", False, True),
    ]


def test_a_dry_run_writes_nothing_and_tells_the_same(homes: Callable[[str], Home]) -> None:
    """The same counts as the real run, and not even a folder."""
    one, dry, real = homes("one"), homes("dry"), homes("real")
    one.write(draft("task_start"), draft(), draft())
    file = one.export()

    assert dry.take(file, Choices(dry_run=True)) == real.take(file)
    assert not dry.place.exists()


def test_records_can_be_filed_under_another_project(homes: Callable[[str], Home]) -> None:
    """Those that have a project get the other one, and lose a signature that says otherwise; those of none stay so."""
    one, other = homes("one"), homes("other")
    KeyFolder(one.keys).create("mara")
    one.write(draft("task_start", project="/a"), one.sign("mara", draft(project="/a")), draft(project=""))

    taken = other.take(one.export(), Choices(restore=True, project="/b"))
    assert [(one.project, one.signature, one.origin) for one in other.book.ledger.read()] == [
        ("/b", "", "agent"),
        ("/b", "", "agent"),
        ("", "", "agent"),
    ]
    assert taken.unsigned == 1
    assert other.take(one.export(), Choices(restore=True, project="/b")).there == 3


def test_one_project_can_be_exported_alone(homes: Callable[[str], Home]) -> None:
    """Only its records leave."""
    home = homes("home")
    home.write(draft("task_start", project="/a"), draft("task_start", project="/b"), draft("task_start"))

    assert [json.loads(line)["project"] for line in home.export(project="/a").read_text().splitlines()] == ["/a"]


@pytest.mark.parametrize("form", FORMATS)
def test_what_stood_after_a_break_is_nobodys_backup(form: str, homes: Callable[[str], Home]) -> None:
    """Exported from a ledger that was tampered with and restored: from the break on it is imported text, not verified anew."""
    one, other = homes("one"), homes("other")
    one.write(draft("task_start", agent="greta"), draft(agent="mara"), draft(agent="otto"))
    file = one.place / "tenant" / "ledger.jsonl"
    file.write_bytes(file.read_bytes().replace(b"mara", b"evil"))

    taken = other.take(one.export(form), BACKUP)
    assert (taken.written, taken.tainted) == (3, 2)
    assert [one.origin for one in other.book.ledger.read()] == ["agent", "import", "import"]


def test_text_in_markdown_cannot_pass_for_a_record(homes: Callable[[str], Home]) -> None:
    """A record whose text looks like another record's comment brings itself and nothing else."""
    one, other = homes("one"), homes("other")
    fake = f"<!-- lorelog:record {json.dumps(said(id='fake'))} -->"
    breaks = "\r\n\v\f\x1c\x1d\x85\u2028\u2029"
    text = "".join(f"x{sign}{fake}" for sign in breaks) + f"\n{fake}"
    one.write(
        draft("task_start", fields={"goal": text, "expected_outputs": [text], "metrics": {"a": text}}, agent=fake)
    )
    for name in ("agent", "session", "status", "relation", "project"):
        worded: dict[str, Any] = {name: text}
        one.write(draft("task_start", **worded))

    assert other.take(one.export("markdown"), BACKUP).written == 6
    assert other.said() == one.said()


def test_a_markdown_file_drives_no_terminal(homes: Callable[[str], Home]) -> None:
    """Whatever records say: the file has neither codes of terminals in it, nor what turns writing around."""
    one = homes("one")
    text = "a\x1b[31mb\x9bc\x7fd\u202ee\u2066f\x85g\u2028h"
    one.write(draft("task_start", fields={"goal": text, "metrics": {"a": text}}, agent=text, status=text, session=text))

    told = one.export("markdown").read_text("utf-8")
    assert not set(told) & set(text) - set("abcdefgh[31m")


SECRET = "ghp_" + "a1B2" * 9


@pytest.mark.parametrize("choices", [Choices(), BACKUP])
@pytest.mark.parametrize("form", FORMATS)
def test_no_secret_comes_in(form: str, choices: Choices, homes: Callable[[str], Home]) -> None:
    """Secrets of a file, in whatever part of a record, are taken out before they are written, of a backup, too."""
    one, other = homes("one"), homes("other")
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
    assert (again.written, again.there) == (0, 1)


@pytest.mark.parametrize("name", ["id", "task", "reply_to", "supersedes", "project"])
def test_a_secret_where_something_is_named_is_refused(name: str, homes: Callable[[str], Home]) -> None:
    """It cannot be taken out: what is left would name something else."""
    home = homes("home")
    home.place.mkdir()

    taken = home.take(lines(home.place / "in.jsonl", start(), said(**{name: SECRET})))

    assert [one.what for one in taken.faults] == [f"its {name!r} holds a secret"]
    assert SECRET not in home.book.ledger.folder.joinpath("ledger.jsonl").read_text("utf-8")


def test_a_signed_record_loses_its_signature_with_its_secret(homes: Callable[[str], Home]) -> None:
    """What was taken out is not what was signed: it counts as imported text."""
    home = homes("home")
    KeyFolder(home.keys).create("mara")
    signed = home.sign("mara", draft("task_start", fields={"goal": SECRET}))
    home.place.mkdir(exist_ok=True)
    values = said(**{name: getattr(signed, name) for name in ("id", "at", "kind", "task", "thread", "agent", "origin")})
    values |= {"status": signed.status, "fields": dict(signed.fields), "signature": signed.signature}

    taken = home.take(lines(home.place / "in.jsonl", values))

    (record,) = home.book.ledger.read()
    assert (taken.redacted, taken.unsigned, record.signature, record.origin) == (1, 1, "", "import")


@pytest.mark.parametrize("kind", ["task_start", "task_progress", "task_finish"])
def test_imported_text_does_not_move_a_task_of_ours(kind: str, homes: Callable[[str], Home]) -> None:
    """What a file says of a task that was begun here is kept, and neither ends it nor names it anew; a person's backup does."""
    home = homes("home")
    home.write(draft("task_start", task="t", fields={"goal": "ours"}))
    fields = {"goal": "theirs", "summary": "s", "next_step": "n"}
    file = lines(home.place / "in.jsonl", said(kind=kind, task="t", status="failed", fields=fields))

    home.take(file)
    task = home.book.tables().task("t")

    assert task is not None
    assert (task.goal, task.status, task.finished_at, task.records) == ("ours", "in_progress", "", 2)
    shown = open_tasks(str(home.book.ledger.folder / "index" / OPEN_TASKS), ("",))
    assert [(one["goal"], one["status"]) for one in shown] == [("ours", "in_progress")]


def test_an_imported_task_ends_as_it_did(homes: Callable[[str], Home]) -> None:
    """A task that a file begins is where the file says."""
    home = homes("home")
    home.place.mkdir()
    file = lines(home.place / "in.jsonl", start(), said(kind="task_finish", status="failed"))

    home.take(file)

    task = home.book.tables().task("t")
    assert task is not None
    assert (task.status, bool(task.finished_at)) == ("failed", True)
    assert open_tasks(str(home.book.ledger.folder / "index" / OPEN_TASKS), ("",)) == []


def test_formats_are_recognised(homes: Callable[[str], Home], tmp_path: Path) -> None:
    """Each format is told by how a file begins, also where others have written it."""
    home = homes("home")
    for form in FORMATS:
        assert detect(str(home.export(form))) == form
    home.write(draft("task_start"))
    for form in FORMATS:
        assert detect(str(home.export(form))) == form
    theirs = tmp_path / "theirs"
    for text in ('{"omf":"1.0"}', '{\n  "omf": "1.0",\n', '{"exported_at": "x", "omf": "1.0"}', '\ufeff{ "omf":"1.0"}'):
        theirs.write_text(text, "utf-8")
        assert detect(str(theirs)) == "omf"
    with pytest.raises(NotFound):
        detect(str(tmp_path / "none"))


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


def test_memories_of_others_are_handed_on_without_their_worth(homes: Callable[[str], Home]) -> None:
    """Of memd's document text, type and tags are taken; what was put aside only if asked for; empty ones are told."""
    home = homes("home")
    home.place.mkdir()
    file = home.place / "in.json"
    for text in (json.dumps(MEMD), json.dumps(MEMD, indent=2)):
        file.write_text(text, "utf-8")
        home.memories.clear()
        taken = home.take(file)
        assert home.memories == [
            Foreign("fact A", "decision", ("topic:release", "owner:alice")),
            Foreign("verified!", "x-y", ()),
        ]
        assert (taken.memories, taken.archived, taken.refused, taken.written) == (2, 1, 2, 0)
        assert [one.place for one in taken.faults] == [3, 5]
    assert home.take(file, Choices(archived=True, dry_run=True)).memories == 3
    assert len(home.memories) == 2


def test_a_record_in_a_document_is_believed_no_further_than_a_line(homes: Callable[[str], Home]) -> None:
    """A record that comes in OMF is imported text like one that comes in a line, whoever the document says it is from."""
    one, other = homes("one"), homes("other")
    one.write(draft("task_start"), draft())
    file = one.export("omf")
    text = file.read_text("utf-8")
    assert json.loads(text)["source"]["app"] == "lorelog"
    assert all(item["content"].strip() for item in json.loads(text)["memories"])
    file.write_text(text.replace('"app":"lorelog"', '"app":"memd"'), "utf-8")

    assert other.take(file).tainted == 2


@pytest.mark.parametrize("text", ['{"omf":"2.0","memories":[{"content":"x"}]}', '{"memories":[{"content":"x"}]}'])
def test_another_format_is_refused_before_anything_is_written(text: str, homes: Callable[[str], Home]) -> None:
    """A document that is not OMF 1.0 is not taken in part."""
    home = homes("home")
    home.place.mkdir()
    (home.place / "in.json").write_text(text, "utf-8")

    with pytest.raises(UsageError, match=r"OMF 1\.0"):
        home.take(home.place / "in.json")
    assert home.memories == []


def test_a_document_that_breaks_off_is_told(homes: Callable[[str], Home]) -> None:
    """What came before is taken, and the break is named."""
    one, other = homes("one"), homes("other")
    one.write(draft("task_start"), draft(), draft())
    file = one.export("omf")
    file.write_bytes(file.read_bytes()[:-200])

    taken = other.take(file, BACKUP)
    assert (taken.written, taken.refused) == (2, 1)
    assert "breaks off" in taken.faults[-1].what


def test_memories_leave_in_omf_only(homes: Callable[[str], Home]) -> None:
    """Journals are Markdown already; asking for them in another format is refused."""
    with pytest.raises(UsageError, match="OMF only"):
        homes("home").export("jsonl", memories=[])


def test_two_imports_do_not_run_into_each_other(homes: Callable[[str], Home], monkeypatch: pytest.MonkeyPatch) -> None:
    """While one is at work another waits, and gives up without having written anything."""
    from lorelog.services.records import exchange

    monkeypatch.setattr(exchange, "_WAIT_S", 0.05)
    home = homes("home")
    home.place.mkdir()
    file = lines(home.place / "in.jsonl", start())
    importer = Importer(home.book, Keyring(home.keys), Choices(), home.memories.extend)
    with importer._alone(), pytest.raises(StoreBusy):
        home.take(file)
    assert home.take(file).written == 1


def most_held(form: str, place: Path) -> int:
    """Return the most bytes held while 7 MB of records go out of one home and into another."""
    from lorelog.services.records import exchange

    exchange._MOST_BYTES = 200_000
    home, other, earlier = Home(place / "home"), Home(place / "other"), Home(place / "earlier")
    other.place.mkdir()
    records = (said(id=f"r-{number}", fields={"summary": f"{number} " * 5000}) for number in range(400))
    file = lines(other.place / "in", start(), *records)
    assert file.stat().st_size > 7_000_000
    home.take(file)
    earlier.take(home.export(form))  # what is loaded once is loaded now, both ways
    tracemalloc.start()
    with (other.place / "out").open("w", encoding="utf-8") as out:
        out.writelines(export(home.book, form))
    other.take(other.place / "out")
    other.take(other.place / "out", Choices(dry_run=True))
    most = tracemalloc.get_traced_memory()[1]
    assert len(other.said()) == 401
    return most


@pytest.mark.parametrize("form", FORMATS)
def test_a_large_file_does_not_fill_the_memory(form: str, tmp_path: Path) -> None:
    """A file goes in and out in pieces: of 7 MB never more than a part is in memory."""
    asked = f"from tests.services.records.test_exchange import *; print(most_held({form!r}, Path({str(tmp_path)!r})))"
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    # In a process of its own: what other tests left running in this one allocates too.
    told = subprocess.run(
        [sys.executable, "-c", asked], check=True, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths}
    )

    assert int(told.stdout) < 4_000_000
