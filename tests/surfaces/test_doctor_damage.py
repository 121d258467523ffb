"""Damaged, missing and unwritable files: searches and additions go on, doctor names the fault, an index run repairs it."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.conftest import Shell, command_line

from lorelog import Lorelog
from lorelog.core.paths import cache_folder
from lorelog.stores.embedded.connection import hold_lock


@pytest.fixture
def tenant(home: Path, project: Path, shell: Shell) -> Path:
    """The folder of a tenant with an indexed note and a memory."""
    (project / "notes").mkdir()
    (project / "notes" / "a.md").write_text("# Otter\n\nthe otter swims\n\n# Beaver\n\nthe beaver builds\n", "utf-8")
    assert shell("index", "notes").status == 0
    assert shell("add", "the heron stands still").status == 0
    return next(home.rglob("roots.json")).parent


@pytest.fixture
def cache(tenant: Path) -> Path:
    return Path(cache_folder(tenant))


def checks(shell: Shell, *options: str) -> dict[str, dict[str, Any]]:
    outcome = shell("doctor", "--json", *options)
    failed = {check["name"]: check for check in outcome.json["checks"] if not check["ok"]}
    assert outcome.status == (1 if failed else 0)
    return failed


def found(shell: Shell, word: str) -> bool:
    outcome = shell("search", word, "--json")
    assert outcome.status == 0, outcome.err
    return any(word in hit["content"] for hit in outcome.json["hits"])


def test_a_healthy_home_fails_no_check(tenant: Path, shell: Shell) -> None:
    """After an index run and an addition every check passes."""
    assert checks(shell) == {}
    assert checks(shell, "--store") == {}


@pytest.mark.parametrize("content", [b"garbage\nx\n", b"\xff\xfe\n", b"[1]\n{}\n", b'{"a": ' * 5_000 + b"\n"])
@pytest.mark.parametrize(
    "name",
    ["feedback.jsonl", "lifecycle.jsonl", "tombstones.jsonl", "authored.jsonl", "guards.jsonl", "receipts.jsonl"],
)
def test_no_bad_line_ends_a_search_or_an_addition(tenant: Path, shell: Shell, name: str, content: bytes) -> None:
    """Whatever a line of a file beside the index is, search and add go on, and doctor names file and line."""
    path = tenant / name
    path.write_bytes((path.read_bytes() if path.exists() else b"") + content)
    line = path.read_bytes().count(b"\n") - content.count(b"\n") + 1

    assert found(shell, "otter")
    assert shell("add", "the stork returns").status == 0
    assert found(shell, "stork")
    told = checks(shell)["file"]["message"]
    assert str(path) in told
    assert f" {line}" in told


def test_deliveries_open_tasks_and_captures_may_be_garbage(tenant: Path, cache: Path, shell: Shell) -> None:
    """Logs of what was shown, the file of open tasks and the database of captures end neither a search nor an addition."""
    (tenant / "deliveries").mkdir(exist_ok=True)
    for path in (tenant / "deliveries" / "claude.0123456789abcdef.jsonl", cache / "open-tasks.jsonl"):
        path.write_bytes(b"garbage\n")
    (tenant / "captures.db").write_bytes(b"garbage" * 1000)

    assert found(shell, "otter")
    assert shell("add", "the stork returns").status == 0
    assert "cannot be read: 1" in checks(shell)["file"]["message"]


@pytest.mark.parametrize("command", [["index"], ["add", "the stork returns"]])
@pytest.mark.parametrize("content", [b"", b"[]", b'{"roots": 5}', b"\xff", None])
def test_a_malformed_list_of_roots_is_set_aside_and_written_again(
    tenant: Path, project: Path, shell: Shell, content: bytes | None, command: list[str]
) -> None:
    """The command that writes it again says so and knows all roots from the index; doctor names the file before and after."""
    path = tenant / "roots.json"
    cut = path.read_bytes()[:-20]
    path.write_bytes(cut if content is None else content)

    assert "roots.json is malformed" in checks(shell)["roots"]["message"]
    outcome = shell(*command)
    assert (outcome.status, "written again from the index" in outcome.out + outcome.err) == (0, True)
    assert [kept.read_bytes() for kept in tenant.glob("roots.json.bad-*")] == [cut if content is None else content]
    assert {root["path"] for root in shell("index", "--list", "--json").json["roots"]} >= {str(project / "notes")}
    assert checks(shell) == {}
    assert "roots.json.bad-" in shell("doctor").out


def _overwrite(path: Path) -> None:
    path.write_bytes(b"not a database" * 500)


def _damage_pages(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\x55" * (len(content) - 4096)
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [_overwrite, _damage_pages])
def test_a_damaged_catalog_is_rebuilt_by_an_index_run(
    cache: Path, shell: Shell, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """Doctor fails, no search repairs it, an index run keeps the damaged file and reads all roots again."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "b.md").write_text("# Walrus\n\nthe walrus rests\n", "utf-8")
    assert shell("index", other, "--project", other).status == 0
    for ending in ("-wal", "-shm"):
        (cache / f"catalog.db{ending}").unlink(missing_ok=True)
    damage(cache / "catalog.db")

    assert checks(shell)
    assert checks(shell, "--store")
    assert shell("search", "otter").status == 1
    report = shell("index")
    assert report.status == 0, report.err
    assert "catalog.db.bad-" in report.out + report.err
    assert found(shell, "otter")
    assert found(shell, "heron")
    assert "walrus" in shell("search", "walrus", "--all-projects").out
    assert checks(shell) == {}


