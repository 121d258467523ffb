"""`lorelog check` in the shell: few lines, the formats of CI, and a status that only a person's guard makes 1."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.services.changes.changed import Changed

from lorelog.core.caller import AGENT_MARKERS
from lorelog.surfaces.cli.main import main


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Changed:
    """A repository whose staged change breaks a rule."""
    for variable in AGENT_MARKERS:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("LORELOG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "none")
    monkeypatch.setenv("LORELOG_DAEMON_WARM", "off")
    repository = Changed(tmp_path).begin()
    monkeypatch.chdir(repository.root)
    repository.add("use pnpm, not npm: 100% of us\x1b[31m", "correction")
    repository.edit(".github/workflows/ci.yml", "run: pnpm install", "run: npm ci")
    repository.git("add", ".github")
    return repository


def test_text_says_where_what_and_why(repository: Changed, capsys: pytest.CaptureFixture[str]) -> None:
    """A finding is two lines with place, reason, source and day; without one a line says so; the status is 0."""
    assert main(["check"]) == 0
    place, said, size = capsys.readouterr().out.splitlines()
    assert place == ".github/workflows/ci.yml:5  adds `npm ci`"
    assert said.split()[:2] == ["rule", "correction"]
    assert "use pnpm, not npm: 100% of us" in said
    assert "\x1b" not in said
    assert size == "1 finding in 1 file, 2 lines"
    assert main(["check", "--diff", "HEAD..HEAD"]) == 0
    assert capsys.readouterr().out == "Nothing known speaks against it: 0 files, 0 lines.\n"


def test_formats_of_ci(repository: Changed, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON, SARIF and GitHub's annotations have the same finding; a text cannot end an annotation."""
    main(["check", "--format", "json"])
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["path"], finding["line"]) == (".github/workflows/ci.yml", 5)
    main(["check", "--format", "sarif"])
    log = json.loads(capsys.readouterr().out)
    (result,) = log["runs"][0]["results"]
    assert (log["version"], result["ruleId"], result["level"]) == ("2.1.0", "rule", "note")
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 5}
    main(["check", "--format", "github"])
    shown = capsys.readouterr().out
    assert shown.startswith("::notice file=.github/workflows/ci.yml,line=5,title=lorelog rule::adds `npm ci`. use pnpm")
    assert "100%25 of us" in shown
    assert shown.count("\n") == 1


def test_only_a_blocking_guard_fails(repository: Changed, capsys: pytest.CaptureFixture[str]) -> None:
    """The status is 1 for a guard that a person set to block, 2 for what cannot be checked, and 0 for everything else."""
    repository.guard("warn", command="npm *")
    assert main(["check"]) == 0
    repository.guard(paths=[".github/**"])
    assert main(["check"]) == 1
    assert "guard, blocks" in capsys.readouterr().out
    for words in (["--diff", "nowhere..HEAD"], ["missing.patch"], ["--staged", "--diff", "HEAD..HEAD"]):
        assert main(["check", *words]) == 2
        assert "hint" in capsys.readouterr().err


def test_a_fresh_clone_is_checked_with_what_came_with_it(
    repository: Changed, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a clone with `.lorelog` and an empty home, memories of the repository are quoted, and none of its files is a guard."""
    repository.guard(paths=[".github/**"])
    clone = repository.place / "clone"
    shutil.copytree(repository.root, clone)
    shutil.copy(repository.place / "home" / "data" / "default" / "guards.jsonl", clone / ".lorelog" / "guards.jsonl")
    monkeypatch.chdir(clone)
    monkeypatch.setenv("LORELOG_HOME", str(repository.place / "empty"))
    assert main(["check"]) == 0
    shown = capsys.readouterr().out
    assert 'came with the repository, quoted: "use pnpm, not npm' in shown
    assert "guard" not in shown


def test_http_reads_no_patch(repository: Changed) -> None:
    """A caller that may not read files of this machine names commits, and no patch."""
    with pytest.raises(Exception, match="only the shell and Python"):
        repository.over_http("", op="code.check", patch="x.patch")
