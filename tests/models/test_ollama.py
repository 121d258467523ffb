"""Ollama: a running server, and a managed container with a fake Docker that records its calls."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.models.fake_docker import FakeDocker
from tests.models.vendors import VENDORS, Rig, unpacked

from lorelog.core.errors import ModelUnavailable
from lorelog.core.options import EmbedOptions, OllamaOptions
from lorelog.core.ports import Embedder
from lorelog.models import ollama_container as container
from lorelog.models.embed import open_embedder, resolve_embed_options
from lorelog.models.ollama import server_url
from lorelog.models.ollama_container import stop_when_idle

SOURCE = Path(__file__).parents[2] / "src"
OLLAMA = VENDORS["ollama"]


@pytest.mark.parametrize(
    ("named", "reached"),
    [
        ("", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        (":8080", "http://127.0.0.1:8080"),
        ("box", "http://box:11434"),
        ("box:99", "http://box:99"),
        ("http://box", "http://box:80"),
        ("https://ollama.example.com/", "https://ollama.example.com:443"),
        ("https://example.com/ollama", "https://example.com:443/ollama"),
        ("[::]:11434", "http://[::1]:11434"),
        (' "box" ', "http://box:11434"),
    ],
)
def test_addresses_are_read_as_ollama_reads_them(named: str, reached: str) -> None:
    """OLLAMA_HOST may lack scheme and port, and 0.0.0.0 is reached at loopback."""
    assert server_url(named) == reached


def test_the_running_server_is_named_by_the_setting_or_the_variable() -> None:
    """base_url overrides OLLAMA_HOST, which overrides the default address."""

    def host(base_url: str, environment: dict[str, str]) -> str:
        options = resolve_embed_options(EmbedOptions(provider="ollama", base_url=base_url), environment)
        return open_embedder(options)._endpoint.host  # type: ignore[attr-defined, no-any-return]

    assert host("", {}) == "127.0.0.1:11434"
    assert host("", {"OLLAMA_HOST": "box:1"}) == "box:1"
    assert host("http://other:2", {"OLLAMA_HOST": "box:1"}) == "other:2"


def test_a_server_without_the_model_says_what_to_run(rig: Rig) -> None:
    """A missing model is reported with the command that pulls it; a server that is not ours is not changed."""
    server = rig.serve(OLLAMA.saying(404, 'model "x" not found, try pulling it first'))
    with pytest.raises(ModelUnavailable, match="does not have the model x") as caught:
        rig.open(OLLAMA, server, model="x").embed_query("q")
    assert caught.value.hint == "run: ollama pull x"


# -- the container --------------------------------------------------------------------------------------------------------


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as place:
        found: int = place.getsockname()[1]
    return found


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDocker]:
    made = FakeDocker.at(tmp_path / "docker")
    monkeypatch.setenv("PATH", f"{made.bin}{os.pathsep}{os.environ['PATH']}")
    yield made
    made.kill()


@pytest.fixture
def options(tmp_path: Path, port: int) -> EmbedOptions:
    managed = OllamaOptions(manage=True, idle_s=0, folder=str(tmp_path / "ollama"))
    return EmbedOptions(provider="ollama", base_url=f"http://127.0.0.1:{port}", ollama=managed)


def changed(options: EmbedOptions, **more: Any) -> EmbedOptions:
    from msgspec.structs import replace

    ollama = {name: more.pop(name) for name in list(more) if hasattr(options.ollama, name)}
    return replace(options, ollama=replace(options.ollama, **ollama), **more)


@pytest.fixture
def opened() -> Iterator[Any]:
    made: list[Embedder] = []

    def open_one(options: EmbedOptions) -> Embedder:
        made.append(open_embedder(options))
        return made[-1]

    yield open_one
    for embedder in made:
        embedder.close()


@pytest.mark.slow
def test_a_container_is_started_as_loop_does(docker: FakeDocker, options: EmbedOptions, port: int, opened: Any) -> None:
    """A stale container is removed, a new one is run with the volume on a loopback port, and the model is pulled."""
    embedder = opened(options)
    assert docker.calls() == []
    reply = embedder.embed_documents(["abc"])
    assert unpacked(reply.vectors[0]) == [len("search_document: abc"), 1.0, 0.0]
    assert reply.tokens == 5
    name = "lorelog-ollama"
    volume, bound = f"{name}:/root/.ollama", f"127.0.0.1:{port}:11434"
    assert docker.calls() == [
        ["inspect", "--format", "{{.State.Running}}", name],
        ["rm", "-f", name],
        ["run", "-d", "--name", name, "-v", volume, "-p", bound, "ollama/ollama:latest"],
        ["exec", name, "ollama", "list"],
        ["exec", name, "ollama", "pull", "nomic-embed-text"],
    ]


@pytest.mark.slow
def test_a_model_that_is_there_is_not_pulled(docker: FakeDocker, options: EmbedOptions, opened: Any) -> None:
    """A model in the volume is not pulled again, and a name with the same beginning does not match."""
    docker.say("models", "nomic-embed-text\n")
    opened(options).embed_query("q")
    assert docker.verbs() == ["inspect", "rm", "run", "exec list"]
    opened(changed(options, model="nomic-embed")).embed_query("q")
    assert docker.calls()[-1] == ["exec", "lorelog-ollama", "ollama", "pull", "nomic-embed"]


def test_a_server_that_runs_is_used_and_docker_is_not_asked(docker: FakeDocker, tmp_path: Path, rig: Rig) -> None:
    """If a server answers, nothing is managed and nothing is written, no matter who started it."""
    server = rig.serve(OLLAMA.well)
    embedder = rig.open(OLLAMA, server, ollama=OllamaOptions(manage=True, folder=str(tmp_path / "ollama")))
    for _ in range(3):
        embedder.embed_query("q")
    assert (server.looks, len(server.requests)) == (1, 3)
    assert docker.calls() == []
    assert not (tmp_path / "ollama").exists()


def test_nothing_is_started_for_an_address_elsewhere(docker: FakeDocker, options: EmbedOptions, opened: Any) -> None:
    """A server on another machine is not replaced by a local one."""
    with pytest.raises(ModelUnavailable, match=r"no Ollama server answers at 10\.0\.0\.7"):
        opened(changed(options, base_url="http://10.0.0.7:11434")).embed_query("q")
    assert docker.calls() == []


@pytest.mark.slow
def test_a_container_that_was_let_go_is_started_again(docker: FakeDocker, options: EmbedOptions, opened: Any) -> None:
    """A container that was stopped is started again by a process that needs it."""
    embedder = opened(options)
    first = embedder.embed_query("q")
    docker.kill()
    assert embedder.embed_query("q") == first
    assert docker.verbs().count("run") == 2


@pytest.mark.slow
def test_a_container_that_runs_and_does_not_answer_yet_is_waited_for(
    docker: FakeDocker, options: EmbedOptions, port: int, opened: Any, tmp_path: Path
) -> None:
    """A running container is neither removed nor run again."""
    server = str(docker.state / "server.py")
    code = f"import runpy, sys, time; time.sleep(1); sys.argv = {['', str(port), str(docker.state)]!r}; runpy.run_path({server!r})"
    late = subprocess.Popen([sys.executable, "-c", code])
    try:
        docker.say("running", str(late.pid))
        docker.say("models", "nomic-embed-text\n")
        opened(options).embed_query("q")
    finally:
        late.kill()
        late.wait()
    assert docker.verbs() == ["inspect", "exec list"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("refuse", "message"),
    [
        ("run", "could not start ollama/ollama:latest: .*run does not work today"),
        ("exec", "could not pull nomic-embed-text: .*exec does not work"),
    ],
)
def test_what_docker_complains_about_is_told(
    docker: FakeDocker, options: EmbedOptions, refuse: str, message: str, opened: Any
) -> None:
    """A failed start is one line with Docker's message and a hint."""
    docker.say("refuse", refuse)
    with pytest.raises(ModelUnavailable, match=message) as caught:
        opened(options).embed_query("q")
    assert caught.value.hint


