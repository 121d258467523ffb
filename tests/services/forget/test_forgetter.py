"""Forgetting text of a tenant: what goes, what stays or cannot be reached, what an interruption leaves, and what a receipt proves."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from tests.code.repositories import git
from tests.services.backup.conftest import kill_backup
from tests.services.forget.conftest import CANARY, OTHER, SECRET, ForgetScene

from lorelog.core.errors import NotFound, StoreBusy, StoreDamaged, UsageError
from lorelog.services.forget import forget_plan
from lorelog.services.forget.entries import ForgetQuery, find_sync_remotes
from lorelog.services.forget.residues import find_residues, make_canaries
from lorelog.services.guards.guard_log import GuardDraft, GuardLog


@pytest.mark.parametrize(
    "step",
    ["plan", "_add_tombstones", "_edit_files", "_remove_from_index", "_scrub_databases", "_scrub_logs", "receipt"],
)
def test_an_interrupted_forget_is_completed(scene: ForgetScene, step: str) -> None:
    """Whatever step a forget stops after, completing its plan leaves no copy, keeps other memories and writes a receipt."""
    scene.interrupt(step, match=CANARY)
    assert len(forget_plan.pending_plans(scene.tenant)) == 1

    (reply,) = scene.forgetter().complete()

    assert reply.ok
    assert scene.holders() == []
    assert OTHER in scene.journal.read_text("utf-8")
    assert forget_plan.pending_plans(scene.tenant) == []
    assert [receipt.ok for receipt in scene.forgetter().receipts()] == [True]
    assert scene.forgetter().complete() == []


def test_a_plan_holds_no_text(scene: ForgetScene) -> None:
    """The plan on disk can be read back and completes the forget, and neither it nor its folder holds the text."""
    plan = scene.plan(ids=(scene.secret,))

    (path,) = forget_plan.pending_plans(scene.tenant)
    assert CANARY.encode() not in path.read_bytes()
    assert path.stat().st_mode & 0o077 == 0
    assert plan.memories == {scene.secret}
    assert [entry.preview for entry in plan.entries] == [""]


def test_a_journal_loses_the_entry_and_keeps_every_other_byte(scene: ForgetScene) -> None:
    """Text before and after the entry keeps its bytes: hand-written headings, CRLF and letters without a newline."""
    with scene.journal.open("ab") as journal:
        journal.write(b"\n## By hand\r\n\r\nK\xc3\xa4se,  two  blanks\r\n\n### 23:59\nno newline at the end")
    scene.call("memory.index")
    before = scene.journal.read_bytes()
    start = before.index(b"### ", before.index(b"pier four"))

    assert scene.forget(ids=(scene.secret,)).ok

    assert scene.journal.read_bytes() == before[:start] + before[before.index(b"## By hand") :]


def test_a_forgotten_memory_does_not_come_back(scene: ForgetScene) -> None:
    """Neither an index run over an old copy of the journal nor adding the entry again under its id makes it searchable."""
    old = scene.journal.read_bytes()
    scene.forget(ids=(scene.secret,))
    scene.journal.write_bytes(old)

    scene.call("memory.index", force=True)

    hits = scene.call("memory.search", query="balloon launch sequence")["hits"]
    assert [hit["id"] for hit in hits if CANARY in hit["content"]] == []
    with pytest.raises(NotFound):
        scene.forget(ids=(scene.secret,))


def test_only_the_named_conditions_select(scene: ForgetScene) -> None:
    """All conditions must hold: the text, the session, the days and the project."""
    for query in (
        {"match": CANARY, "until": "2020-01-01"},
        {"match": CANARY, "session": "another"},
        {"match": CANARY, "projects": ("/elsewhere",)},
        {"match": "no such words at all"},
    ):
        with pytest.raises(NotFound):
            scene.forget(**query)
    for query, message in (({}, "nothing is named"), ({"match": "a b"}, "too short")):
        with pytest.raises(UsageError, match=message):
            scene.forget(**query)
    assert SECRET in scene.journal.read_text("utf-8")

    preview = scene.forgetter().preview(ForgetQuery(match=CANARY.upper(), since="2020-01-01"))

    assert (preview.dry_run, [entry.memory for entry in preview.entries]) == (True, [scene.secret])


def test_a_copy_in_another_memory_stays_and_is_named(scene: ForgetScene) -> None:
    """Forgetting by id leaves a memory that repeats the text, names it, and does not call it a residue."""
    copy = scene.add(f"Repeated: {SECRET}")

    reply = scene.forget(ids=(scene.secret,))

    assert reply.ok
    assert [name.split()[0] for name in reply.also_in] == [copy]
    assert scene.journal.read_text("utf-8").count(CANARY) == 1
    hits = scene.call("memory.search", query="balloon launch sequence")["hits"]
    assert any(SECRET in hit["content"] for hit in hits)


def test_guards_that_contain_the_text_go_and_are_named(scene: ForgetScene) -> None:
    """A guard that a person wrote goes if its message or pattern has the text, as a part of a word too; others stay."""
    guards = GuardLog(scene.tenant / "guards.jsonl")
    for message in (f"Mind the {CANARY.upper()}", f"see x{CANARY}x", "use pnpm"):
        draft = GuardDraft(command=f"{message[:8]} *", message=message)
        guards.enable(guards.add(draft, "person").guard, "person")
    *gone, stays = guards.all()
    query = ForgetQuery(match=CANARY)
    told = " ".join(scene.forgetter().preview(query).notes)
    assert all(guard.id in told and guard.message in told for guard in gone)

    reply = scene.forgetter().forget(query)

    assert [note.split()[2] for note in reply.notes] == [guard.id for guard in gone]
    assert (guards.all(), scene.holders()) == ([stays], [])


def test_a_second_process_waits_or_is_refused(
    scene: ForgetScene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """While another process forgets, a second one is refused and changes nothing, and completing does nothing."""
    monkeypatch.setattr("lorelog.services.forget.forgetter._WRITER_WAIT_S", 0.0)
    before = scene.journal.read_bytes()

    with forget_plan.plan_lock(scene.tenant, 0.0) as is_held:
        assert is_held
        with pytest.raises(StoreBusy, match="another process is forgetting"):
            scene.forget(match=CANARY)
        assert scene.forgetter().complete() == []

    assert scene.journal.read_bytes() == before
    assert forget_plan.pending_plans(scene.tenant) == []


@pytest.mark.parametrize("text", ["", "[]", '{"version": 99}', '{"version": 1}'])
def test_a_damaged_plan_is_named_and_changes_nothing(scene: ForgetScene, text: str) -> None:
    """A plan that cannot be read says what to do, and no file is touched."""
    scene.plan(match=CANARY)
    (path,) = forget_plan.pending_plans(scene.tenant)
    path.write_text(text)
    before = scene.journal.read_bytes()

    with pytest.raises(StoreDamaged, match="cannot be read") as caught:
        scene.forgetter().complete()

    assert "repeat it" in caught.value.hint
    assert scene.journal.read_bytes() == before
    with pytest.raises(StoreDamaged):
        forget_plan.read_plan(path)


def test_receipts_are_listed_and_verified(scene: ForgetScene) -> None:
    """Receipts come newest first, `last` is the newest even if it is damaged, and a copy that returns is found."""
    with pytest.raises(NotFound, match="nothing was forgotten yet"):
        scene.forgetter().verify("last")
    old = scene.journal.read_text("utf-8")
    scene.forget(ids=(scene.secret,))
    scene.forget(ids=(scene.other,))
    receipts = scene.forgetter().receipts()
    assert [receipt.selected for receipt in receipts] == [{"memories": 1}] * 2
    assert receipts[0].id > receipts[1].id
    reply = scene.forgetter().verify("last")
    assert (Path(reply.receipt).stem, reply.ok) == (receipts[0].id, True)

    (scene.project / ".lorelog" / "copy.md").write_text(old, "utf-8")
    (scene.tenant / "forgotten" / f"{receipts[0].id}.json").write_text("{")

    with pytest.raises(UsageError, match=f"{receipts[0].id}.json is not a receipt"):
        scene.forgetter().verify("last")
    assert [receipt.id for receipt in scene.forgetter().receipts()] == [receipts[1].id]
    residues = scene.forgetter().verify(receipts[1].id).residues
    assert {Path(residue.path).name for residue in residues} == {"copy.md"}


def test_the_days_restrict_what_goes(scene: ForgetScene) -> None:
    """`since` and `until` include their days; an entry outside of them stays."""
    old = "### 10:00\n<!-- memory:old origin:user -->\nAn old note about the harbour.\n"
    (scene.journal.parent / "2020-01-02.md").write_text(f"# 2020-01-02\n\n{old}", "utf-8")
    scene.call("memory.index")

    reply = scene.forgetter().forget(ForgetQuery(since="2020-01-01", until="2020-01-02"), edit_files=True)

    assert [entry.memory for entry in reply.entries] == ["old"]
    assert "harbour" not in (scene.journal.parent / "2020-01-02.md").read_text("utf-8")
    assert SECRET in scene.journal.read_text("utf-8")


TEXT = "The walrus sleeps under the harbour bridge, and nobody wakes it before noon on a Sunday."


def make_receipt(place: Path) -> forget_plan.Receipt:
    canaries = make_canaries([TEXT, "hunter2-x9"])
    report = find_residues(canaries, [place])
    return forget_plan.Receipt(
        id="0198-a",
        at="2026-03-05T14:30:00Z",
        selected={"memories": 2},
        places=(str(place),),
        canaries=canaries,
        text=forget_plan.format_report(report, short=1, unreachable=1),
        files=report.files,
        unreached={"git history": "2 commits hold it"},
    )


def test_a_receipt_is_private_and_holds_nothing_of_the_text(tmp_path: Path) -> None:
    """Receipt and key are readable by their owner only, and no file below the home holds the text."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "notes.md").write_text("something else")
    path = forget_plan.write_receipt(home, make_receipt(home))
    assert path == home / "forgotten" / "0198-a.json"
    assert [stat.S_IMODE(file.stat().st_mode) for file in (path, path.with_suffix(".key"))] == [0o600, 0o600]
    receipt = forget_plan.read_receipt(forget_plan.find_receipt(home, "0198"))
    assert receipt.text == (
        "forgotten: 0 residues in 1 file; 1 place out of reach; 1 text too short to be verified later"
    )
    assert find_residues(make_canaries([TEXT, "hunter2-x9"]), [home]).ok
    assert find_residues(receipt.canaries, [home]).ok