def test_what_is_in_the_way_is_named(cache: Path, shell: Shell) -> None:
    """A directory in the place of the catalog, and a file in the place of its folder, are called that."""
    for path in (cache / "catalog.db-wal", cache / "catalog.db-shm", cache / "catalog.db"):
        path.unlink(missing_ok=True)
    (cache / "catalog.db").mkdir()
    assert "is a directory, not a file" in shell("search", "otter").err
    assert "is a directory, not a file" in shell("index").err
    shutil.rmtree(cache)
    cache.write_text("in the way", "utf-8")
    outcome = shell("index")
    assert (outcome.status, "is a file, not a directory" in outcome.err) == (1, True)
    assert "is a file, not a directory" in checks(shell)["home"]["message"]


def damage_vectors(cache: Path) -> Path:
    (path,) = cache.rglob("*.i16")
    path.write_bytes(bytes(byte ^ 0x55 for byte in path.read_bytes()))
    os.utime(path, ns=(1, 1))
    return path


def test_damaged_vectors_are_named_and_repaired(cache: Path, shell: Shell) -> None:
    """`doctor --store` names the damaged file and what differs; `--repair` makes the vectors again and says what it repaired."""
    (path,) = cache.rglob("*.i16")
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    path.write_bytes(bytes(byte ^ 0x55 for byte in path.read_bytes()))
    os.utime(path, ns=times)

    told = checks(shell, "--store")["store"]["message"]
    assert "with another vector" in told
    assert path.name in told
    repaired = shell("doctor", "--store", "--repair")
    assert repaired.status == 0
    assert f"damaged: 3 lines of {path.name}" in repaired.out
    assert checks(shell, "--store") == {}
    assert "every chunk has a vector" in shell("doctor").out


def test_the_first_search_over_damaged_vectors_says_so(cache: Path, shell: Shell) -> None:
    """The answer that finds the damage names it, counts the vectors that are left, and has the keyword matches."""
    damage_vectors(cache)

    reply = shell("search", "otter", "--json").json

    assert (reply["coverage"]["with_vectors"], len(reply["hits"])) == (0, 1)
    assert any(note.startswith("3 damaged vectors removed") for note in reply["notes"])


