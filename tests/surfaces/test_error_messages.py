"""What is typed wrong is named in plain words, with the option as it was typed and what to do next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.code.repositories import git
from tests.surfaces.conftest import Shell, write

VALIDATOR_WORDS = ("Expected `", "Object ", "msgspec", "of length")


@pytest.mark.parametrize(
    ("operation", "arguments", "message"),
    [
        ("search", '{"query": "x", "k": "three"}', "memory.search: k must be a whole number (got 'three')"),
        ("search", '{"query": "x", "lane": "sparse"}', "memory.search: lane must be one of dense, hybrid, lexical"),
        ("search", "{}", "memory.search: the field 'query' is missing"),
        ("search", '{"query": "x", "qurey": 1}', "memory.search: there is no field 'qurey'; did you mean 'query'?"),
        ("memory.add", '{"text": ""}', "memory.add: text must not be empty"),
        ("memory.add", '{"text": "x", "tags": [1]}', "memory.add: tags[0] must be a string"),
        ("memory.add_batch", '{"memories": [{}]}', "memory.add_batch: the field 'memories[0].text' is missing"),
        ("memory.add_batch", '{"memories": [{"text": "x", "a": 1}]}', "there is no field 'memories[0].a'"),
    ],
)
def test_a_wrong_argument_of_an_operation_names_its_field(
    shell: Shell, project: Path, operation: str, arguments: str, message: str
) -> None:
    """In `lorelog call` the error names the operation, the field and what it accepts, and leads to its schema."""
    done = shell("call", operation, "--json", arguments)

    error = done.json["error"]
    assert done.status == 2
    assert message in error["message"]
    assert error["hint"].startswith("lorelog ops memory.")
    assert not any(word in error["message"] for word in VALIDATOR_WORDS)


def test_a_path_that_is_not_indexed_is_named_without_a_list(shell: Shell, project: Path) -> None:
    """Removing an unknown path names it and where the known ones are listed, whatever their number."""
    shell("add", "the walrus sleeps")

    done = shell("index", "--remove", "nowhere")

    assert done.status == 1
    assert "nowhere is not an indexed path" in done.err
    assert "index --list" in done.err
    assert ".lorelog/memory" not in done.err


def test_an_error_that_was_never_seen_has_no_notes_about_the_search(shell: Shell, project: Path) -> None:
    """`why` says that the error is new, and nothing about memories that it does not show."""
    shell("add", "the walrus sleeps")

    done = shell("why", "KeyError: 'foo'")

    assert done.out.endswith("Not seen before.\n")
    assert done.err == ""


def test_text_that_was_not_traced_is_mentioned(shell: Shell, project: Path) -> None:
    """`why` does not call new what it shows a memory of."""
    shell("add", "undefined: paths.ParseTrailer was renamed to ReadTrailer", "--type", "decision")

    done = shell("why", "undefined: paths.ParseTrailer")

    assert "Not traced as an error; mentioned here:" in done.out
    assert "Not seen before" not in done.out


def test_a_provider_whose_vectors_are_there_is_not_to_be_embedded_again(
    shell: Shell, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`config set` back to the model that made the vectors of the index does not advise to make them again."""
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.delenv("LORELOG_EMBEDDING_PROVIDER")
    shell("config", "set", "embedding.provider", "fake")
    shell("add", "the walrus sleeps")

    assert "--reembed" in shell("config", "set", "embedding.provider", "openai").err
    assert shell("config", "set", "embedding.provider", "fake").err == ""