def test_a_receipt_that_was_changed_proves_nothing(tmp_path: Path) -> None:
    """An emptied, shortened or changed receipt is refused; so is one that an older version wrote without a signature."""
    path = forget_plan.write_receipt(tmp_path, make_receipt(tmp_path))
    content, key = path.read_bytes(), path.with_suffix(".key")
    receipt = json.loads(content)
    fewer = {**receipt["canaries"], "fragments": receipt["canaries"]["fragments"][1:]}
    for name, value in (("canaries", {}), ("canaries", fewer), ("places", []), ("text", "forgotten: 0 residues")):
        path.write_text(json.dumps({**receipt, name: value}), "utf-8")
        with pytest.raises(StoreDamaged, match="was changed after it was written"):
            forget_plan.read_receipt(forget_plan.find_receipt(tmp_path, "last"))
    path.write_bytes(content)
    assert forget_plan.read_receipt(path).id == "0198-a"
    key.write_text(key.read_text("ascii").split()[0], "ascii")
    with pytest.raises(StoreDamaged, match="older version, which did not sign it"):
        forget_plan.read_receipt(path)


def test_other_files_are_not_receipts(tmp_path: Path) -> None:
    """A missing receipt, a missing key, another JSON file and an ambiguous id are reported, without a traceback."""
    path = forget_plan.write_receipt(tmp_path, make_receipt(tmp_path))
    path.with_suffix(".key").unlink()
    with pytest.raises(NotFound, match=r"0198-a\.key"):
        forget_plan.read_receipt(path)
    for text in ("[]", "{", '{"version": 1}', '{"version": 99}'):
        path.write_text(text)
        path.with_suffix(".key").write_text("00")
        with pytest.raises(UsageError, match="not a receipt"):
            forget_plan.read_receipt(path)
    with pytest.raises(NotFound, match="no receipt"):
        forget_plan.find_receipt(tmp_path, "zzz")


