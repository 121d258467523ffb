"""OpenCode: `opencode run` for a turn, its server for a living session, the plugin as one file.

Each of its configuration folders is given an npm install at start; a lock file that names the dependency keeps it from
asking a registry, which offline would cost more than a minute.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from e2e.hosts.host import COMPACT, FEW_CORE_ROWS, NO_JUDGE, NO_TERMINAL, OF_CLAUDE, TURN_LIMIT_S, Host, Outcome
from e2e.hosts.lines import json_lines
from e2e.model import Step
from e2e.terminal import CONTROL_C, ESCAPE, Terminal
from e2e.world import Failed


class OpenCode(Host):
    """OpenCode by SST."""

    name = "opencode"
    title = "OpenCode"
    shell = "bash"
    folder = ".config/opencode"
    types = "@opencode-ai/plugin"
    """The package that it installs beside its configuration."""
    settings: dict[str, bool] = {}  # noqa: RUF012 - overridden whole
    changed = ("opencode.json",)
    kept = "../../.local/share/opencode/opencode.db*"
    writer = ("write", "filePath", "content")
    mcp_prefix = "lorelog_"
    takes_prompt = True
    interrupt_keys = (ESCAPE, ESCAPE)
    leave_keys = (CONTROL_C,)
    absent = OF_CLAUDE | {"own installer": "OpenCode has none: every other row names the plugin in its settings"}

    def configure(self) -> None:
        (self.own_folder / "node_modules").mkdir(parents=True)
        needs = {self.types: self.installed.version}
        (self.own_folder / "package.json").write_text(json.dumps({"dependencies": needs}))
        (self.own_folder / "package-lock.json").write_text(json.dumps({"packages": {"": {"dependencies": needs}}}))
        limits = {"context": 200_000, "output": 8_000}
        models = {
            "scripted": {"name": "Scripted", "tool_call": True, "limit": limits},
            "scripted-small": {"name": "Small"},
        }
        options = {"baseURL": f"{self.world.model.address}/v1", "apiKey": "e2e"}
        provider = {"npm": "@ai-sdk/openai-compatible", "name": "e2e", "options": options, "models": models}
        settings = {
            "autoupdate": False,
            "share": "disabled",
            **self.settings,
            "model": "e2e/scripted",
            "small_model": "e2e/scripted-small",
            "provider": {"e2e": provider},
        }
        (self.own_folder / self.changed[0]).write_text(json.dumps(settings, indent=1))
        self._lend_ripgrep()

    def _lend_ripgrep(self) -> None:
        """Provide ripgrep, which the skill tool would download otherwise; Codex includes one."""
        codex = self.world.hosts.get("codex")
        lent = next(codex.folder.glob("node_modules/@openai/*/vendor/*/*/rg"), None) if codex else None
        if shutil.which("rg") is None and lent is not None:
            (self.world.bin / "rg").symlink_to(lent)

    def bring_plugin(self) -> None:
        path = self.own_folder / "opencode.json"
        settings = json.loads(path.read_text())
        settings["plugin"] = [str(self.plugins / "opencode" / "lorelog.ts")]
        path.write_text(json.dumps(settings, indent=1))

    def environment(self) -> dict[str, str]:
        switches = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD")
        return self.world.environment(**{f"{self.name.upper()}_DISABLE_{switch}": "1" for switch in switches})

    def command(self, prompt: str, session: str) -> list[str]:
        words = [str(self.installed.program), "run", "--format", "json"]
        return [*words, "--session", session] if session else words

    @contextlib.contextmanager
    def sit_down(self, *, asks_first: bool = False) -> Iterator[Terminal]:
        with self.open_terminal() as terminal:
            terminal.wait_for("Ask anything", "OpenCode to be ready", 120)
            yield terminal

    def read(self, printed: str) -> tuple[str, str]:
        session = answer = ""
        for told in json_lines(printed):
            session = told.get("sessionID") or session
            if told.get("type") == "text":
                answer = (told.get("part") or {}).get("text", "")
        return session, answer

    def converse(self, *says: str, session: str = "") -> Outcome:
        since = self.world.model.count
        answer = ""
        with self.serving() as address:
            named = session or str(self.post(address, "/session", {})["id"])
            for said in says:
                if said == COMPACT:
                    self.post(address, f"/session/{named}/summarize", {"providerID": "e2e", "modelID": "scripted"})
                else:
                    parts = [{"type": "text", "text": said}]
                    told = self.post(address, f"/session/{named}/message", {"parts": parts})
                    answer = " ".join(part.get("text", "") for part in told.get("parts", []))
            time.sleep(1.0)  # session.idle follows the answer; leaving at once would be an interruption
        return Outcome(named, answer, 0, tuple(self.world.model.requests(since)))

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        """Yield the address of a running server."""
        log = self.world.logs / f"opencode-serve-{time.monotonic_ns()}.log"
        with log.open("w") as out:
            process = subprocess.Popen(
                [str(self.installed.program), "serve", "--port", "0", "--hostname", "127.0.0.1"],
                cwd=self.world.project,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield self._address(process, log)
        finally:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    @staticmethod
    def _address(process: subprocess.Popen[bytes], log: Path) -> str:
        end = time.monotonic() + 90
        while time.monotonic() < end and process.poll() is None:
            found = re.search(r"http://127\.0\.0\.1:\d+", log.read_text())
            if found:
                return found.group()
            time.sleep(0.2)
        raise Failed(f"opencode serve gave no address: {log.read_text()[-300:]}")

    def post(self, address: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(address + path, json.dumps(body).encode(), headers, method="POST")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=TURN_LIMIT_S) as answer:
                told = json.loads(answer.read() or b"{}")
        except OSError as error:
            raise Failed(f"opencode {path}: {error}") from error
        return told if isinstance(told, dict) else {}

    def fork(self, prompt: str, session: str) -> Outcome:
        return self.complete(self.launch([*self.command(prompt, session), "--fork"], prompt))

    def use_skill(self, asked: str, question: str, search: Step) -> Outcome:
        """Use the host's skill tool, which must return the skill's text to the model."""
        call = Step(tool="skill", arguments={"name": "memory-recall"})
        outcome = self.read_skill(call, asked, question, search)
        if not any("lorelog search" in result for request in outcome.requests for result in request.results):
            raise Failed("the skill's text did not come back to the model")
        return outcome


class KiloCode(OpenCode):
    """A fork of OpenCode 1.x."""

    name = "kilo"
    title = "Kilo Code"
    folder = ".config/kilo"
    types = "@kilocode/plugin"
    settings = {"snapshot": False}  # noqa: RUF012 - only read
    changed = ("kilo.json",)
    kept = "../../.local/share/kilo/kilo.db*"
    core_rows = FEW_CORE_ROWS
    turn_limit_s = 2 * TURN_LIMIT_S  # a turn took 100 s on a busy machine
    absent = OpenCode.absent | NO_JUDGE | NO_TERMINAL

    def bring_plugin(self) -> None:
        self.install()

    def environment(self) -> dict[str, str]:
        less = ("CODEBASE_INDEXING", "SESSION_INGEST", "PRESENCE", "FFF", "EMBEDDED_WEB_UI")
        return super().environment() | {f"KILO_DISABLE_{part}": "1" for part in less}

    def command(self, prompt: str, session: str) -> list[str]:
        words = [str(self.installed.program), "run", "--auto", "--format", "json"]
        return [*words, "--session", session] if session else words
