"""A `docker` for tests: a program that notes how it is called and runs an Ollama of ours where a container would.

Its state lies in one folder: `calls` (one JSON list a line), `running` (the server's process), `models`, `refuse` (verbs that
fail), `silent` (containers that never answer). The server answers /api/embed and /api/chat and says 404 for a model that was not pulled.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROGRAM = """#!{python} -S
import json, os, signal, subprocess, sys, time
state = {state!r}
def at(name): return os.path.join(state, name)
def read(name):
    try:
        with open(at(name)) as file: return file.read()
    except OSError: return ""
words = sys.argv[1:]
with open(at("calls"), "a") as file: file.write(json.dumps(words) + "\\n")
with open(at("environment"), "a") as file: file.write(json.dumps(dict(os.environ)) + "\\n")
if words[0] in read("refuse").split():
    sys.exit("docker: Error response from daemon: " + words[0] + " does not work today.")
running = read("running").split()
if words[0] == "inspect":
    if not running: sys.exit("Error: No such object: " + words[-1])
    print("true")
elif words[0] == "run":
    port = words[words.index("-p") + 1].split(":")[-2]
    time.sleep(0.2)
    if not read("silent"):
        server = subprocess.Popen([sys.executable, at("server.py"), port, state], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True)
        with open(at("running"), "w") as file: file.write(str(server.pid))
    print("0123456789ab")
elif words[0] == "rm":
    for process in running:
        try: os.kill(int(process), 9)
        except OSError: pass
    if running: os.unlink(at("running"))
elif words[0] == "exec" and words[2:4] == ["ollama", "list"]:
    print("NAME ID SIZE MODIFIED")
    for name in read("models").split(): print(name + ":latest 0a109f422b47 274 MB 2 days ago")
elif words[0] == "exec" and words[2:4] == ["ollama", "pull"]:
    with open(at("models"), "a") as file: file.write(words[4] + "\\n")
"""

SERVER = """
import json, os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
port, state = int(sys.argv[1]), sys.argv[2]
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self): self.answer(200, b"Ollama is running")
    def do_POST(self):
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try: models = open(os.path.join(state, "models")).read().split()
        except OSError: models = []
        if sent["model"] not in models:
            return self.answer(404, json.dumps({"error": "model 'x' not found, try pulling it first"}).encode())
        if self.path == "/api/chat":
            said = {"message": {"content": "- " + sent["messages"][1]["content"]}, "done": True, "eval_count": 3}
            return self.answer(200, json.dumps(said).encode())
        rows = [[float(len(text)), 1.0, 0.0] for text in sent["input"]]
        self.answer(200, json.dumps({"model": sent["model"], "embeddings": rows, "prompt_eval_count": 5}).encode())
    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


@dataclass(frozen=True)
class FakeDocker:
    """Paths of the program and its state."""

    bin: Path
    state: Path

    @classmethod
    def at(cls, folder: Path) -> FakeDocker:
        """Write the program into a folder."""
        made = cls(folder / "bin", folder / "state")
        for place in (made.bin, made.state):
            place.mkdir(parents=True)
        (made.state / "server.py").write_text(SERVER, "utf-8")
        program = made.bin / "docker"
        program.write_text(PROGRAM.format(python=sys.executable, state=str(made.state)), "utf-8")
        program.chmod(0o755)
        return made

    def calls(self) -> list[list[str]]:
        try:
            lines = (self.state / "calls").read_text("utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines]

    def verbs(self) -> list[str]:
        return [" ".join(call[:1] + call[3:4]) if call[0] == "exec" else call[0] for call in self.calls()]

    def ran(self) -> list[str]:
        """Return the arguments of the `docker run` call."""
        (call,) = (call for call in self.calls() if call[0] == "run")
        return call

    def say(self, name: str, text: str) -> None:
        """Set a part of the state."""
        (self.state / name).write_text(text, "utf-8")

    def is_running(self) -> bool:
        return (self.state / "running").exists()

    def kill(self) -> None:
        with suppress(OSError, ValueError):
            os.kill(int((self.state / "running").read_text("utf-8")), signal.SIGKILL)
        (self.state / "running").unlink(missing_ok=True)
