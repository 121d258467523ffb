"""`lorelog sync` as it is typed: wrong arguments change nothing and say what to do; a remote is found again from anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.services.sync.machines import SyncMachine, git
from tests.surfaces.conftest import Shell, write


@pytest.fixture
def remote(project: Path, tmp_path: Path) -> Path:
    """An empty repository to exchange over, and a project that other machines would recognize."""
    git("init", "-q", str(project))
    git("-C", str(project), "remote", "add", "origin", "git@example.org:me/app.git")
    git("init", "-q", "--bare", str(tmp_path / "mem.git"))
    return tmp_path / "mem.git"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--team",), "--team requires REMOTE"),
        (("--as", "app"), "--as requires REMOTE"),
        (("--with-global",), "--with-global requires REMOTE"),
        (("--branch", "b"), "--branch requires REMOTE"),
        (("--remove",), "--remove requires REMOTE"),
        (("",), "REMOTE must not be empty"),
        (("--status", "--remove", "mem"), "--status and --remove cannot be used together"),
        (("--status", "--team"), "--status and --team cannot be used together"),
        (("--merge-driver", "mem"), "--merge-driver does not take REMOTE"),
        (("/x/mem.git", "--branch", "a b"), "'a b' is not the name of a branch"),
        (("a", "b"), "one exchange at a time"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(
    remote: Path, shell: Shell, words: tuple[str, ...], message: str
) -> None:
    """An option without its exchange, or beside another request, is an error of usage that names the option."""
    done = shell("sync", *words)
    assert (done.status, done.out) == (2, "")
    assert message in done.err
    assert "hint: " in done.err
    assert shell("sync", *words, "--json").json["error"]["code"] == "usage"


def test_a_remote_that_was_never_reached_is_not_kept(remote: Path, shell: Shell) -> None:
    """A first sync with an address that does not answer sets nothing up, and says so."""
    for dry_run in ((), ("--dry-run",)):
        done = shell("sync", remote.with_name("typo.git"), *dry_run)
        assert done.status == 1
        assert "no exchange was set up" in done.err
        assert "typo.git" in done.err
    assert shell("sync", "--status", "--json").json["exchanges"] == []


def test_a_relative_path_is_found_from_other_directories(
    remote: Path, project: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A remote that is given as a relative path is kept as an absolute one, and recognized in both spellings."""
    assert shell("sync", "../mem.git").status == 0
    (project / "deep").mkdir()
    monkeypatch.chdir(project / "deep")
    assert shell("sync", "../../mem.git").status == 0
    (exchange,) = shell("sync", "--status", "--json").json["exchanges"]
    assert exchange["url"] == str(remote.resolve())


def test_a_dry_run_removes_no_exchange(remote: Path, shell: Shell) -> None:
    """`--remove --dry-run` says what would happen and keeps the exchange; `--remove` removes it."""
    shell("sync", remote)
    assert "mem would no longer be exchanged" in shell("sync", "mem", "--remove", "--dry-run").out
    assert "mem is no longer exchanged" in shell("sync", "mem", "--remove").out
    done = shell("sync", "mem", "--remove")
    assert (done.status, done.out) == (1, "")


def test_the_writer_is_found_by_the_id_that_a_search_shows(remote: Path, shell: Shell) -> None:
    """`--who` takes the id of a hit as well as the memory's own id."""
    added = shell("add", "the otter lives in the river", "--json").json
    shell("sync", remote, "--user", "mara")
    hit = shell("search", "otter", "--json").json["hits"][0]
    for identity in (hit["id"], hit["id"][:8], added["memory"]):
        assert shell("sync", "--who", identity).out == f"{identity} was written by mara.\n"
    assert shell("sync", "--who", "nobody").status == 1


def test_a_writer_never_seen_is_named_and_accepted(
    remote: Path, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync names a machine never seen and what accepts it; --status shows the same fingerprint there; an agent cannot accept."""
    other = SyncMachine(tmp_path / "b", remote)
    other.add("the otter lives in the river")
    other.sync()
    done = shell("sync", remote)
    assert "received 0 entries" in done.out
    with other.open() as memory:
        status = memory.call("sync.status", {})
    assert f"new writer {status['writer']} of " in done.err
    assert status["fingerprint"] in done.err
    accept = ("sync", "--accept-writer", status["writer"])
    monkeypatch.setenv("CLAUDECODE", "1")
    assert "cannot send memories" in shell(*accept).err
    monkeypatch.delenv("CLAUDECODE")
    assert shell(*accept).out.splitlines()[1:] == [f"{status['writer']} accepted as a machine of yours."]
    assert "new writer" not in shell("sync").err


def test_the_merge_driver_says_what_activates_it(
    remote: Path, project: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--merge-driver` works in any directory of a clone, prints JSON when asked, and fails outside of one."""
    (project / "deep").mkdir()
    monkeypatch.chdir(project / "deep")
    before = shell("sync", "--merge-driver", "--json").json
    assert (before["attributes"], before["is_active"]) == (str(project.resolve() / ".gitattributes"), False)
    write(project / ".gitattributes", before["line"] + "\n")
    assert shell("sync", "--merge-driver", "--json").json["is_active"]
    assert git("-C", str(project), "config", "merge.lorelog.driver").strip() == before["driver"]
    monkeypatch.chdir("/")
    assert shell("sync", "--merge-driver").status == 2
