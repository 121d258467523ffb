"""OpenClaw: `openclaw agent --local` for a turn, the plugin linked by its installer, the workspace in the project."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import uuid
from collections.abc import Iterator

from e2e.hosts.host import COMPACT, NO_FORK, OF_CLAUDE, Host, Outcome, Running
from e2e.model import Step
from e2e.terminal import Terminal
from e2e.world import Failed, eventually


class OpenClaw(Host):
    """OpenClaw, the agent for chats."""

    name = "openclaw"
    title = "OpenClaw"
    shell = "exec"
    folder = ".openclaw"
    changed = ("openclaw.json",)
    kept = "agents/**/openclaw-agent.sqlite*"
    writer = ("write", "path", "content")
    absent = (
        OF_CLAUDE | NO_FORK | {"judge": "it takes a prompt only as an argument, which others on the machine can read"}
    )

    _served = False

    def configure(self) -> None:
        self.own_folder.mkdir()
        free = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
        model = {
            "id": "scripted",
            "name": "Scripted",
            "reasoning": False,
            "input": ["text"],
            "cost": free,
            "contextWindow": 200_000,
            "maxTokens": 8_000,
        }
        provider = {
            "baseUrl": f"{self.world.model.address}/v1",
            "apiKey": "e2e",
            "api": "openai-completions",
            "models": [model],
        }
        defaults = {"model": {"primary": "e2e/scripted"}, "workspace": str(self.world.project), "skipBootstrap": True}
        settings = {
            "gateway": {"mode": "local"},
            "tools": {"toolSearch": False},
            "agents": {"defaults": defaults},
            "models": {"mode": "replace", "providers": {"e2e": provider}},
        }
        (self.own_folder / "openclaw.json").write_text(json.dumps(settings, indent=1))

    def bring_plugin(self) -> None:
        path = self.own_folder / "openclaw.json"
        settings = json.loads(path.read_text())
        settings["plugins"] = {
            "load": {"paths": [str(self.plugins / "openclaw")]},
            "slots": {"memory": "lorelog"},
            "entries": {"lorelog": {"enabled": True, "hooks": {"allowConversationAccess": True}}},
        }
        path.write_text(json.dumps(settings, indent=1))

    def install(self) -> None:
        self.world.lorelog("hosts", "install", self.name, "--approve")

    def install_natively(self) -> None:
        bundle = str(self.plugins / "openclaw")
        self.run_aside("plugins", "install", "--link", bundle, "--force", "--accept-capabilities")
        # Its installer asks for no leave to see conversations, without which no hook of ours is ever called.
        self.run_aside("config", "set", "plugins.entries.lorelog.hooks.allowConversationAccess", "true")

    def command(self, prompt: str, session: str) -> list[str]:
        words = [str(self.installed.program), "agent", "--agent", "main", "--json"]
        words += [] if self._served else ["--local"]
        return [*words, "--session-id", session or str(uuid.uuid4()), "-m", prompt]

    def read(self, printed: str) -> tuple[str, str]:
        try:
            told = json.loads(printed[printed.find("{") :])
        except ValueError:
            return "", printed
        told = told.get("result") or told  # the gateway wraps what a one-shot turn prints
        session = str(((told.get("meta") or {}).get("agentMeta") or {}).get("sessionId", ""))
        answer = " ".join(str(payload.get("text", "")) for payload in told.get("payloads") or [])
        return session, answer

    def converse(self, *says: str, session: str = "") -> Outcome:
        """Run turns through the gateway, where sessions start and end; one-shot turns have no session events."""
        since = self.world.model.count
        named, answer = session or str(uuid.uuid4()), ""
        with self.together():
            for said in says:
                if said == COMPACT:
                    told = self.run_aside("sessions", "compact", self._key_of(named), "--json", limit_s=180)
                    if '"compacted": true' not in told:
                        raise Failed(f"OpenClaw did not compact: {told[-300:]}")
                    continue
                answer = self.turn(said, named).answer
        return Outcome(named, answer, 0, tuple(self.world.model.requests(since)))

    @staticmethod
    def _key_of(session: str) -> str:
        return f"agent:main:explicit:{session}"

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Run the gateway for turns. Without it, a second concurrent turn is refused."""
        with contextlib.closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        path = self.own_folder / "openclaw.json"
        settings = json.loads(path.read_text())
        settings["gateway"] |= {"port": port, "bind": "loopback", "auth": {"mode": "token", "token": "e2e"}}
        path.write_text(json.dumps(settings, indent=1))
        running = self.launch([str(self.installed.program), "gateway", "run"])
        try:
            eventually(lambda: self._listens(running, port), "the gateway did not come up", 180)
            self._served = True
            yield
        finally:
            self._served = False
            running.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.process.wait(30)
            running.kill()

    @contextlib.contextmanager
    def sit_down(self, *, asks_first: bool = False) -> Iterator[Terminal]:
        """Run the terminal program with a gateway. Without one, OpenClaw calls no plugin hooks there."""
        with self.together(), self.open_terminal("tui") as terminal:
            terminal.wait_for("gateway connected | idle", "OpenClaw to be ready", 120)
            yield terminal

    @staticmethod
    def _listens(running: Running, port: int) -> bool:
        if running.process.poll() is not None:
            raise Failed(f"the gateway ended: {running.tail()}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    def memory_tool(self, verb: str, value: str) -> Step:
        """Return the plugin's three tools: OpenClaw's memory has these names."""
        return Step(tool=f"memory_{verb}", arguments={"query" if verb == "search" else "id": value})
