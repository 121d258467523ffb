"""A Git remote as an exchange: what else is there stays, what it refuses is named, and no copy keeps what was forgotten."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.services.sync.machines import SyncMachine, exchange_text, git

from lorelog.core.errors import StoreBusy, StoreDamaged, UsageError
from lorelog.services.sync.exchange import BRANCH, Exchange, PushRefused, SyncFolder, absolute_remote, project_name

AUTHOR = {"user": "mara", "machine": "a1"}
MARK = {"lorelog-sync.json": b'{"version": 1}\n'}


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    git("init", "-q", "--bare", str(tmp_path / "remote.git"))
    return tmp_path / "remote.git"


def commit_to(remote: Path, clone: Path, files: dict[str, str], branch: str = BRANCH) -> None:
    """Commit files to a branch of a remote, as somebody with plain Git would."""
    git("clone", "-q", str(remote), str(clone))
    identity = ("-c", "user.name=m", "-c", "user.email=m@example.org")
    if git("-C", str(clone), "branch", "-r", "--list", f"origin/{branch}"):
        git("-C", str(clone), "checkout", "-q", branch)
    for name, text in files.items():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text(text, "utf-8")
    git("-C", str(clone), "add", "-A")
    git("-C", str(clone), *identity, "commit", "-q", "-m", "x")
    git("-C", str(clone), "push", "-q", "origin", f"HEAD:{branch}")


def test_a_branch_with_other_files_is_refused_and_not_changed(remote: Path, tmp_path: Path) -> None:
    """A branch that holds something else than an exchange is refused, also if its files have names that are never ours."""
    commit_to(remote, tmp_path / "clone", {"my notes.txt": "keep me"})
    with pytest.raises(StoreDamaged, match="holds something else"):
        Exchange(tmp_path / "copy.git", str(remote)).fetch()
    assert git("-C", str(remote), "ls-tree", "-r", "--name-only", BRANCH).strip() == "my notes.txt"


def test_files_that_are_not_ours_stay_in_the_exchange(remote: Path, tmp_path: Path) -> None:
    """A push changes the files of the exchange, and leaves what somebody else added to the branch."""
    exchange = Exchange(tmp_path / "copy.git", str(remote))
    exchange.push(exchange.fetch(), {**MARK, "writers/a1/old.jsonl": b"old\n"}, "x", **AUTHOR)
    commit_to(remote, tmp_path / "clone", {"read me.txt": "keep me"})
    exchange.push(exchange.fetch(), {**MARK, "writers/a1/new.jsonl": b"new\n"}, "x", **AUTHOR)
    names = git("-C", str(remote), "ls-tree", "-r", "--name-only", BRANCH).splitlines()
    assert sorted(names) == ["lorelog-sync.json", "read me.txt", "writers/a1/new.jsonl"]


def test_a_push_that_the_remote_refuses_is_named(tmp_path: Path) -> None:
    """A rule of the remote is reported in its own words; what others wrote is still received, and the next sync sends."""
    machine = SyncMachine(tmp_path / "a", tmp_path / "remote.git")
    machine.add("the otter lives in the river")
    hook = machine.remote / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho 'no pushes on sundays' >&2\nexit 1\n", "utf-8")
    hook.chmod(0o755)
    report = machine.sync()
    assert (report["pushed"], report["is_offline"]) == (False, False)
    assert "pre-receive hook declined" in report["reason"]
    assert "no pushes on sundays" in report["reason"]
    hook.unlink()
    assert machine.sync()["sent"] == 1
    assert "otter" in exchange_text(machine.remote)


def test_signed_pushes_and_other_settings_of_a_user_do_not_stop_a_sync(remote: Path, tmp_path: Path) -> None:
    """Settings of the user's own for signing, tags and new repositories do not apply to the exchange."""
    config = tmp_path / "gitconfig"
    config.write_text(
        "[push]\n\tgpgSign = true\n\tfollowTags = true\n[init]\n\tdefaultObjectFormat = sha256\n", "utf-8"
    )
    exchange = Exchange(
        tmp_path / "copy.git", str(remote), environment={"GIT_CONFIG_GLOBAL": str(config), "PATH": "/usr/bin:/bin"}
    )
    exchange.push(exchange.fetch(), MARK, "x", **AUTHOR)
    assert exchange.fetch().files == MARK


