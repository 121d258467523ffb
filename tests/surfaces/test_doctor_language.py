"""Doctor's checks of language models: key or program, without contacting a server."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.conftest import Shell, write

pytestmark = pytest.mark.usefixtures("_nobody_is_asked", "project")


@pytest.fixture
def _nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the doctor asked the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def checks(shell: Shell) -> list[Any]:
    return [check for check in shell("doctor", "--json").json["checks"] if check["name"] == "language model"]


def test_without_a_language_model_there_is_no_check(shell: Shell) -> None:
    """Without a configured language model there is no check."""
    assert checks(shell) == []


@pytest.mark.parametrize(
    ("provider", "variable"),
    [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY"), ("gemini", "GEMINI_API_KEY or GOOGLE_API_KEY")],
)
@pytest.mark.parametrize("section", ["LLM", "SUMMARIZE"])
def test_a_missing_key_is_told(
    section: str, provider: str, variable: str, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing key fails with the name of the variable; once set, the check passes and does not show the key."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(f"LORELOG_{section}_PROVIDER", provider)
    (told,) = checks(shell)
    assert (told["ok"], told["hint"]) == (False, f"set {variable}")
    assert f"{provider} ({section.lower()}.provider): no API key" in told["message"]
    assert shell("doctor").status == 1

    monkeypatch.setenv(variable.partition(" or ")[0], "Sesame-0123456789")
    (told,) = checks(shell)
    assert told["ok"]
    assert "Sesame" not in str(told)


@pytest.mark.parametrize("command", ["no-such-program-here -x", "/no/such/program", "", "'open"])
def test_a_missing_program_is_told(command: str, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing program is reported before a run fails."""
    monkeypatch.setenv("LORELOG_LLM_PROVIDER", "command")
    monkeypatch.setenv("LORELOG_LLM_COMMAND", command)

    (told,) = checks(shell)
    assert not told["ok"]
    assert told["hint"]


def test_a_program_is_looked_for_and_not_started(shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An existing program passes."""
    program = write(tmp_path / "bin" / "claude", f"#!{sys.executable}\nopen({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.setenv("LORELOG_LLM_PROVIDER", "host")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (told,) = checks(shell)
    assert (told["ok"], told["hint"]) == (False, "install it, or add its folder to the PATH")

    program.chmod(0o755)
    (told,) = checks(shell)
    assert (told["ok"], told["message"]) == (True, "host/claude/haiku (llm.provider)")
    monkeypatch.setenv("LORELOG_LLM_PROVIDER", "command")
    monkeypatch.setenv("LORELOG_LLM_COMMAND", f"{program} --print")
    (told,) = checks(shell)
    assert told["ok"]
    assert not (tmp_path / "ran").exists()
