"""Milvus servers for tests, which can be killed and restarted."""

from __future__ import annotations

import base64
import itertools
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

_counter = itertools.count()


def tenant() -> str:
    return f"t{os.getpid()}x{next(_counter)}x{os.urandom(3).hex()}"


@contextmanager
def listening(seen: list[str]) -> Iterator[int]:
    """Serve Milvus' protocol, reject every call, and collect the tokens in `seen`; yield the port."""

    class Refusing(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, handler_call_details: Any) -> Any:
            metadata = {item.key: item.value for item in handler_call_details.invocation_metadata}
            seen.append(base64.b64decode(metadata.get("authorization", "")).decode())

            def refuse(request: bytes, context: Any) -> bytes:
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "no")
                return b""

            return grpc.unary_unary_rpc_method_handler(refuse)

    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((Refusing(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield int(port)
    finally:
        server.stop(None)


class LiteServer:
    """`milvus-lite server` over a folder, always at the same address."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start the server and wait until it listens."""
        command = [Path(sys.executable).with_name("milvus-lite"), "server", "--data-dir", self._folder]
        self._process = subprocess.Popen(
            [*map(str, command), "--host", "127.0.0.1", "--port", str(self._port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", self._port), 0.5).close()
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise TimeoutError(self.uri)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        self.kill()