def commit(project: Path) -> str:
    git(project, "init", "-q")
    git(project, "add", "-f", ".")
    git(project, "commit", "-qm", "a")
    return git(project, "log", "--format=%h")


def write_note(scene: ForgetScene, name: str = "notes/plan.md") -> Path:
    """Index a note outside the journals that holds the secret."""
    path = scene.project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"# Plan\n\nKeep this.\n\n## Launch\n\n{SECRET}\n", "utf-8")
    scene.call("memory.index", paths=[str(path.parent)])
    return path


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda path: None, "outside the journals"),
        (lambda path: path.chmod(0o444), "read-only"),
        (lambda path: path.rename(path.with_suffix(".old")) and path.symlink_to(path.with_suffix(".old")), "a link"),
    ],
    ids=["note", "read-only", "link"],
)
def test_a_file_that_is_not_ours_is_refused_whole(scene: ForgetScene, change: object, reason: str) -> None:
    """If one file must not be edited, nothing is changed anywhere, and the file is named with the reason."""
    path = write_note(scene)
    assert callable(change)
    change(path)
    before, note = scene.journal.read_bytes(), path.read_bytes()

    with pytest.raises(UsageError, match=reason) as caught:
        scene.forget(match=CANARY)

    assert str(path) in caught.value.message
    assert (scene.journal.read_bytes(), path.read_bytes()) == (before, note)
    if reason == "outside the journals":
        assert scene.forgetter().forget(ForgetQuery(match=CANARY), edit_files=True).ok
        assert path.read_text("utf-8") == "# Plan\n\nKeep this.\n\n"
    else:
        with pytest.raises(UsageError, match=reason):
            scene.forgetter().forget(ForgetQuery(match=CANARY), edit_files=True)


