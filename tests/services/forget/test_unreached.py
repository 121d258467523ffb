"""Files that a forget must not edit, and places that it names because it cannot change them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.services.backup.conftest import kill_backup
from tests.services.forget.conftest import CANARY, SECRET, ForgetScene

from lorelog.core.errors import UsageError
from lorelog.services.forget.entries import ForgetQuery, find_sync_remotes


def commit(project: Path) -> str:
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
