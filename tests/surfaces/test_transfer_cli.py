"""`lorelog import`, `sync` and `backup`: what they ask, write and take back."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest
from tests.docs.pages import read, sections
from tests.docs.test_json_page import documented, fields
from tests.ingest.importers.test_sources import unpack
from tests.records.drafts import draft
from tests.services.sync.machines import SyncMachine, git
from tests.surfaces.conftest import Shell, write

from lorelog.core.paths import tenant_folder
from lorelog.records.ledger import Ledger


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home directory of a person who used other tools."""
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    unpack("claude-mem.db", tmp_path / "person" / ".claude-mem" / "claude-mem.db")
    return tmp_path / "person"


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Type an answer on a terminal."""
    stdin = io.StringIO(text)
    stdin.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdin", stdin)


def test_what_is_found_is_listed(shell: Shell, project: Path, person: Path) -> None:
    """Without arguments, each tool that is found is listed with the command that imports it; nothing is written."""
    write(project / "AGENTS.md", "Use pnpm.\n")
    done = shell("import")
    assert "lorelog import claude-mem ~/.claude-mem/claude-mem.db" in done.out
    assert "lorelog import rules AGENTS.md" in done.out
    assert "(indexed where it is)" not in done.out
    found = shell("import", "--json").json
    assert [item["source"] for item in found["found"]] == ["claude-mem", "rules"]
    assert found["batches"] == []
    assert not (project / ".lorelog").exists()
    assert shell("index").status == 0
    assert "AGENTS.md  (indexed where it is)" in shell("import").out
    assert "its entries would be found twice" in shell("import", "rules", "AGENTS.md", "--dry-run").err


def test_preview_question_and_undo(shell: Shell, project: Path, person: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import shows counts and samples and asks; a no writes nothing; a yes imports; the batch can be taken back."""
    answer(monkeypatch, "n\n")
    refused = shell("import", "claude-mem")
    assert refused.status == 1
    assert "2 observations: 2 new" in refused.out
    assert "Sessions are kept in Redis" in refused.out
    assert "archive: never shown by hooks" in refused.out
    assert "left out, of other projects: other 1" in refused.err
    assert "marked it as sensitive" in refused.err
    assert not (project / ".lorelog").exists()
    answer(monkeypatch, "y\n")
    assert "Imported 3 entries from claude-mem: 3 into this project." in shell("import", "claude-mem").out
    assert shell("search", "redis", "--tag", "from:claude-mem", "--json").json["hits"]
    (batch,) = shell("import", "--json").json["batches"]
    assert (batch["entries"], batch["done"]) == (3, True)
    assert "Took back" in shell("import", "--undo", batch["batch"]).out
    assert shell("search", "redis", "--json").json["hits"] == []
    assert shell("import", "--json").json["batches"] == []


