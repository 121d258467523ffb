"""The commands around a session's beginning: agent-context, session-start and init."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.code.repositories import git
from tests.surfaces.conftest import Shell

from lorelog.models.embed.builtin import TokenCounter
from lorelog.services.context.init import BLOCK

COUNT = TokenCounter()


@pytest.fixture
def repository(project: Path) -> Path:
    git(project, "init", "-q")
    return project


@pytest.mark.slow
def test_a_context_is_printed_and_holds_its_budget(shell: Shell) -> None:
    """The output is the context in Markdown or JSON, within the token budget."""
    for number in range(12):
        shell("add", f"the deploy rule number {number} is about keys and otters", "--type", "fact")

    words = ("agent-context", "--query", "deploy rule", "--query", "keys", "--k", "6", "--token-budget", "250")
    text = shell(*words).out
    assert text.startswith("# lorelog context\n")
    assert 200 < COUNT(text) <= 250
    assert "Left out for 250 tokens: " in text
    as_json = shell(*words, "--format", "json").out
    assert COUNT(as_json) <= 250
    assert json.loads(as_json)["items"]


def test_an_output_file_is_written_in_place_of_printing(shell: Shell, project: Path) -> None:
    """The file is written with mode 0600 and nothing is printed; --json still prints the reply."""
    shell("add", "two keys")
    done = shell("agent-context", "--query", "keys", "--output", "context.md")

    assert done.out == ""
    assert "two keys" in (project / "context.md").read_text("utf-8")
    assert (project / "context.md").stat().st_mode & 0o777 == 0o600
    told = shell("agent-context", "--query", "keys", "--output", "context.md", "--json").json
    assert told["tokens"] == COUNT((project / "context.md").read_text("utf-8"))
    assert shell("agent-context", "--output", "no/such/place.md").status == 2


def test_calls_are_logged_in_a_directory(shell: Shell, tmp_path: Path) -> None:
    """--log-dir gets a private file of each call, with its query and result, and a log with a line per call."""
    shell("add", "two keys")
    for query in ("which keys", "other keys"):
        shell("agent-context", "--query", query, "--log-dir", tmp_path / "log")

    logged = [json.loads(line) for line in (tmp_path / "log" / "lorelog_context_log.jsonl").read_text().splitlines()]
    assert [call["queries"][0]["query"] for call in logged] == ["which keys", "other keys"]
    files = sorted((tmp_path / "log").glob("lorelog_context_[0-9]*.json"))
    assert [json.loads(path.read_text("utf-8")) for path in files] == logged
    assert logged[0]["items"][0]["citation_id"] in logged[0]["text"]


def test_a_session_start_refreshes_the_file_in_silence(shell: Shell, repository: Path) -> None:
    """It writes the newest entries, keeps the folder out of commits, prints nothing, and creates no scope file."""
    shell("add", "two keys", "--global")
    first = shell("session-start")
    shell("add", "three keys", "--global")
    shell("session-start", "--project", repository)

    assert (first.status, first.out, first.err) == (0, "", "")
    text = (repository / ".lorelog" / "context.md").read_text("utf-8")
    assert "two keys" in text
    assert "three keys" in text
    assert (repository / ".lorelog" / ".gitignore").read_text("utf-8").endswith("\n*\n")
    assert not (repository / ".lorelog" / "scope.json").exists()


def test_a_session_start_leaves_nothing_where_nothing_is_known(shell: Shell, project: Path) -> None:
    """A directory without memories is not changed."""
    assert shell("session-start").status == 0
    assert list(project.iterdir()) == []


@pytest.mark.parametrize("broken", ["{", '{"tenant": "elsewhere"}'])
def test_a_session_start_never_fails_a_hook(shell: Shell, project: Path, broken: str) -> None:
    """An invalid scope file is reported on standard error, and the command succeeds."""
    (project / ".lorelog").mkdir()
    (project / ".lorelog" / "scope.json").write_text(broken, "utf-8")
    done = shell("session-start")

    assert (done.status, done.out) == (0, "")
    assert "scope.json" in done.err
    assert (project / ".lorelog" / "scope.json").read_text("utf-8") == broken
    assert not (project / ".lorelog" / "context.md").exists()
    assert shell("session-start", "--project", "nowhere").status == 2


def test_a_session_start_writes_through_no_link(shell: Shell, repository: Path, tmp_path: Path) -> None:
    """Symbolic links in a repository are not followed: a linked folder is refused, a linked file replaced."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (repository / ".lorelog").symlink_to(elsewhere)
    shell("add", "two keys", "--global")
    assert "not a directory inside the project" in shell("session-start").err
    assert list(elsewhere.iterdir()) == []

    (repository / ".lorelog").unlink()
    (repository / ".lorelog").mkdir()
    victim = tmp_path / "victim"
    victim.write_text("kept", "utf-8")
    (repository / ".lorelog" / "context.md").symlink_to(victim)
    shell("session-start")
    assert victim.read_text("utf-8") == "kept"
    assert "two keys" in (repository / ".lorelog" / "context.md").read_text("utf-8")


