"""The settings of [llm] and [prompts] take effect, the cost can be shown, and no key is written or printed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.models.embedding_server import Answer, EmbeddingServer, Request
from tests.surfaces.conftest import Shell, write

from lorelog import Lorelog
from lorelog.config.schema import SETTINGS_BY_KEY
from lorelog.core.errors import ModelError, ModelFault
from lorelog.core.ports import Completion
from lorelog.services.llm.metered import MeteredLlm
from lorelog.wiring import open_engine, resolve_location

KEY = "Sesame+open/0123456789abcdef"


def writing(request: Request) -> Answer:
    """Answer as OpenAI does, for 100 tokens and 20."""
    message = {"role": "assistant", "content": f"- {request.body['model']}"}
    return Answer(body={"choices": [{"message": message}], "usage": {"prompt_tokens": 100, "completion_tokens": 20}})


def messaging(request: Request) -> Answer:
    """Answer as Anthropic does."""
    content = [{"type": "text", "text": f"- {request.body['model']}"}]
    return Answer(body={"content": content, "stop_reason": "end_turn", "usage": {"input_tokens": 1}})


def refusing(request: Request) -> Answer:
    """Refuse, and repeat the key."""
    return Answer(401, {"error": {"message": f"bad key {KEY} of {request.headers.get('authorization')}"}})


@pytest.fixture
def servers() -> Iterator[Any]:
    started: list[EmbeddingServer] = []

    def serve(*script: Any) -> EmbeddingServer:
        started.append(EmbeddingServer(*script))
        return started[-1]

    yield serve
    for server in started:
        server.stop()


Way = Any


@pytest.fixture
def choose(project: Path, monkeypatch: pytest.MonkeyPatch) -> Way:
    """Set values in the environment (tests/config has the other ways), and return the gate to the language model."""

    def gate(**chosen: object) -> MeteredLlm | None:
        for name, value in chosen.items():
            monkeypatch.setenv(SETTINGS_BY_KEY[name.replace("__", ".")].variable, str(value))
        with open_engine(resolve_location()) as engine:
            return engine.deps.language("")

    return gate


def asked(gate: MeteredLlm | None, max_tokens: int = 50) -> Completion:
    assert gate is not None
    return gate.ask("compact", "Write.", "A text.", max_tokens)


def test_provider_model_address_and_key_reach_the_server(
    choose: Way, servers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Provider, model, address and key are those of the settings."""
    monkeypatch.setenv("MINE", KEY)
    openai, anthropic = servers(writing), servers(messaging)
    here = {"llm__model": "otter", "llm__base_url": openai.url, "llm__api_key": "env:MINE"}

    assert asked(choose(llm__provider="openai", **here)) == Completion("- otter", 100, 20)
    assert asked(choose(llm__provider="anthropic", **{**here, "llm__base_url": anthropic.url})).text == "- otter"

    assert openai.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert anthropic.requests[0].headers["x-api-key"] == KEY


@pytest.mark.parametrize("configured", ["none", "openai", "ollama"])
def test_a_provider_named_for_one_run_is_asked_at_the_configured_address(
    project: Path, home: Path, shell: Shell, servers: Any, monkeypatch: pytest.MonkeyPatch, configured: str
) -> None:
    """`compact --llm openai` sends memories to llm.base_url with its key, whatever llm.provider is."""
    server = servers(writing)
    monkeypatch.setenv("MINE", KEY)
    write(
        home / "config.toml",
        f'[llm]\nprovider = "{configured}"\nmodel = "otter"\nbase_url = "{server.url}"\napi_key = "env:MINE"\n',
    )
    write(project / "notes" / "2026-03-01.md", "# Cache\n\nThe Redis TTL is 60 seconds.\n")
    assert shell("index", "notes").status == 0

    shell("compact", "--llm", "openai")

    assert len(server.requests) == 1
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert (server.requests[0].body["model"] == "otter") == (configured != "ollama")


def test_a_program_writes(choose: Way, tmp_path: Path) -> None:
    """llm.command is run with its arguments and given the question."""
    program = write(tmp_path / "bin" / "writer", "#!/bin/sh\necho \"$1: $(cat | tr '\\n' ' ')\"\n")
    program.chmod(0o755)

    assert asked(choose(llm__provider="command", llm__command=f"{program} said")).text == "said: Write.  A text."