def test_setting_a_provider_without_its_key_warns(
    shell: Shell, project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`config set embedding.provider` says which key is missing, and how the vectors are made anew."""
    shell("add", "the walrus sleeps")
    monkeypatch.delenv("LORELOG_EMBEDDING_PROVIDER")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    done = shell("config", "set", "embedding.provider", "openai")

    assert done.status == 0
    assert "set OPENAI_API_KEY" in done.err
    assert "lorelog index --reembed" in done.err


@pytest.mark.parametrize("words", [("the walrus",), ("the", "walrus"), ("--dry-run", "the walrus")])
def test_words_instead_of_an_id_are_forgotten_by_match(words: tuple[str, ...], shell: Shell, project: Path) -> None:
    """`forget` with words names the option that takes words."""
    done = shell("forget", *words)

    assert done.status == 1
    assert 'lorelog forget --match "the walrus"' in done.err


def test_a_new_project_is_told_once(shell: Shell, project: Path) -> None:
    """The first memory outside a repository names the new project and --global; the second says nothing of it."""
    first, second = shell("add", "the walrus sleeps"), shell("add", "the otter plays")

    assert f"new project {project} (no Git repository here); --global" in first.err
    assert second.err == ""


def test_memories_are_shared_by_git_only_on_purpose(shell: Shell, project: Path, tmp_path: Path) -> None:
    """Git ignores .lorelog from the first memory on; without its .gitignore journals are committed and found in a clone."""
    git(project, "init", "-q")
    added = shell("add", "the walrus sleeps")
    assert "to share all memories, delete .lorelog/.gitignore" in added.err
    git(project, "add", "-A")
    assert git(project, "status", "--short") == ""
    assert shell("index").status == 0
    assert shell("search", "walrus", "--lane", "lexical", "--json").json["hits"], (
        "our own indexer reads what Git ignores"
    )

    (project / ".lorelog" / ".gitignore").unlink()
    shell("add", "the otter plays")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "share memories")
    git(tmp_path, "clone", "-q", str(project), str(tmp_path / "clone"))

    assert not (project / ".lorelog" / ".gitignore").exists()
    assert shell("index", "--project", tmp_path / "clone").status == 0
    found = shell("search", "otter", "--lane", "lexical", "--project", tmp_path / "clone", "--json").json["hits"]
    assert found[0]["source"].startswith(str(tmp_path / "clone"))


def test_a_removed_project_is_a_warning(shell: Shell, project: Path) -> None:
    """Journals that were removed with their project are a warning of doctor; a path that a person named fails."""
    shell("add", "the walrus sleeps")
    (project / ".lorelog").rename(project / "away")

    done = shell("call", "memory.health", "--json", "{}")
    assert [check["ok"] for check in done.json["checks"] if check["name"] == "root"] == [True]

    write(project / "notes" / "a.md", "the otter plays\n")
    shell("index", "notes")
    (project / "notes").rename(project / "gone")
    done = shell("call", "memory.health", "--json", "{}")
    assert sorted(check["ok"] for check in done.json["checks"] if check["name"] == "root") == [False, True]


def test_the_same_memory_is_added_once(shell: Shell, project: Path) -> None:
    """The same text again answers the first memory; another type or tag, or a deleted first one, makes a new memory."""
    first = shell("add", "the walrus sleeps", "--json").json
    again = shell("add", "the walrus sleeps")
    same = shell("add", "the walrus sleeps", "--json").json

    assert again.out.startswith("Already remembered in ")
    assert (same["memory"], same["existed"]) == (first["memory"], True)
    assert not shell("add", "the walrus sleeps", "--tag", "zoo", "--json").json["existed"]
    shell("delete", first["id"])
    assert not shell("add", "the walrus sleeps", "--json").json["existed"]


def test_a_superseded_judgement_is_named(shell: Shell, project: Path) -> None:
    """`eval --feedback` says that the only judged memory is hidden, instead of a table of zeros."""
    old = shell("add", "the walrus sleeps", "--json").json["id"]
    shell("feedback", "walrus", old, "relevant")
    assert shell("supersede", old, "the walrus is awake").status == 0

    done = shell("eval", "--feedback")

    assert done.status == 1
    assert "is superseded or expired, so no search shows it" in done.err


def test_keys_are_mentioned_only_if_there_are_some(shell: Shell, project: Path, tmp_path: Path) -> None:
    """A backup says that private keys are left out only if the home has any."""
    shell("add", "the walrus sleeps")
    assert "key" not in shell("backup", tmp_path / "a.tar.gz").err

    shell("identity", "create", "mara")

    assert "1 private key left out" in shell("backup", tmp_path / "b.tar.gz").err


def test_a_search_below_a_path_that_is_not_indexed_says_so(shell: Shell, project: Path) -> None:
    """`search --source` and `list --source` name the path, and where the indexed ones are listed."""
    shell("add", "a walrus")
    for verb in (("search", "walrus"), ("list",)):
        done = shell(*verb, "--source", "nowhere")

        assert "Nothing found." in done.out
        assert f"nothing is indexed at or below {project / 'nowhere'}; 'lorelog index --list'" in done.err


def test_an_error_into_a_closed_pipe_has_its_status_and_no_traceback(tmp_path: Path) -> None:
    """Where nobody reads standard output or error, the exit status is the same, and nothing else is printed."""
    for words, closed in ((["call", "nosuch"], "stdout"), (["nosuch"], "stderr")):
        reader, writer = os.pipe()
        os.close(reader)
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "LORELOG_HOME": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", "from lorelog.surfaces.cli import entry; entry()", *words],
            env=environment,
            check=False,
            stdout=writer if closed == "stdout" else subprocess.PIPE,
            stderr=writer if closed == "stderr" else subprocess.PIPE,
        )
        os.close(writer)

        assert (done.returncode, done.stdout or b"", done.stderr or b"") == (2, b"", b"")
