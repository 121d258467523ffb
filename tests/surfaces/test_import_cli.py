"""`lorelog import` lists, shows, asks, imports and takes back; `lorelog export` writes what it reads."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from tests.docs.test_json_page import documented, fields
from tests.ingest.importers.test_sources import unpack
from tests.surfaces.conftest import Shell, write


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