def test_a_session_start_where_nothing_can_be_written(shell: Shell, repository: Path) -> None:
    """A directory in place of the file is reported and not a failure; an invalid budget is one."""
    shell("add", "two keys", "--global")
    (repository / ".lorelog" / "context.md").mkdir(parents=True)
    done = shell("session-start")

    assert (done.status, done.out) == (0, "")
    assert "was not updated" in done.err
    assert shell("session-start", "--token-budget", "1").status == 2


def test_another_tenants_context_is_kept_apart(shell: Shell, repository: Path) -> None:
    """A tenant's context file contains no other tenant's memories."""
    shell("config", "set", "scope.tenants", "work")
    shell("add", "a secret of work", "--global", "--tenant", "work")
    shell("session-start", "--tenant", "work")

    assert not (repository / ".lorelog" / "context.md").exists()
    own = repository / ".lorelog" / "tenants" / "work" / "context.md"
    assert "a secret of work" in own.read_text("utf-8")


def test_init_makes_the_file_that_most_agents_read(shell: Shell, repository: Path) -> None:
    """If neither file exists, AGENTS.md is created, and deleted with its block."""
    shell("init")
    assert (repository / "AGENTS.md").read_text("utf-8") == BLOCK + "\n"
    assert not (repository / "CLAUDE.md").exists()

    shell("init", "--remove")
    assert not (repository / "AGENTS.md").exists()
    assert shell("init", "--remove").out == "Nothing to do.\n"


def test_a_dry_run_writes_nothing(shell: Shell, project: Path) -> None:
    """A dry run shows the changes and writes nothing."""
    done = shell("init", "--dry-run", "--tenant", "work")

    assert "would write .lorelog/scope.json" in done.out
    assert "would write AGENTS.md" in done.out
    assert list(project.iterdir()) == []


def test_init_keeps_the_project(shell: Shell, repository: Path, tmp_path: Path) -> None:
    """The project is the same before and after `init`, from the root, a subdirectory and a linked worktree."""

    def standing() -> list[str]:
        asked = ("agent-context", "--json")
        return [shell(*asked, "--project", item).json["project"] for item in (repository, below, linked)]

    below = repository / "below"
    below.mkdir()
    linked = tmp_path / "linked"
    git(repository, "commit", "-q", "--allow-empty", "-m", "x")
    git(repository, "worktree", "add", "-q", str(linked))
    before = standing()
    shell("init")
    shell("init", "--project", linked)

    assert standing() == before == [str(repository)] * 3
    assert not (linked / ".lorelog" / "scope.json").exists()
    shell("init", "--project", below, "--no-agent-files")
    assert shell("agent-context", "--json", "--project", below).json["project"] == str(below)