def test_without_a_terminal_it_needs_yes(
    shell: Shell, project: Path, person: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a terminal nothing is imported unless --yes says so, and --dry-run never asks."""
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    done = shell("import", "claude-mem")
    assert done.status == 2
    assert "--yes" in done.err
    planned = shell("import", "claude-mem", "--dry-run", "--json").json
    assert (planned["added"], planned["batch"], planned["dry_run"]) == (3, "", True)
    made = shell("import", "claude-mem", "--yes", "--json").json
    assert (made["added"], made["to_project"]) == (3, 3)
    assert shell("import", "claude-mem", "--yes", "--json").json["added"] == 0
    assert shell("import", "claude-mem").status == 0  # there is nothing to ask about


def test_a_path_is_recognized(shell: Shell, project: Path, person: Path) -> None:
    """A path alone is recognized; a wrong word is answered with the nearest source, a wrong path with its name."""
    path = write(
        project / "memory.jsonl", '{"type":"entity","name":"A","entityType":"t","observations":["Likes otters"]}\n'
    )
    assert shell("import", path, "--yes", "--json").json["source"] == "mcp-memory"
    assert "did you mean 'obsidian'" in shell("import", "obsidiann").err
    assert "there is no file" in shell("import", "./gone.json").err
    assert "nothing to import was found: Letta agent file" in shell("import", "letta").err
    assert "there is no file absent.zip\n  hint: check the path" in shell("import", "./absent.zip").err
    assert "there is no file or folder" in shell("import", "letta", "x.af").err


def test_edited_entries_are_named(shell: Shell, project: Path, person: Path) -> None:
    """Taking an import back names the entry that was edited since, and exits with 1."""
    batch = shell("import", "claude-mem", "--yes", "--json").json["batch"]
    (path,) = (project / ".lorelog" / "memory" / "imports").rglob("*.md")
    path.write_text(path.read_text("utf-8").replace("too slow", "much too slow"), "utf-8")
    done = shell("import", "--undo", batch)
    assert done.status == 1
    assert "kept, because it was edited since" in done.out
    assert shell("import", "--undo", "nothing").status == 1


def test_what_was_forgotten_does_not_come_back(shell: Shell, project: Path, person: Path) -> None:
    """A forget takes an imported text out of its file for good: importing again does not bring it back."""
    batch = shell("import", "claude-mem", "--yes", "--json").json["batch"]
    assert shell("forget", "--match", "Sessions are kept in Redis", "--yes").status == 0
    assert shell("import", "claude-mem", "--yes", "--json").json["added"] == 0
    assert not any(b"Redis" in path.read_bytes() for path in (project / ".lorelog").rglob("*") if path.is_file())
    undone = shell("import", "--undo", batch, "--json").json
    assert (undone["removed"], undone["missing"]) == (2, 1)


def test_settings_are_taken_over_and_back(shell: Shell, project: Path, person: Path) -> None:
    """Settings of memsearch are shown, written only with --settings, and removed by undo unless they were changed since."""
    write(
        person / ".memsearch" / "config.toml",
        '[chunking]\nmax_chunk_size = 900\noverlap_lines = 3\n[embedding]\napi_key = "k"\n',
    )
    shown = shell("import", "memsearch", "--dry-run")
    assert "setting: chunking.max_chunk_size = 900" in shown.out
    assert shell("config", "get", "chunking.max_chunk_size").out.strip() == "1500"
    made = shell("import", "memsearch", "--settings", "--yes", "--json").json
    assert shell("config", "get", "chunking.max_chunk_size").out.strip() == "900"
    assert shell("config", "set", "chunking.overlap_lines", "4").status == 0
    again = shell("import", "memsearch", "--settings", "--yes").out
    assert "Kept chunking.max_chunk_size: it is set here already." in again
    undone = shell("import", "--undo", made["batch"]).out
    assert "kept, because it was changed since: chunking.overlap_lines" in undone
    assert shell("config", "get", "chunking.max_chunk_size").out.strip() == "1500"
    assert shell("config", "get", "chunking.overlap_lines").out.strip() == "4"


def test_memories_of_a_file_are_a_batch(shell: Shell, project: Path) -> None:
    """Memories of an OMF file are one batch, which can be taken back; one's own export adds nothing."""
    assert shell("add", "the otter lives in the river").status == 0
    own = project / "own.json"
    assert shell("export", "--format", "omf", "--output", own).status == 0
    assert shell("import", own, "--json").json["memories"] == {
        "found": 1,
        "added": 0,
        "there": 1,
        "archived": 0,
        "redacted": 0,
    }
    theirs = write(project / "theirs.json", json.dumps({"omf": "1.0", "memories": [{"content": "herons fish"}]}))
    assert "would be added" in shell("import", theirs, "--dry-run").out
    batch = shell("import", theirs, "--json").json["batch"]
    assert shell("search", "herons", "--json").json["hits"][0]["anchor"]["origin"] == "import"
    assert shell("import", "--undo", batch).status == 0
    assert not any("herons" in hit["content"] for hit in shell("search", "herons", "--json").json["hits"])


def test_replies_are_documented(shell: Shell, project: Path, person: Path) -> None:
    """Every field of the JSON of an import, its list and its undo is documented, and no other."""
    write(person / ".memsearch" / "config.toml", "[chunking]\nmax_chunk_size = 900\n")
    assert {*fields(shell("import", "memsearch", "--dry-run", "--json").json)} <= documented("import of another tool")
    made = shell("import", "claude-mem", "--yes", "--json").json
    tops = {name for name in documented("import of another tool") if "." not in name}
    assert set(made) | {"changed_settings"} == tops
    assert set(made["kinds"][0]) == {
        name.rpartition(".")[2] for name in documented("import of another tool") if name.startswith("kinds[].")
    }
    assert set(fields(shell("import", "--json").json)) == documented("import without arguments")
    assert set(shell("import", "--undo", made["batch"], "--json").json) == documented("import --undo")


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


@pytest.fixture
def full(shell: Shell, project: Path, home: Path) -> Path:
    """A home with a memory of the project, a global one and two records; returns a backup of it."""
    assert shell("add", "the otter lives in the river").status == 0
    assert shell("add", "--global", "I prefer tabs").status == 0
    Ledger(Path(tenant_folder(home, "default"))).append([draft("task_start", project=str(project.resolve()))])
    Ledger(Path(tenant_folder(home, "default"))).append([draft("decision", project=str(project.resolve()))])
    file = project.parent / "b.tar.gz"
    made = shell("backup", file)
    assert made.status == 0, made.err
    return file


def finds(shell: Shell, word: str) -> bool:
    return any(word in hit["snippet"] for hit in shell("search", word, "--json").json["hits"])


def test_a_lost_home_without_a_backup_keeps_the_memories_of_projects(shell: Shell, full: Path, home: Path) -> None:
    """If the home is gone and there is no backup, `index` finds the memories of the project's journals."""
    shutil.rmtree(home)
    assert shell("index").status == 0
    assert finds(shell, "otter")
    assert not finds(shell, "tabs")


def test_a_lost_home_is_restored(shell: Shell, full: Path, home: Path) -> None:
    """Restoring a backup into nothing, and indexing, finds everything; `--undo` takes it away again."""
    shutil.rmtree(home)
    planned = shell("restore", full, "--dry-run")
    assert "would change" in planned.out
    assert not (home / "data").exists()
    assert shell("restore", full).status == 0
    assert shell("index").status == 0
    assert finds(shell, "otter")
    assert finds(shell, "tabs")
    assert shell("ledger", "check").status == 0
    assert shell("restore", "--undo").status == 0
    assert not list((home / "data" / "default").glob("memory/*.md"))


def test_fields_of_exported_memories_are_documented(shell: Shell, full: Path) -> None:
    """docs/backup.md names every field of a line of the JSONL export."""
    exported = shell("export", "--format", "jsonl", "--json").json
    names = {name for line in exported["text"].splitlines() for name in json.loads(line)}
    assert all(f"`{name}`" in sections(read("docs/backup.md"))["Export"] for name in names)


def test_export_is_plain_text(shell: Shell, full: Path, project: Path) -> None:
    """Markdown has each memory once, without anchors, and a file is written where it was asked for."""
    text = shell("export").out
    assert text.count("the otter lives in the river") == 1
    assert "I prefer tabs" not in text
    text = shell("export", "--with-global").out
    assert text.count("the otter lives in the river") == text.count("I prefer tabs") == 1
    assert "<!--" not in text
    assert shell("export", "--format", "jsonl", "--output", project).status == 0
    lines = [json.loads(line) for line in (project / "memories.jsonl").read_text("utf-8").splitlines()]
    assert sorted(line["item"] for line in lines) == ["memory", "record", "record"]
    nothing = shell("export", "--since", "2999-01-01")
    assert nothing.out == ""
    assert "--with-global" in nothing.err


def test_messages_name_what_is_wrong(shell: Shell, full: Path, project: Path) -> None:
    """An existing target, another file, a missing file and a bad mapping are usage errors with a hint."""
    (project / "notes.txt").write_text("no backup", "utf-8")
    for words, status, text in (
        (("backup", full), 2, "exists"),
        (("restore", "notes.txt"), 2, "is not a lorelog backup"),
        (("restore", "./gone.tar.gz"), 1, "there is no file"),
        (("restore", full, "--project-map", "nonsense"), 2, "OLD=NEW"),
        (("restore",), 2, "is missing"),
        (("restore", "--undo"), 1, "no restore to undo"),
        (("backup", "--verify", full, "--with-keys"), 2, "--verify"),
    ):
        done = shell(*words)
        assert (done.status, text in done.err) == (status, True), (words, done.status, done.err)