def test_git_history_is_named_with_its_commits(scene: ForgetScene) -> None:
    """A journal in a repository is edited; the commits that keep the text are named, with the remote they may be at."""
    head = commit(scene.project)
    git(scene.project, "remote", "add", "origin", "https://git.example/x")

    reply = scene.forget(ids=(scene.secret,))

    ((place, reason),) = reply.unreached.items()
    assert place == f"Git history of {scene.project}"
    assert head in reason
    assert "origin" in reason
    assert CANARY not in scene.journal.read_text("utf-8")


def test_backups_elsewhere_are_named_and_unfinished_ones_deleted(scene: ForgetScene, tmp_path: Path) -> None:
    """A backup elsewhere is named with the command that deletes it, and kept; what a killed one left is deleted and named."""
    scene.call("backup.create", file=str(tmp_path / "b.tar.gz"))
    left = kill_backup(scene.home, tmp_path / "c.tar.gz")

    reply = scene.forget(match=CANARY)

    ((place, reason),) = reply.unreached.items()
    assert (Path(place).name, f"'rm {place}'" in reason, Path(place).exists()) == ("b.tar.gz", True, True)
    assert (reply.notes, left.exists()) == ((f"{left}, an unfinished backup, was deleted",), False)


def test_remotes_of_a_sync_are_named(tmp_path: Path) -> None:
    """The remote of each exchange is named; a damaged description of one is passed over."""
    folder = tmp_path / "sync"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps({"url": "git@host:x.git"}))
    (folder / "b.json").write_text("{")
    (folder / "c.json").write_text("[]")

    assert list(find_sync_remotes(tmp_path)) == ["git@host:x.git"]
    assert find_sync_remotes(tmp_path / "none") == {}
