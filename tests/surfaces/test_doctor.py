"""`lorelog doctor` and `lorelog store`: damaged, missing and unwritable files, models that cannot run, and stores of other machines."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.docs.pages import read
from tests.models.embedding_server import Answer, EmbeddingServer, Request
from tests.models.vendors import VENDORS
from tests.surfaces.conftest import Shell, command_line, write

from lorelog import Lorelog
from lorelog.core.paths import cache_folder
from lorelog.models.embed import PROVIDERS
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


def test_a_search_that_cannot_repair_says_so(cache: Path, shell: Shell) -> None:
    """While another process writes, damaged vectors are left out, and a note gives the reason."""
    damage_vectors(cache)

    with hold_lock(cache / "writer.lock", wait_s=1):
        outcome = shell("search", "otter")

    assert (outcome.status, "keyword matches only: vectors are damaged" in outcome.err) == (0, True)


@pytest.mark.parametrize("by", ["index run", "background"])
def test_damaged_vectors_are_rebuilt_unasked(cache: Path, project: Path, shell: Shell, by: str) -> None:
    """An index run over unchanged files, and the background work without any, rebuild damaged vectors and say so."""
    path = damage_vectors(cache)

    if by == "background":
        with Lorelog(project=project) as memory:
            memory._caller.engine.run_background_work()
        said, told = shell("doctor").out, "damaged files were rebuilt"
    else:
        report = shell("index")
        said, told = report.out + report.err, "was damaged"

    assert told in said
    assert path.name in said
    assert checks(shell, "--store") == {}


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
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=12_300, f_frsize=1_000))

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


def check(shell: Shell, name: str) -> Any:
    return next((check for check in shell("doctor", "--json").json["checks"] if check["name"] == name), None)


@pytest.fixture
def _no_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the doctor asked the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


KEYS = [
    *(("embedding", name, PROVIDERS[name].key_variable) for name in VENDORS if name != "ollama"),
    *(
        (section, name, variables)
        for section in ("llm", "summarize")
        for name, variables in {
            "openai": "OPENAI_API_KEY",
            "anthropic": "ANTHROPIC_API_KEY",
            "gemini": "GEMINI_API_KEY or GOOGLE_API_KEY",
        }.items()
    ),
]


@pytest.mark.usefixtures("_no_requests", "project")
@pytest.mark.parametrize(("section", "name", "variables"), KEYS)
def test_a_missing_key_is_reported(
    section: str, name: str, variables: str, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing key fails with the name of the variable; once set, the check passes and does not show the key."""
    kind = "model" if section == "embedding" else "language model"
    assert kind == "model" or check(shell, kind) is None  # none is configured
    monkeypatch.setenv(f"LORELOG_{section.upper()}_PROVIDER", name)
    told = check(shell, kind)
    assert (told["ok"], told["hint"]) == (False, f"set {variables}")
    assert "no API key" in told["message"]
    assert kind == "model" or f"{name} ({section}.provider)" in told["message"]
    assert shell("doctor").status == 1

    monkeypatch.setenv(variables.partition(" or ")[0], "Sesame-0123456789")
    told = check(shell, kind)
    assert told["ok"]
    assert kind != "model" or f"{name}/{PROVIDERS[name].default_model}" in told["message"]
    assert "Sesame" not in str(told)