def test_a_copy_keeps_the_newest_commit_only(remote: Path, tmp_path: Path) -> None:
    """Text that another machine took out of the exchange leaves the copies of all machines with their next fetch."""
    first, second = (Exchange(tmp_path / f"{name}.git", str(remote)) for name in "ab")
    first.push(first.fetch(), {**MARK, "writers/a1/x.jsonl": b"the heron code\n"}, "x", **AUTHOR)
    second.fetch()
    first.push(first.fetch(), MARK, "x", **AUTHOR)
    for exchange, name in ((first, "a"), (second, "b")):
        assert exchange.fetch().files == MARK
        command = ["git", "--git-dir", str(tmp_path / f"{name}.git"), "cat-file", "--batch-all-objects", "--batch"]
        assert b"heron" not in subprocess.run(command, check=True, capture_output=True).stdout


@pytest.mark.parametrize("damage", ["HEAD only", "no objects", "locks"])
def test_a_copy_that_was_left_half_written_is_made_again(remote: Path, tmp_path: Path, damage: str) -> None:
    """A copy without its files, or with the locks of a killed Git, is replaced, and the sync goes on."""
    copy = tmp_path / "copy.git"
    exchange = Exchange(copy, str(remote))
    exchange.push(exchange.fetch(), MARK, "x", **AUTHOR)
    before = exchange.fetch()
    for path in sorted(copy.rglob("*"), reverse=True):
        if damage != "locks" and path.is_file() and (damage == "no objects") == ("objects" in path.parts):
            path.unlink() if path.name != "HEAD" else None
    for name in ("refs/lorelog/fetched", "refs/lorelog/next", "shallow", "packed-refs") if damage == "locks" else ():
        (copy / f"{name}.lock").parent.mkdir(parents=True, exist_ok=True)
        (copy / f"{name}.lock").touch()
    assert exchange.fetch() == before
    exchange.push(before, {**MARK, "writers/a1/x.jsonl": b"x\n"}, "x", **AUTHOR)
    assert "writers/a1/x.jsonl" in exchange.fetch().files


def test_a_stale_state_is_not_pushed_over_a_newer_one(remote: Path, tmp_path: Path) -> None:
    """A push on top of a state that is not the newest any more fails, and is not taken for a refusal."""
    exchange = Exchange(tmp_path / "copy.git", str(remote))
    before = exchange.fetch()
    exchange.push(before, MARK, "x", **AUTHOR)
    with pytest.raises(Exception, match="another machine pushed") as error:
        exchange.push(before, {**MARK, "writers/b2/x.jsonl": b"x\n"}, "x", **AUTHOR)
    assert not isinstance(error.value, PushRefused)
    assert exchange.fetch().files == MARK


@pytest.mark.parametrize(
    "url", ["https://me:hunter2@host/x.git", "https://ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8@host/x.git"]
)
def test_an_address_with_a_password_is_refused_and_not_repeated(tmp_path: Path, url: str) -> None:
    """A password or token in an address would be stored and shown; the error names the host only."""
    with pytest.raises(UsageError, match="at host contains a password") as error:
        SyncFolder(tmp_path).add(url)
    assert url.partition("@")[0][-10:] not in f"{error.value}{error.value.hint}"


def test_addresses_and_names_are_not_paths(tmp_path: Path) -> None:
    """A path is made absolute in the caller's directory; addresses of hosts and names of exchanges stay."""
    assert absolute_remote("../remote.git", str(tmp_path)) == str(tmp_path.parent / "remote.git")
    for address in ("git@host:me/memory.git", "file:///srv/x.git", "ssh://host/x", "memory"):
        assert absolute_remote(address, str(tmp_path)) == address


