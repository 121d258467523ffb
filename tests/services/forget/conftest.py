"""A home with two memories, one of which is to be forgotten, and ways to forget it in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lorelog.operations.dispatch import ClientIdentity, Dispatcher
from lorelog.services.forget import forgetter as forgetter_module
from lorelog.services.forget.entries import ForgetQuery
from lorelog.services.forget.forget_plan import ForgetPlan, pending_plans, read_plan
from lorelog.services.forget.forgetter import ForgetReply, Forgetter
from lorelog.wiring import ResourcePool, open_engine, resolve_location

CANARY = "quaggafoal7731"
SECRET = f"The launch sequence of the balloon begins with {CANARY} at dawn."
OTHER = "The ferry to the island leaves at noon from pier four."


class Interrupted(BaseException):
    """Ends a forget as a kill does: no handler of an error runs."""


@dataclass
class ForgetScene:
    """A project and its home; `secret` and `other` are the ids of its two memories."""

    project: Path
    home: Path
    dispatcher: Dispatcher
    monkeypatch: pytest.MonkeyPatch
    engines: ExitStack
    secret: str = ""
    other: str = ""

    @property
    def tenant(self) -> Path:
        return self.home / "data" / "default"

    @property
    def journal(self) -> Path:
        return max((self.project / ".lorelog" / "memory").glob("*.md"))

    def call(self, op: str, **arguments: Any) -> dict[str, Any]:
        return self.dispatcher.call(op, arguments, ClientIdentity(str(self.project), dict(os.environ), str(self.home)))

    def add(self, text: str, **more: Any) -> str:
        return str(self.call("memory.add", text=text, **more)["memory"])

    def forgetter(self) -> Forgetter:
        """Return a forgetter of its own, as another process has one."""
        return self.engines.enter_context(open_engine(resolve_location(directory=str(self.project)))).forgetter()

    def forget(self, **query: Any) -> ForgetReply:
        return self.forgetter().forget(ForgetQuery(**query))

    def interrupt(self, step: str, **query: Any) -> None:
        """Forget, and stop right after a step."""

        def stop(reached: str) -> None:
            if reached == step:
                raise Interrupted

        with self.monkeypatch.context() as patch:
            patch.setattr(forgetter_module, "reached", stop)
            with pytest.raises(Interrupted):
                self.forget(**query)

    def plan(self, **query: Any) -> ForgetPlan:
        """Return the plan of a forget that was stopped before its first change."""
        self.interrupt("plan", **query)
        return read_plan(pending_plans(self.tenant)[-1])

    def holders(self) -> list[str]:
        files = [path for place in (self.home, self.project) for path in place.rglob("*") if path.is_file()]
        return [str(path) for path in files if CANARY.encode() in path.read_bytes().lower()]


@pytest.fixture
def scene(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ForgetScene]:
    """The home with both memories."""
    project = Path(os.path.realpath(tmp_path)) / "balloon"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "fake")
    with closing(ResourcePool()) as pool, ExitStack() as engines:
        made = ForgetScene(project, home, Dispatcher(pool.engine), monkeypatch, engines)
        made.other = made.add(OTHER)
        made.secret = made.add(SECRET)
        yield made
