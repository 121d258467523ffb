"""A real repository, and captured sessions that wrote some of its lines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from tests.ingest.transcripts.conversations import claude, tool_result, tool_use, write_lines
from tests.services.freshness.repository import Repository

from lorelog import Lorelog
from lorelog.operations.dispatch import ClientIdentity, Dispatcher

BODY = "def total_price(items):\n    subtotal = sum(item.price for item in items)\n    return None\n"
_REFUSAL = "The user doesn't want to proceed with this tool use. The tool use was rejected. To tell you how to proceed, the user said:\n"


class History(Repository):
    """A repository whose commits and edits have times: minutes of one morning."""

    def __init__(self, place: Path, *init: str) -> None:
        self.place = place
        with self.at(0):
            super().__init__(place, *init)

    @contextmanager
    def at(self, minute: int) -> Iterator[None]:
        moment = self.moment(minute)
        with mock.patch.dict(os.environ, {"GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment}):
            yield

    @staticmethod
    def moment(minute: int) -> str:
        return f"2026-03-05T{8 + minute // 60:02d}:{minute % 60:02d}:00Z"

    def commit_at(self, minute: int, message: str = "change") -> None:
        with self.at(minute):
            self.commit(message)

    def session(
        self, name: str, minute: int, *calls: tuple[str, dict[str, Any]], refused: str = "", kept_in: str = ""
    ) -> None:
        """Capture a session of one turn that made some calls; the user refused the last one with these words.

        With `kept_in` a subagent made the calls, and Claude Code kept them in `progress` lines or in a `file` of their own.
        """
        more = {"sessionId": name, "timestamp": self.moment(minute), "cwd": str(self.root)}
        made = []
        for number, (tool, given) in enumerate(calls):
            call, fails = f"{name}-{number}", bool(refused) and number == len(calls) - 1
            result = f"{_REFUSAL}{refused}" if fails else "ok"
            made.append(claude("assistant", f"{call}-a", [tool_use(call, tool, **given)], **more))
            made.append(claude("user", f"{call}-r", [tool_result(call, result, is_error=fails)], **more))
        if kept_in == "file":
            (beside := self.place / name / "subagents").mkdir(parents=True)
            write_lines(beside / "agent-a7.jsonl", [line | {"isSidechain": True, "agentId": "a7"} for line in made])
            made = []
        elif kept_in:
            about = {"type": "agent_progress", "agentId": "a7"}
            made = [more | {"type": "progress", "parentUuid": "x", "data": about | {"message": line}} for line in made]
        records = [claude("user", f"{name}-turn", "price the cart", **more), *made]
        records.append(claude("assistant", f"{name}-end", [{"type": "text", "text": "The cart has a price."}], **more))
        path = write_lines(self.place / f"{name}.jsonl", records)
        arguments = {"host": "claude", "session": name, "transcript": str(path), "directory": str(self.root)}
        self.call("session.capture", arguments | {"everything": True})

    def writes(self, name: str, minute: int, file: str, text: str) -> None:
        """Capture a session that writes a file, and write it."""
        self.write(file, text)
        self.session(name, minute, ("Write", {"file_path": f"/elsewhere/repo/{file}", "content": text}))

    def call(self, op: str, arguments: dict[str, Any]) -> dict[str, Any]:
        with Lorelog(self.root, home=self._home, daemon="off", settings={"embedding.provider": "none"}) as client:
            return client.call(op, arguments)

    def why(self, place: str) -> dict[str, Any]:
        return self.call("code.why", {"place": place})

    def writer(self, place: str) -> str:
        """Return the session that is named for a line; empty if none is."""
        session = self.why(place)["session"]
        return session["session"] if session else ""

    def over_http(self, place: str, op: str = "code.why", **more: Any) -> dict[str, Any]:
        """Ask as a surface does that may not read files."""
        caller = ClientIdentity(str(self.root), dict(os.environ), str(self._home), names_files=False)
        return Dispatcher().call(op, more or {"place": place}, caller)
