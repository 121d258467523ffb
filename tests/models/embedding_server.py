"""A real HTTP server on loopback that speaks OpenAI's embeddings API, or whatever a test's behaviours speak, well or badly.

Its vectors are three numbers: the length of the text, its first code point, and one.
"""

from __future__ import annotations

import base64
import json
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """One reply: a status and a body, or a way of failing."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    promised: int = 0
    """Bytes that the header promises beyond those sent."""
    delay_s: float = 0.0
    drip_s: float = 0.0
    hang_up: bool = False
    garbage: bool = False
    close_after: bool = False


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    connection: tuple[str, int]


def numbers_of(text: str) -> list[float]:
    return [float(len(text)), float(ord(text[0]) if text else 0), 1.0]


def well(request: Request) -> Answer:
    """Answer as the API does, in the format asked for."""
    packed = request.body["encoding_format"] == "base64"
    data = []
    for index, text in enumerate(request.body["input"]):
        numbers = numbers_of(text)
        embedding = base64.b64encode(struct.pack("<3f", *numbers)).decode() if packed else numbers
        data.append({"object": "embedding", "index": index, "embedding": embedding})
    return Answer(body={"object": "list", "data": data, "usage": {"prompt_tokens": 7, "total_tokens": 7}})


Behaviour = Callable[[Request], Answer]


class EmbeddingServer:
    """Answers each request with the next behaviour of a script; the last one repeats."""

    def __init__(self, *script: Behaviour) -> None:
        self.requests: list[Request] = []
        self.looks = 0
        """How often it was seen whether anyone is there."""
        self._script = list(script) or [well]
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def stop(self) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
            behave = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        return behave(request)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                headers = {name.lower(): value for name, value in self.headers.items()}
                owner.send(self, owner.answer(Request(self.path, headers, sent, self.client_address)))

            def do_GET(self) -> None:
                owner.looks += 1
                owner.send(self, Answer(raw=b"Ollama is running"))

            def log_message(self, *args: object) -> None:
                pass

        return Handler

    def send(self, handler: BaseHTTPRequestHandler, answer: Answer) -> None:
        self._stopping.wait(answer.delay_s)
        handler.close_connection = answer.hang_up or answer.garbage or answer.close_after or answer.promised > 0
        if answer.hang_up:
            return
        if answer.garbage:
            handler.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")
            return
        body = answer.raw if answer.raw is not None else json.dumps(answer.body).encode()
        handler.send_response(answer.status)
        for name, value in {**answer.headers, "Content-Length": str(len(body) + answer.promised)}.items():
            handler.send_header(name, value)
        handler.end_headers()
        try:
            for byte in body if answer.drip_s else ():
                handler.wfile.write(bytes([byte]))
                time.sleep(answer.drip_s)
            handler.wfile.write(b"" if answer.drip_s else body)
        except OSError:
            handler.close_connection = True  # the client gave up, as it should