def test_an_index_run_repairs_damaged_vectors(cache: Path, shell: Shell) -> None:
    """An index run over unchanged files rebuilds vectors that another program has changed, and says so."""
    path = damage_vectors(cache)

    report = shell("index")

    assert "was damaged" in report.out + report.err
    assert path.name in report.out + report.err
    assert checks(shell, "--store") == {}


def test_a_search_that_cannot_repair_says_so(cache: Path, shell: Shell) -> None:
    """While another process writes, damaged vectors are left out, and a note gives the reason."""
    damage_vectors(cache)

    with hold_lock(cache / "writer.lock", wait_s=1):
        outcome = shell("search", "otter")

    assert (outcome.status, "keyword matches only: vectors are damaged" in outcome.err) == (0, True)


def test_the_background_work_of_the_daemon_repairs_damaged_vectors(cache: Path, project: Path, shell: Shell) -> None:
    """Without any search or index run, damaged vectors are rebuilt, and doctor tells of it."""
    path = damage_vectors(cache)

    with Lorelog(project=project) as memory:
        memory._caller.engine.run_background_work()

    assert checks(shell, "--store") == {}
    assert "damaged files were rebuilt" in shell("doctor").out
    assert path.name in shell("doctor").out


def test_a_memory_that_was_not_indexed_is_undone_by_the_command_that_is_named(cache: Path, shell: Shell) -> None:
    """If the index cannot be written, `supersede` names the new memory by an id that `delete` knows after an index run."""
    old = shell("search", "heron", "--json").json["hits"][0]["id"]
    shutil.rmtree(cache / "lexical")
    (cache / "lexical").write_text("in the way", "utf-8")

    told = shell("supersede", old, "the heron walks").err

    (cache / "lexical").unlink()
    assert shell("index").status == 0
    assert shell("delete", re.findall(r"'lorelog delete (.*?)' undoes this", told)[0]).status == 0
    assert found(shell, "stands still")


def test_a_full_disk_is_named_with_its_figure(tenant: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too little free space fails doctor, which says how much is left."""
    usage = shutil.disk_usage(tenant)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage._replace(free=12_300_000))

    assert "only 12 MB are free" in checks(shell)["disk"]["message"]


def test_a_read_only_home_is_named(home: Path, tenant: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home that cannot be written fails doctor."""
    real = os.access
    denied = {str(home), str(tenant)}
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) not in denied and real(path, mode))

    assert "is read-only" in checks(shell)["home"]["message"]


def test_files_that_others_can_read_are_named(home: Path, tenant: Path, shell: Shell) -> None:
    """Doctor warns of a home that others can enter and names such a file; one of its owner's alone protects them."""
    (tenant / "roots.json").chmod(0o644)
    assert "warn  privacy" not in shell("doctor").out
    home.chmod(0o755)
    told = shell("doctor").out
    assert "warn  privacy: other users can enter" in told
    assert "can be read by them" in told
    assert "hint: chmod 700" in told


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-50])])
def test_a_ledger_without_its_end_is_named(tenant: Path, shell: Shell, damage: Callable[[Path], object]) -> None:
    """A ledger that was deleted or cut fails doctor."""
    assert shell("decide", "use SQLite", "--because", "it is one file").status == 0
    damage(tenant / "ledger.jsonl")

    assert "was deleted or cut" in checks(shell)["ledger"]["message"]


@pytest.mark.slow
def test_too_few_open_files_are_told_in_plain_words(tenant: Path, project: Path) -> None:
    """With almost no file descriptors left an addition is saved, and no library's own message is shown."""
    shell = ["sh", "-c", 'ulimit -n 12; exec "$@"', "sh", *command_line("add", "the stork returns")]
    ended = subprocess.run(shell, cwd=project, capture_output=True, text=True, check=False)
    told = ended.stdout + ended.stderr
    assert "stork" in "".join(path.read_text("utf-8") for path in project.rglob("*.md"))
    assert not any(word in told for word in ("os error", "IoError", "Traceback", "tantivy"))
