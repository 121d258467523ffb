"""An editor that speaks to `lorelog lsp` over its pipes: a real process, real messages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import Empty, Queue
from types import TracebackType
from typing import Any, Self

WAIT_S = 30.0


class Editor:
    """Starts the server for a folder, and holds what it said."""

    def __init__(self, root: Path, *, write: bool = False, environment: Mapping[str, str] = os.environ) -> None:
        command = [sys.executable, "-m", "lorelog", "lsp"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=root, env=environment)
        self._replies: dict[int, Queue[dict[str, Any]]] = {}
        self._last, self._sending = 0, threading.Lock()
        self.told: Queue[dict[str, Any]] = Queue()
        """Notifications and requests of the server."""
        threading.Thread(target=self._listen, daemon=True).start()
        capabilities = {"window": {"showDocument": {"support": True}}}
        self.capabilities = self.ask(
            "initialize",
            processId=os.getpid(),
            rootUri=root.as_uri(),
            capabilities=capabilities,
            initializationOptions={"write": write},
            workspaceFolders=[{"uri": root.as_uri(), "name": root.name}],
        )["capabilities"]
        self.tell("initialized")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.ask("shutdown")
        self.tell("exit")
        self.errors = self.process.communicate(timeout=WAIT_S)[1]

    def send(self, method: str, **params: Any) -> int:
        """Send a request, and return its number."""
        self._last += 1
        self._replies[self._last] = Queue()
        self._write({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params})
        return self._last

    def receive(self, number: int) -> Any:
        """Return the result of a request, or its error."""
        reply = self._replies[number].get(timeout=WAIT_S)
        return reply["result"] if "result" in reply else reply["error"]

    def ask(self, method: str, **params: Any) -> Any:
        return self.receive(self.send(method, **params))

    def tell(self, method: str, **params: Any) -> None:
        self._write({"jsonrpc": "2.0", "method": method, "params": params})

    def open(self, path: Path, text: str | None = None) -> str:
        """Open a file, and return its address."""
        text = path.read_text("utf-8") if text is None else text
        document = {"uri": path.as_uri(), "languageId": "python", "version": 1, "text": text}
        self.tell("textDocument/didOpen", textDocument=document)
        return path.as_uri()

    def insert(self, uri: str, line: int, text: str, version: int = 2) -> None:
        at = {"line": line, "character": 0}
        changes = [{"range": {"start": at, "end": at}, "text": text}]
        self.tell("textDocument/didChange", textDocument={"uri": uri, "version": version}, contentChanges=changes)

    def at(self, method: str, uri: str, line: int, character: int = 0) -> Any:
        """Ask about a place; `method` is of a document."""
        place = {"line": line, "character": character}
        return self.ask(f"textDocument/{method}", textDocument={"uri": uri}, position=place)

    def actions(self, uri: str, line: int) -> list[dict[str, Any]]:
        at = {"line": line, "character": 0}
        place = {"range": {"start": at, "end": at}, "context": {"diagnostics": []}}
        found: list[dict[str, Any]] = self.ask("textDocument/codeAction", textDocument={"uri": uri}, **place)
        return found

    def hears(self, method: str) -> dict[str, Any]:
        """Return what the server says next by a method."""
        while True:
            message = self.told.get(timeout=WAIT_S)
            if message["method"] == method:
                params: dict[str, Any] = message["params"]
                return params

    def lenses(self, uri: str) -> list[tuple[int, str]]:
        found = self.ask("textDocument/codeLens", textDocument={"uri": uri})
        return [(lens["range"]["start"]["line"], lens["command"]["title"]) for lens in found]

    def eventually(self, look: Callable[[], Any]) -> Any:
        """Return what a look sees, as soon as it sees anything."""
        ends = time.monotonic() + WAIT_S
        while not (seen := look()) and time.monotonic() < ends:
            time.sleep(0.05)
        return seen

    def is_silent(self) -> bool:
        try:
            self.told.get(timeout=1.0)
        except Empty:
            return True
        return False

    def _write(self, message: Mapping[str, Any]) -> None:
        self.write_body(json.dumps(message).encode())

    def write_body(self, data: bytes) -> None:
        """Write a message, or what is none."""
        assert self.process.stdin is not None
        with self._sending:
            self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
            self.process.stdin.flush()

    def _listen(self) -> None:
        source = self.process.stdout
        assert source is not None
        while header := source.readline():
            size = int(header.partition(b":")[2]) if header.lower().startswith(b"content-length") else 0
            while header.strip():
                header = source.readline()
                size = int(header.partition(b":")[2]) if header.lower().startswith(b"content-length") else size
            message = json.loads(source.read(size))
            if "method" not in message:
                self._replies[message["id"]].put(message)
                continue
            self.told.put(message)
            if "id" in message:
                self._write({"jsonrpc": "2.0", "id": message["id"], "result": {"success": True}})