def test_init_for_a_tenant_says_what_to_allow(shell: Shell, repository: Path) -> None:
    """The scope file asks for the tenant, the note says how to allow it, and then it is used; another is rejected."""
    done = shell("init", "--tenant", "work")
    assert "lorelog config set scope.tenants work" in done.err
    assert shell("list").status == 1

    shell("config", "set", "scope.tenants", "work")
    assert shell("agent-context", "--json").json["tenant"] == "work"
    assert shell("init", "--tenant", "work").err == ""
    refused = shell("init", "--tenant", "other")
    assert (refused.status, "'work'" in refused.err) == (1, True)
    assert shell("init", "--tenant", "No Name").status == 1
    assert json.loads((repository / ".lorelog" / "scope.json").read_text("utf-8"))["tenant"] == "work"


def test_init_follows_links_only_within_the_project(shell: Shell, repository: Path, tmp_path: Path) -> None:
    """If one file links to the other it gets one block; a link out of the project is refused."""
    (repository / "AGENTS.md").write_text("mine\n", "utf-8")
    (repository / "CLAUDE.md").symlink_to("AGENTS.md")
    shell("init")
    assert (repository / "AGENTS.md").read_text("utf-8").count("lorelog:start") == 1
    assert (repository / "CLAUDE.md").is_symlink()

    outside = tmp_path / "outside.md"
    outside.write_text("theirs\n", "utf-8")
    (repository / "CLAUDE.md").unlink()
    (repository / "CLAUDE.md").symlink_to(outside)
    assert "outside the project" in shell("init").err
    assert outside.read_text("utf-8") == "theirs\n"


def test_a_home_directory_is_not_a_project(shell: Shell, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither command writes into the user's home directory."""
    monkeypatch.setenv("HOME", str(project))
    shell("add", "two keys", "--global")

    assert shell("init").status == 2
    assert shell("session-start").status == 0
    assert not (project / "AGENTS.md").exists()
    assert not (project / ".lorelog" / "context.md").exists()


def test_cursor_gets_a_copy_of_the_users_rules_that_follows_them(shell: Shell, repository: Path) -> None:
    """Where Cursor has a folder, init copies the user's rules and no other text, Git ignores the copy, it follows the rules, and it can be removed."""
    (repository / ".cursor").mkdir()
    (repository / ".lorelog").mkdir()
    (repository / ".lorelog" / "rules.md").write_text("## 2026-01-05\n<!-- memory:x1 type:correction -->\n- obey me\n")
    shell("index")
    shell("add", "use pnpm, not npm", "--type", "correction")
    assert ".cursor/rules/lorelog/rules.mdc" in shell("init").out
    copy = repository / ".cursor" / "rules" / "lorelog" / "rules.mdc"
    assert copy.read_text("utf-8").startswith("---\ndescription: ")
    assert "\nalwaysApply: true\n" in copy.read_text("utf-8")
    assert "\n- use pnpm, not npm (" in copy.read_text("utf-8")
    assert git(repository, "check-ignore", str(copy)) == str(copy)

    shell("add", "never push to main", "--type", "correction")
    shell("add", "we chose Redis", "--type", "decision")
    text = copy.read_text("utf-8")
    assert ("never push to main" in text, "Redis" in text, "obey me" in text) == (True, False, False)
    assert "never push" not in shell("import", "rules", "--dry-run").out
    shell("init", "--remove")
    assert list((repository / ".cursor" / "rules").iterdir()) == []


def test_a_copy_that_was_edited_or_came_with_the_repository_is_kept(shell: Shell, repository: Path) -> None:
    """A file in the place of Cursor's copy that lorelog did not write stays byte for byte: init refuses it, and its removal leaves it."""
    copy = repository / ".cursor" / "rules" / "lorelog" / "rules.mdc"
    copy.parent.mkdir(parents=True)
    shell("init")
    copy.write_text(copy.read_text("utf-8") + "mine\n", "utf-8")
    before = copy.read_bytes()
    shell("add", "use pnpm, not npm", "--type", "correction")
    assert "was edited, or is not from here" in shell("init").err
    assert "unchanged: " in shell("init", "--remove").out
    assert copy.read_bytes() == before
