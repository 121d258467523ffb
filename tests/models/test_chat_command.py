"""Any program as a language model, tested with small programs that record how they were run."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from lorelog.core.errors import ConfigError, ModelFault, ModelUnavailable
from lorelog.core.options import LanguageOptions
from lorelog.core.ports import Completion
from lorelog.models.chat import open_language_model
from lorelog.models.chat.programs import AgentCliLanguageModel

_PROGRAM = """#!{python}
import json, os, sys, time
seen = dict(argv=sys.argv[1:], env=dict(os.environ), stdin=sys.stdin.read(), inside=os.listdir("."))
with open({record!r}, "w") as file:
    json.dump(seen, file)
{then}
"""


class ProgramFolder:
    """A folder for a test program."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.record = place / "seen.json"
        self.environment = {"PATH": f"{place}:/usr/bin:/bin", "HOME": str(place), "CLAUDE_PLUGIN_ROOT": "/x"}

    def make(self, then: str = "print('- done')", name: str = "writer") -> Path:
        path = self.place / name
        path.write_text(_PROGRAM.format(python=sys.executable, record=str(self.record), then=then), "utf-8")
        path.chmod(0o755)
        return path

    def ask(self, command: str, system: str = "Write.", text: str = "A turn.", **more: Any) -> Completion:
        options = LanguageOptions("command", command=command, **{"timeout_s": 20.0, **more})
        model = open_language_model(options, "", self.environment)
        assert model is not None
        return model.complete(system, text, 600)

    @property
    def seen(self) -> Any:
        return json.loads(self.record.read_text("utf-8"))


@pytest.fixture
def bench(tmp_path: Path) -> ProgramFolder:
    return ProgramFolder(tmp_path)


def test_a_program_is_given_the_question_and_says_the_answer(bench: ProgramFolder) -> None:
    """Both texts go to stdin and stdout is the reply; no tokens are reported."""
    path = bench.make("print('- ein Otter\\n')")

    assert bench.ask(str(path), "Write.", "A turn \udcff über\0 Otter") == Completion("- ein Otter")
    assert bench.seen["stdin"] == "Write.\n\nA turn ? über\0 Otter\n"


def test_no_shell_is_involved(bench: ProgramFolder, tmp_path: Path) -> None:
    """The command is split like a shell's, without any other shell feature."""
    path = bench.make()

    bench.ask(f"{path} --model 'a b' $HOME `id` *.md; touch {tmp_path}/made | cat")

    assert bench.seen["argv"] == shlex.split(f"--model 'a b' $HOME `id` *.md; touch {tmp_path}/made | cat")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("command", ["writer", "~/writer"])
def test_a_program_is_found_by_name_or_from_home(bench: ProgramFolder, command: str) -> None:
    """The program may be given by name if it is on the PATH, or relative to the home."""
    bench.make()

    assert bench.ask(command).text == "- done"


@pytest.mark.parametrize("command", ["nobody-has-this", "./writer", "bin/writer"])
def test_a_program_that_is_not_there_is_told(
    bench: ProgramFolder, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path is rejected: it would depend on the current directory."""
    monkeypatch.chdir(bench.make().parent)

    with pytest.raises(ModelUnavailable, match=r"the program .* was not found") as raised:
        bench.ask(command)
    assert "absolute path" in raised.value.hint
    with pytest.raises(ModelUnavailable, match="cannot be started"):
        bench.ask(f"{bench.place}/gone")


@pytest.mark.parametrize(
    ("then", "kind"), [("sys.exit(3)", ModelUnavailable), ("print('half an answer'); sys.exit(3)", ModelFault)]
)
def test_a_program_that_fails_wrote_nothing(bench: ProgramFolder, then: str, kind: type[Exception]) -> None:
    """The exit status decides; a program that has printed something may have cost something."""
    bench.make(then)

    with pytest.raises(kind, match="writer failed \\(status 3\\)") as raised:
        bench.ask("writer")
    assert type(raised.value) is kind


def test_it_is_known_by_its_name(bench: ProgramFolder) -> None:
    """Receipts name the program, or the model that the settings name."""
    named = [
        open_language_model(LanguageOptions("command", command="/opt/x/writer -m a", model=model), "", {})
        for model in ("", "my-model")
    ]

    assert [(model.provider, model.model) for model in named if model] == [
        ("command", "writer"),
        ("command", "my-model"),
    ]


@pytest.mark.parametrize("command", ["", "   ", "writer 'unclosed"])
def test_a_command_that_is_none_is_told(command: str) -> None:
    """A setting that names no program is a configuration error."""
    with pytest.raises(ConfigError, match=r"llm\.command"):
        open_language_model(LanguageOptions("command", command=command), "", {})


def test_work_about_no_session_is_done_by_an_agent_that_is_there(bench: ProgramFolder) -> None:
    """`host` asks Claude Code where it is installed, else Codex; `codex/NAME` asks Codex for that model."""

    def asked(model: str = "") -> str:
        found = open_language_model(LanguageOptions("host", model=model), "", bench.environment)
        assert isinstance(found, AgentCliLanguageModel)
        return found.model

    bench.environment["PATH"] = str(bench.place)
    assert asked() == "claude/haiku"
    bench.make(name="codex")
    assert asked() == "codex/default"
    bench.make(name="claude")
    assert asked() == "claude/haiku"
    assert (asked("codex/gpt-x"), asked("claude/opus"), asked("opus")) == ("codex/gpt-x", "claude/opus", "claude/opus")