@pytest.mark.usefixtures("project")
def test_files_say_how_to_write(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """prompts.compact is used by compact, relative to the home; prompts.summarize is used for notes."""
    for value, located in (("mine.md", str(home / "mine.md")), (f"{tmp_path}/x.md", f"{tmp_path}/x.md"), ("", "")):
        monkeypatch.setenv("LORELOG_PROMPTS_COMPACT", value)
        with open_engine(resolve_location()) as engine:
            assert engine.defaults.compact_prompt == located


@pytest.mark.usefixtures("project")
def test_notes_are_written_by_the_model_of_llm(home: Path, servers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """summarize.provider = llm uses the model of [llm] with prompts.summarize; otherwise no model is called."""
    server = servers(writing)
    write(home / "config.toml", f'[llm]\nprovider = "openai"\nmodel = "otter"\nbase_url = "{server.url}"\n')
    write(home / "notes.md", "Reime, {agent}!")
    monkeypatch.setenv("LORELOG_PROMPTS_SUMMARIZE", "notes.md")
    with open_engine(resolve_location()) as engine:
        assert engine.capture_context().summarizer() is None

    monkeypatch.setenv("LORELOG_SUMMARIZE_PROVIDER", "llm")
    with open_engine(resolve_location()) as engine:
        summarizer = engine.capture_context().summarizer()
        assert summarizer is not None
        assert summarizer.summarize("a turn", "claude", "s") == "- otter"
    assert server.requests[0].body["messages"][0]["content"] == "Reime, Claude Code!"


def test_the_bill_can_be_read(shell: Shell, project: Path, servers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`lorelog status cost` shows calls, tokens and failures by day, purpose and project, and what is left today."""
    server = servers(writing)
    assert "No model calls since" in shell("status", "cost").out
    monkeypatch.setenv("LORELOG_LLM_PROVIDER", "openai")
    monkeypatch.setenv("LORELOG_LLM_BASE_URL", server.url)
    monkeypatch.setenv("LORELOG_LLM_DAILY_TOKENS", "1000")
    with open_engine(resolve_location()) as engine:
        gate = engine.deps.language("")
        asked(gate)
        asked(gate)
        with pytest.raises(ModelFault):
            gate.ask("other", "s", "t", 50, is_usable=lambda text: False)  # type: ignore[union-attr]

    bill = shell("status", "cost", "--json").json
    assert [(line["purpose"], line["calls"], line["failures"]) for line in bill["lines"]] == [
        ("compact", 2, 0),
        ("other", 1, 1),
    ]
    assert {item["project"] for item in bill["lines"]} == {str(project)}
    assert (bill["total"]["tokens_in"], bill["total"]["tokens_out"]) == (300, 60)
    assert bill["today"][1] == {"setting": "llm.daily_tokens", "tokens": 1000, "spent": 360, "left": 640}
    assert [entry["model"] for entry in shell("status", "cost", "--by", "model", "--json").json["lines"]] == [
        "openai/gpt-4.1-mini"
    ]
    with Lorelog(project=project) as memory:
        assert memory.cost(by=["purpose"]).total.calls == 3
    told = shell("status", "cost")
    header, first, second, total, notes, others = told.out.splitlines()
    assert header.split() == ["day", "purpose", "project", "calls", "failed", "tokens", "in", "tokens", "out"]
    assert first.split()[1::2] == ["compact", "2", "200"]
    assert (second.split()[1], total.split()) == ("other", ["total", "3", "1", "300", "60"])
    assert "summarize.daily_tokens" in notes
    assert others == "today  360 of 1,000 tokens (llm.daily_tokens), 640 left"
    assert shell("status", "cost", "--since", "never").status == 2
    assert shell("status", "cost", "--by", "weather").status == 2


def test_the_key_is_nowhere(
    shell: Shell, home: Path, servers: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Writing, being refused and looking at settings and bill leave the key out of files, output, errors and logs."""
    caplog.set_level(0)
    monkeypatch.setenv("TEAM_KEY", KEY)
    monkeypatch.setenv("LORELOG_LLM_API_KEY", "env:TEAM_KEY")
    printed = ""
    for provider, good in (("openai", writing), ("anthropic", messaging), ("gemini", writing), ("ollama", writing)):
        monkeypatch.setenv("LORELOG_LLM_PROVIDER", provider)
        for server in (servers(good), servers(refusing), servers(lambda request: Answer(raw=KEY.encode()))):
            monkeypatch.setenv("LORELOG_LLM_BASE_URL", server.url)
            with open_engine(resolve_location()) as engine:
                gate = engine.deps.language("")
                try:
                    printed += repr(asked(gate))
                except ModelError as error:
                    printed += f"{error!r} {error.hint} {vars(error)}"
                printed += repr(vars(gate)) + repr(engine.defaults)
            assert KEY in str(server.requests[0].headers)
    for words in (["config", "list"], ["config", "list", "--json"], ["status", "cost", "--json"], ["doctor"]):
        told = shell(*words)
        printed += told.out + told.err
    told = shell("config", "set", "llm.api_key", KEY)
    assert told.status != 0
    printed += told.out + told.err + caplog.text

    files = [path for path in home.parent.rglob("*") if path.is_file()]
    assert (home / "data" / "default" / "receipts.jsonl") in files
    found = printed.encode() + b"".join(str(path).encode() + path.read_bytes() for path in files)
    assert b"- gpt-4.1-mini" in found
    for shape in (KEY, KEY.encode().hex(), KEY[4:20]):
        assert shape.encode() not in found