def test_names_of_exchanges_and_branches(tmp_path: Path) -> None:
    """Remotes whose names have no Latin letters get names of their own; a second branch is a second exchange."""
    folder = SyncFolder(tmp_path)
    for url in ("/srv/память.git", "/srv/записи.git", "/srv/x.git"):
        folder.write(folder.add(url))
    folder.write(folder.add("/srv/x.git", branch="team/notes"))
    assert sorted(each.name for each in folder.all()) == ["memory", "memory-2", "x", "x-2"]
    assert [found.name for branch in ("lorelog", "team/notes") if (found := folder.find("/srv/x.git", branch))] == [
        "x",
        "x-2",
    ]
    for branch in ("a b", "../x", "-x", "x.lock", "x..y", "/x"):
        with pytest.raises(UsageError, match="is not the name of a branch"):
            folder.add("/srv/y.git", branch=branch)


def test_a_shallow_clone_is_not_named_by_a_commit_that_is_not_the_first(remote: Path, tmp_path: Path) -> None:
    """A shallow clone whose remote is a path has no name of its own: its oldest commit is not that of other clones."""
    commit_to(remote, tmp_path / "one", {"a.txt": "a"}, "main")
    commit_to(remote, tmp_path / "two", {"b.txt": "b"}, "main")
    git("clone", "-q", "--depth", "1", "--branch", "main", f"file://{remote}", str(tmp_path / "shallow"))
    with pytest.raises(UsageError, match="shallow clone"):
        project_name(str(tmp_path / "shallow"))
    assert project_name(str(tmp_path / "two")).startswith("commit:")


def test_a_project_that_was_moved_is_not_created_again(tmp_path: Path) -> None:
    """A sync writes nothing where a project was; in its new place it is exchanged again, under the same name."""
    machine = SyncMachine(tmp_path / "a", tmp_path / "remote.git")
    machine.add("the otter lives in the river")
    machine.sync()
    old, machine.project = machine.project, tmp_path / "moved"
    old.rename(machine.project)
    with machine.open() as memory, pytest.raises(UsageError, match="gone"):
        memory.call("sync.exchange", {})
    assert not old.exists()
    machine.add("badgers dig at night")
    assert machine.sync()["sent"] == 1
    with machine.open() as memory:
        (settings,) = memory.call("sync.status", {})["exchanges"]
    assert list(settings["projects"]) == [str(machine.project)]


def test_one_exchange_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    """A sync of all exchanges reports the one that failed, and runs the rest."""
    machine = SyncMachine(tmp_path / "a", tmp_path / "remote.git")
    machine.add("the otter lives in the river")
    machine.sync()
    machine.remote = tmp_path / "other.git"
    git("init", "-q", "--bare", str(machine.remote))
    machine.sync()
    commit_to(tmp_path / "remote.git", tmp_path / "clone", {"lorelog-sync.json": '{"version": 99}'})
    machine.add("badgers dig at night")
    with machine.open() as memory:
        other, first = memory.call("sync.exchange", {})["exchanges"]
    assert (other["sent"], other["reason"]) == (1, "")
    assert "version 99" in first["reason"]


def test_a_second_sync_at_the_same_time_is_refused_and_changes_no_settings(tmp_path: Path) -> None:
    """While one sync of a home runs, another one fails at once; the settings of the first are not written over."""
    machine = SyncMachine(tmp_path / "a", tmp_path / "remote.git")
    machine.add("the otter lives in the river")
    machine.sync()
    settings = (machine.data / "sync" / "remote.json").read_bytes()
    with SyncFolder(machine.data).locked(), pytest.raises(StoreBusy, match="another sync is running"):
        machine.sync(with_global=True)
    assert (machine.data / "sync" / "remote.json").read_bytes() == settings