@pytest.mark.slow
def test_a_container_that_never_answers_is_given_up(
    docker: FakeDocker, options: EmbedOptions, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait for readiness is limited, and the hint says where to look."""
    docker.say("silent", "yes")
    monkeypatch.setattr(container, "READY_TIMEOUT_S", 0.5)
    with pytest.raises(ModelUnavailable, match=r"did not become ready within 0\.5 s") as caught:
        opened(options).embed_query("q")
    assert "docker logs lorelog-ollama" in caught.value.hint
    assert container.READY_TIMEOUT_S == 0.5


def test_without_docker_one_line_says_what_to_do(
    options: EmbedOptions, opened: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without a server and without Docker, the message says so and the hint what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ModelUnavailable, match=r"Docker.*is not installed") as caught:
        opened(options).embed_query("q")
    assert "Docker" in caught.value.hint


@pytest.mark.slow
def test_docker_is_given_no_keys(
    docker: FakeDocker, options: EmbedOptions, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Child processes get no keys from the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-otter")
    monkeypatch.setenv("GITHUB_TOKEN", "ghp-otter")
    opened(options).embed_query("q")
    assert "otter" not in (docker.state / "environment").read_text("utf-8")


STARTER = """
import json, sys
from lorelog.core.options import EmbedOptions, OllamaOptions
from lorelog.models.embed import open_embedder
given = json.loads(sys.argv[1])
embedder = open_embedder(EmbedOptions(provider="ollama", base_url=given["url"], ollama=OllamaOptions(**given["ollama"])))
embedder.embed_query("q")
embedder.close()
"""


def start(options: EmbedOptions) -> subprocess.Popen[bytes]:
    shown = {"manage": True, "idle_s": options.ollama.idle_s, "folder": options.ollama.folder}
    given = json.dumps({"url": options.base_url, "ollama": shown})
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.Popen([sys.executable, "-c", STARTER, given], env=environment, stderr=subprocess.PIPE)


@pytest.mark.slow
def test_one_of_many_processes_starts_it(docker: FakeDocker, options: EmbedOptions) -> None:
    """Six processes that need it at the same moment run one container and pull once."""
    processes = [start(options) for _ in range(6)]
    complaints = [process.communicate()[1] for process in processes]
    assert complaints == [b""] * 6
    assert [process.returncode for process in processes] == [0] * 6
    assert docker.verbs() == ["inspect", "rm", "run", "exec list", "exec pull"]


def until(holds: Any, seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.slow
def test_a_search_does_not_wait_for_a_pull_of_the_same_process(
    docker: FakeDocker, options: EmbedOptions, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one thread starts or pulls, which may take minutes, others fail after the lock timeout."""
    monkeypatch.setattr(container, "_LOCK_TIMEOUT_S", 0.2)
    embedder = opened(options)
    with embedder._endpoint._container._lock, pytest.raises(ModelUnavailable, match="starting, or pulling"):
        embedder.embed_query("q")
    assert docker.calls() == []
    assert embedder.embed_query("q")


@pytest.mark.slow
def test_an_idle_container_is_stopped_though_its_starter_has_ended(docker: FakeDocker, options: EmbedOptions) -> None:
    """An idle container is stopped by a process that outlives the command, and the next use starts it again."""
    for times in (1, 2):
        process = start(changed(options, idle_s=1.0))
        assert process.communicate()[1] == b""
        assert docker.is_running()
        assert until(lambda: not docker.is_running())
        assert until(lambda: not (Path(options.ollama.folder) / "started").exists())
        assert docker.verbs().count("run") == times
    assert docker.calls()[-2:] == [
        ["inspect", "--format", "{{.State.Running}}", "lorelog-ollama"],
        ["rm", "-f", "lorelog-ollama"],
    ]


@pytest.mark.slow
def test_a_container_in_use_is_not_stopped(docker: FakeDocker, options: EmbedOptions, opened: Any) -> None:
    """Every reply counts as use and keeps the container running."""
    embedder = opened(changed(options, idle_s=1.5))
    end = time.monotonic() + 3.0
    while time.monotonic() < end:
        embedder.embed_query("q")
        time.sleep(0.1)
    assert docker.verbs().count("run") == 1
    assert docker.is_running()
    assert until(lambda: not docker.is_running())


@pytest.mark.slow
def test_a_use_while_the_keeper_waits_for_its_turn_counts(docker: FakeDocker, tmp_path: Path) -> None:
    """A use between the check and the lock keeps the container running."""
    (tmp_path / "last-used").touch()
    os.utime(tmp_path / "last-used", (0, 0))
    starting = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(starting, fcntl.LOCK_EX)
    keeper = threading.Thread(target=stop_when_idle, args=(tmp_path, "lorelog-ollama", 1.0))
    keeper.start()
    time.sleep(0.3)
    (tmp_path / "last-used").touch()
    released = time.monotonic()
    os.close(starting)
    keeper.join()
    assert time.monotonic() - released >= 0.9
    assert docker.verbs() == ["inspect"]


def test_there_is_one_keeper(docker: FakeDocker, tmp_path: Path) -> None:
    """A second keeper exits at once without calling Docker."""
    (tmp_path / "last-used").touch()
    os.utime(tmp_path / "last-used", (0, 0))
    first = os.open(tmp_path / "keeper.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(first, fcntl.LOCK_EX)
    stop_when_idle(tmp_path, "lorelog-ollama", 1.0)
    os.close(first)
    assert docker.calls() == []