@pytest.mark.usefixtures("_no_requests", "project")
@pytest.mark.parametrize("command", ["no-such-program-here -x", "/no/such/program", "", "'open"])
def test_a_missing_program_is_reported(command: str, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing program is reported before a run fails."""
    monkeypatch.setenv("LORELOG_LLM_PROVIDER", "command")
    monkeypatch.setenv("LORELOG_LLM_COMMAND", command)

    told = check(shell, "language model")
    assert not told["ok"]
    assert told["hint"]


@pytest.mark.usefixtures("_no_requests", "project")
def test_a_program_is_looked_for_and_not_started(shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An existing program passes."""
    program = write(tmp_path / "bin" / "claude", f"#!{sys.executable}\nopen({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.setenv("LORELOG_LLM_PROVIDER", "host")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    told = check(shell, "language model")
    assert (told["ok"], told["hint"]) == (False, "install it, or add its folder to the PATH")

    program.chmod(0o755)
    told = check(shell, "language model")
    assert (told["ok"], told["message"]) == (True, "host/claude/haiku (llm.provider)")
    monkeypatch.setenv("LORELOG_LLM_PROVIDER", "command")
    monkeypatch.setenv("LORELOG_LLM_COMMAND", f"{program} --print")
    told = check(shell, "language model")
    assert told["ok"]
    assert not (tmp_path / "ran").exists()


@pytest.mark.usefixtures("_no_requests", "project")
@pytest.mark.parametrize(
    ("name", "package", "install"),
    [
        ("local", "sentence_transformers", "lorelog[local]"),
        ("onnx", "huggingface_hub", "lorelog[onnx]"),
        ("builtin", "onnxruntime", "onnxruntime"),
    ],
)
def test_a_missing_package_is_reported(
    name: str, package: str, install: str, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing package fails with what to install, without importing anything."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *_: None if name == package else find(name))
    monkeypatch.setattr("lorelog.models.in_process.find_spec", lambda name: None if name == package else find(name))
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", name)
    told = check(shell, "model")
    assert not told["ok"]
    assert install in told["hint"]
    assert package not in sys.modules or name != "local"


@pytest.mark.usefixtures("project")
def test_a_store_without_its_client_is_reported(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store.uri whose client is not installed fails with the extra, also while nothing is indexed."""
    monkeypatch.setenv("LORELOG_STORE_URI", "milvus.db")
    monkeypatch.setattr("lorelog.core.extras._is_installed", lambda package: package != "pymilvus")
    told = check(shell, "store")
    assert not told["ok"]
    assert "lorelog[milvus]" in told["hint"]


@pytest.mark.usefixtures("project")
def test_a_model_that_is_whole_is_named(shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The built-in model and no model pass; a missing model folder fails."""
    for name in ("builtin", "none", "fake"):
        monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", name)
        told = check(shell, "model")
        assert told["ok"], told
        assert name in told["message"]
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "onnx")
    monkeypatch.setenv("LORELOG_EMBEDDING_MODEL", str(tmp_path / "nowhere"))
    assert "is not a folder" in check(shell, "model")["message"]


@pytest.mark.slow
def test_an_unfinished_change_is_reported(shell: Shell, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an interrupted change of model, doctor says how much is missing and what to do, until it is finished."""
    vendor = VENDORS["openai"]
    is_down = True

    def answer(request: Request) -> Answer:
        texts = vendor.texts(request)
        return vendor.saying(401)(request) if is_down and "otter 5" in str(texts) else vendor.well(request)

    server = EmbeddingServer(answer)
    for number in range(9):
        write(project / f"{number}.md", f"a note about otter {number}\n")
    shell("index", ".")
    assert check(shell, "change") is None
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "openai")
    monkeypatch.setenv("LORELOG_EMBEDDING_BASE_URL", server.url)
    monkeypatch.setenv("LORELOG_EMBEDDING_BATCH_SIZE", "1")
    try:
        assert shell("index", "--reembed").status == 1
        told = check(shell, "change")
        assert not told["ok"]
        assert "openai/text-embedding-3-small is not finished" in told["message"]
        assert "'lorelog index' continues it, 'lorelog index --reembed --drop-old' discards it" in told["hint"]
        monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "fake")
        assert "under embedding.provider 'openai'" in check(shell, "change")["hint"]
        monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "openai")
        is_down = False
        shell("index", "--reembed")
        assert check(shell, "change") is None
    finally:
        server.stop()


HELD = """
import sys, time
from pathlib import Path
from lorelog.stores.embedded.connection import hold_lock
with hold_lock(Path(sys.argv[1]), wait_s=5):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_change_in_progress_is_not_a_fault(shell: Shell, project: Path, home: Path) -> None:
    """While an index run holds the lock, its change of model is reported as in progress."""
    from lorelog.language.analyser import WordAnalyser
    from lorelog.stores.embedded import EmbeddedStore

    write(project / "a.md", "a note about otters\n")
    shell("index", ".")
    folder = home / "cache" / "default"
    store = EmbeddedStore(folder, WordAnalyser(), provider="openai", model="m")
    with store.writer() as writer:
        writer.begin_shadow_vectors(3)
    store.close()
    assert not check(shell, "change")["ok"]
    locks = [str(path) for path in folder.glob("*run*lock*")]
    assert len(locks) == 1
    with subprocess.Popen(
        [sys.executable, "-c", HELD, locks[0]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        told = check(shell, "change")
        assert told["ok"]
        assert "an index run is working on it" in told["message"]
        assert holder.stdin is not None
        holder.stdin.close()


@pytest.mark.slow
def test_the_doctor_compares_and_mends_the_store(shell: Shell, project: Path, home: Path) -> None:
    """Missing rows in Milvus are reported with status 1 and repaired with --repair, without embedding."""
    write(project / "a.md", "# A\n\nan otter\n\n# B\n\na beaver\n")
    assert shell("config", "set", "store.uri", "lite.db").status == 0
    shell("index", ".")
    assert "all of them" in shell("doctor", "--store").out
    shutil.rmtree(home / "lite.db")

    told = shell("doctor", "--store", "--json")
    mended = shell("doctor", "--store", "--repair")

    assert told.status == 1
    assert "missing" in told.json["checks"][0]["message"]
    assert told.json["checks"][0]["hint"] == "lorelog doctor --store --repair"
    assert mended.status == 0
    assert "repaired" in mended.out
    assert shell("doctor", "--store").status == 0
    assert len(shell("search", "otter", "--json").json["hits"]) >= 1


def test_the_doctor_looks_at_the_embedded_store_too(shell: Shell, project: Path) -> None:
    """Without Milvus the local search index is checked; --repair alone is rejected."""
    write(project / "a.md", "# A\n\nan otter\n")
    shell("index", ".")

    assert "beside the catalog" in shell("doctor", "--store").out
    assert shell("doctor", "--store", "--repair").status == 0
    assert shell("search", "otter", "--json").json["hits"]
    assert shell("doctor", "--repair").status == 2


@pytest.mark.slow
def test_a_store_is_moved_by_its_setting(shell: Shell, project: Path) -> None:
    """With another store.uri the index goes there, and back, without embedding anything."""
    write(project / "a.md", "# A\n\nan otter\n\n# B\n\na beaver\n")
    shell("index", ".")
    for uri in ("lite.db", ""):
        shell("config", "set", "store.uri", uri)
        assert shell("index", ".", "--json").json["embedded"] == 0
        assert shell("search", "otter", "--json").json["hits"]


@pytest.mark.slow
def test_a_store_that_is_not_used_any_more_is_left(shell: Shell, project: Path, home: Path) -> None:
    """Leaving deletes this index's rows there and nothing here; the place in use, or no place, cannot be left."""
    write(project / "a.md", "# A\n\nan otter\n")
    shell("config", "set", "store.uri", "old.db")
    shell("config", "set", "store.shared", "true")
    shell("index", ".")
    assert len(list((home / "old.db" / "collections").glob("*"))) == 2  # the project's, and what is told to others
    refused = shell("store", "leave", "--at", "old.db")
    assert refused.status == 2
    assert "is in use" in refused.err
    shell("config", "set", "store.uri", "")

    assert shell("store", "leave", "--at", "old.db", "--json").json == {"left": str(home / "old.db")}

    assert not list((home / "old.db" / "collections").glob("*"))
    assert shell("search", "otter", "--json").json["hits"]
    for nowhere in ("embedded", ""):
        assert shell("store", "leave", "--at", nowhere).status != 0
    assert "`left`" in read("docs/json.md")


def test_a_place_that_cannot_be_is_refused(shell: Shell, project: Path) -> None:
    """An address with a password, or no address at all, is refused before anything is done, and not repeated."""
    for uri in ("http://me:secret@host:19530", "nowhere", "ftp://host/x.db"):
        refused = shell("store", "leave", "--at", uri)
        assert refused.status != 0
        assert "secret" not in refused.err


@pytest.mark.slow
def test_a_milvus_that_is_down_is_one_line(shell: Shell, project: Path) -> None:
    """If Milvus does not respond, index and search name it with a hint, without a traceback."""
    write(project / "a.md", "# A\n\nan otter\n")
    shell("index", ".")
    shell("config", "set", "store.uri", "http://127.0.0.1:9")

    for words in (("search", "otter"), ("doctor", "--store", "--repair")):
        said = shell(*words)
        assert said.status != 0
        assert "http://127.0.0.1:9 cannot be reached" in said.err + said.out
        assert "Traceback" not in said.err
    assert shell("list", "--json").status == 0
