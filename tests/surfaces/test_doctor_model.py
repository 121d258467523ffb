"""Doctor's checks of models, without contacting a server: keys, programs, packages, and unfinished changes of model."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.models.embedding_server import Answer, EmbeddingServer, Request
from tests.models.vendors import VENDORS
from tests.surfaces.conftest import Shell, write

from lorelog.models.embed import PROVIDERS


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
