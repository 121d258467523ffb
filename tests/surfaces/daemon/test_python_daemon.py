"""`Lorelog(daemon=…)`: the same answers through the daemon as in this process, and none lost when it goes away."""

from __future__ import annotations

import json
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.operations.sample import JUDGE, requests, tell, write_notes
from tests.surfaces.conftest import write
from tests.surfaces.daemon.conftest import Warm

from lorelog import Lorelog, NotFound, to_dict
from lorelog.core.errors import DaemonNotRunning, LorelogError, ReplyLost
from lorelog.core.serializable import to_json
from lorelog.light import daemon_connection as connection
from lorelog.light.daemon_client import _result
from lorelog.light.daemon_connection import PROTOCOL, find_address
from lorelog.operations.catalogue import all_operations, find_operation
from lorelog.operations.dispatch import ClientIdentity, Dispatcher
from lorelog.surfaces.python.calls import read_value
from lorelog.wiring import ResourcePool

FAKE = {"embedding.provider": "fake"}
LACKING = {"memory.delete", "memory.forget_verify", "memory.restore"}
"""Operations whose sample request is refused: it names a record, and nothing was forgotten."""


@pytest.mark.slow
def test_every_value_survives_the_wire(project: Path, home: Path) -> None:
    """The value of each operation is the same after JSON, and `to_dict` of it is the operation's JSON."""
    write_notes(project)
    client = ClientIdentity(
        str(project), {"LORELOG_HOME": str(home), "LORELOG_EMBEDDING_PROVIDER": "fake", "LORELOG_LLM_COMMAND": JUDGE}
    )
    resources = ResourcePool()
    dispatcher = Dispatcher(resources.engine)
    dispatcher.call("memory.index", {"paths": ["notes"]}, client)
    told = tell(lambda op, arguments: dispatcher.call(op, arguments, client))
    identity = dispatcher.call("memory.search", {"query": "otter"}, client)["hits"][0]["id"]
    compared = set()
    for name, arguments in requests(identity, told).items():
        operation = find_operation(name)
        try:
            value, reply = dispatcher._call(operation, arguments, client, None)
        except LorelogError:
            assert name in LACKING
            continue
        received = read_value(operation, {"value": json.loads(msgspec.json.encode(to_json(value)))})
        if isinstance(value, list | tuple):
            assert list(received) == list(value), name
        else:
            assert received == value, name
            assert name == "memory.search" or to_dict(value) == reply, name  # `explain` is an option of the JSON
        compared.add(name)

    resources.close()
    assert compared | LACKING == set(all_operations())


def ask_everything(memory: Any, project: Path) -> dict[str, Any]:
    """Return what methods of every kind answer about the same notes."""
    hit = memory.search("otter")[0]
    with pytest.raises(NotFound) as refused:
        memory.expand("nothing-like-it")
    return {
        "search": memory.search("otter dam", k=5, types=[], since="2000-01-01", source=project / "notes"),
        "budget": memory.search("otter", token_budget=200),
        "expand": memory.expand(hit),
        "list": memory.list(),
        "documents": memory.list(documents=True),
        "get": memory.get(hit),
        "roots": list(memory.roots()),
        "health": memory.health(),
        "tasks": memory.task.search("otters"),
        "context": memory.context.find_relevant_context("count the otters").results,
        "json": memory.call("memory.list", {"limit": 1}),
        "refused": (refused.value.message, refused.value.hint),
    }


@pytest.mark.slow
def test_the_daemon_answers_as_this_process_does(warm: Warm, caplog: pytest.LogCaptureFixture) -> None:
    """Values, errors, progress and writes are the same; without the daemon, and once it is killed, work goes on here."""
    project = warm.project
    write_notes(project)
    stages: list[str] = []
    with Lorelog(project, settings=FAKE, daemon="auto") as memory:
        memory.index("notes")
        memory.task.start("count the otters")
        alone = ask_everything(memory, project)
        assert warm.pids() == []  # "auto" starts none
        warm.start()
        before = warm.status()["calls"]
        together = ask_everything(memory, project)
        assert together == alone
        assert warm.status()["calls"] - before > 12
        assert memory.add("the heron waits", tags="bird").searchable
        write(project / "notes" / "b.md", "a grebe\n")
        assert memory.index(force=True, progress=lambda stage, *_: stages.append(stage)).files >= 2
        assert stages
        with pytest.raises(ZeroDivisionError):
            memory.index(force=True, progress=lambda *_: 1 / 0)  # type: ignore[arg-type]
        warm.kill()
        assert [hit.tags for hit in memory.search("heron", tags="bird")] == [("bird",)]
        assert memory.search("grebe", k=1)[0].content == "a grebe"
        with Lorelog(project, settings=FAKE, daemon="required") as required:
            assert len(required.list(tags="bird")) == 1
            assert len(warm.pids()) == 1
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.slow
def test_settings_and_places_reach_the_daemon(warm: Warm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings, home, project and relative paths mean the same in the daemon, wherever the program stands."""
    warm.start()
    (tmp_path / "elsewhere").mkdir()
    write(tmp_path / "elsewhere" / "notes" / "a.md", "an otter\n")
    monkeypatch.chdir(tmp_path / "elsewhere")
    with Lorelog(warm.project, settings={**FAKE, "scope.tenant": "other", "search.k": 1}) as memory:
        assert memory.index("notes").files == 1
        memory.add("an otter swims")
        assert len(memory.search("otter", all_projects=True)) == 1
        assert memory.add("here").source.startswith(str(warm.project))
        assert warm.status()["calls"] >= 3
    with Lorelog(warm.project, settings=FAKE) as memory:
        assert not memory.list(all_projects=True)
    with Lorelog(warm.project, home=tmp_path / "home", settings=FAKE) as memory:
        assert not memory.list(all_projects=True)


def test_many_threads_leave_the_umask_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls from several threads do not change the process's umask, even where it can only be read by setting it."""
    set_umask = os.umask

    def set_slowly(mask: int) -> int:
        before = set_umask(mask)
        time.sleep(0.001)
        return before

    def refuse(*_: Any, **__: Any) -> Any:
        raise FileNotFoundError

    before = os.umask(0o027)
    try:
        assert connection._umask() == 0o027
        monkeypatch.setattr("builtins.open", refuse)
        monkeypatch.setattr(os, "umask", set_slowly)
        with ThreadPoolExecutor(8) as threads:
            read = set(threads.map(lambda _: connection._umask(), range(50)))
        assert (read, set_umask(0o027)) == ({0o027}, 0o027)
    finally:
        set_umask(before)


def test_a_reply_of_another_version_is_an_error_of_ours() -> None:
    """A daemon whose reply has no value, or one of another form, raises an error that says so, not a KeyError."""
    for reply in ({}, {"value": {"hits": "none"}}):
        with pytest.raises(ReplyLost, match="another version"):
            read_value(find_operation("memory.search"), reply)


def test_a_daemon_from_before_an_upgrade_is_replaced(home: Path) -> None:
    """A refusal by a daemon with an older protocol counts as no daemon, so that another one is started."""
    refusal = {"ok": False, "error": {"code": "daemon", "message": "protocol"}, "daemon": {"protocol": PROTOCOL - 1}}

    with pytest.raises(DaemonNotRunning, match="older"):
        _result(refusal, find_address(str(home), {}), "memory.search")
