"""Files that a forget must not edit, and places that it names because it cannot change them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.services.forget.conftest import CANARY, SECRET, ForgetScene

from lorelog.core.errors import UsageError
from lorelog.services.forget.entries import ForgetQuery, find_sync_remotes


def commit(project: Path) -> str:
    """Commit everything of a project and return the commit."""
    for words in (
        ["init", "-q"],
        ["add", "-f", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"],
    ):
        subprocess.run(["git", *words], cwd=project, check=True)
    head = subprocess.run(["git", "log", "--format=%h"], cwd=project, check=True, capture_output=True, text=True)
    return head.stdout.strip()


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
    subprocess.run(["git", "remote", "add", "origin", "https://git.example/x"], cwd=scene.project, check=True)

    reply = scene.forget(ids=(scene.secret,))

    ((place, reason),) = reply.unreached.items()
    assert place == f"Git history of {scene.project}"
    assert head in reason
    assert "origin" in reason
    assert CANARY not in scene.journal.read_text("utf-8")


def test_conversations_and_backups_are_named_and_kept(scene: ForgetScene, tmp_path: Path) -> None:
    """A host's conversation and a backup elsewhere are named with what to do, and keep their bytes."""
    said = tmp_path / "session.jsonl"
    said.write_text(SECRET)
    scene.call("backup.create", file=str(tmp_path / "b.tar.gz"))
    entry = f"\n### 11:00\n<!-- session:s turn:t transcript:{said} memory:m-said origin:agent -->\n- {CANARY} again\n"
    scene.journal.write_text(scene.journal.read_text("utf-8") + entry, "utf-8")
    scene.call("memory.index")

    reply = scene.forgetter().forget(ForgetQuery(match=CANARY), edit_files=True, host_transcripts=True)

    assert {Path(place).name for place in reply.unreached} == {"session.jsonl", "b.tar.gz"}
    assert reply.transcripts == ()  # an anchor may lie: only conversations that our own capture read are deleted
    assert said.read_text() == SECRET
    assert (tmp_path / "b.tar.gz").exists()


def test_remotes_of_a_sync_are_named(tmp_path: Path) -> None:
    """The remote of each exchange is named; a damaged description of one is passed over."""
    folder = tmp_path / "sync"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps({"url": "git@host:x.git"}))
    (folder / "b.json").write_text("{")
    (folder / "c.json").write_text("[]")

    assert list(find_sync_remotes(tmp_path)) == ["git@host:x.git"]
    assert find_sync_remotes(tmp_path / "none") == {}
