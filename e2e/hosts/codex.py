"""Codex: `codex exec` for a turn, the app server for a living session, the plugin from a local marketplace.

Codex runs no hook that its person has not approved, and says nothing about it. Here the approval is written down as its
own review dialog does: the app server names each hook with a hash, and the hash goes into the configuration.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from e2e.hosts.host import COMPACT, OF_CLAUDE, Host, Outcome
from e2e.hosts.lines import Lines, json_lines
from e2e.model import Step
from e2e.terminal import CONTROL_C, ENTER, Terminal
from e2e.world import REPOSITORY, Failed

_REVIEW, _READY = "Hooks need review", "scripted default"


class Codex(Host):
    """OpenAI's."""

    name = "codex"
    title = "Codex CLI"
    shell = "exec_command"
    folder = ".codex"
    changed = ("config.toml", "hooks.json")
    kept = "sessions/**/*.jsonl"
    takes_prompt = True
    absent = OF_CLAUDE | {
        "file": "its sandbox writes to the project only; the agent asks its user, whom nobody plays here"
    }
    leave_keys = (CONTROL_C,)
    asks_leave = True

    def configure(self) -> None:
        self.own_folder.mkdir(exist_ok=True)
        (self.own_folder / "config.toml").write_text(
            'model = "scripted"\nmodel_provider = "e2e"\napproval_policy = "never"\nsandbox_mode = "workspace-write"\n'
            "check_for_update_on_startup = false\n[analytics]\nenabled = false\n"
            f'[model_providers.e2e]\nname = "e2e"\nbase_url = "{self.world.model.address}/v1"\n'
            'env_key = "E2E_API_KEY"\nwire_api = "responses"\nrequest_max_retries = 0\nstream_max_retries = 0\n'
        )

    def bring_plugin(self) -> None:
        self.run_aside("plugin", "marketplace", "add", str(REPOSITORY))
        self.run_aside("plugin", "add", "lorelog@lorelog")
        self.trust_hooks()

    def install(self) -> None:
        super().install()
        self.trust_hooks()

    def install_unasked(self) -> None:
        super().install()

    @contextlib.contextmanager
    def sit_down(self, *, asks_first: bool = False) -> Iterator[Terminal]:
        """Through its questions: whether this folder is trusted, and the hooks, where they are new."""
        with self.open_terminal() as terminal:
            terminal.wait_for("Ask Codex to do anything", "Codex to be ready")
            terminal.choose(ENTER)
            terminal.wait_for("Trust and continue", "Codex to ask about the folder")
            terminal.choose(ENTER)
            if terminal.wait_for_any((_REVIEW, _READY), "Codex to be ready") == _REVIEW:
                terminal.wait_for("2. Trust all and continue", "the words that our instructions name")
                terminal.choose("2", ENTER)
                terminal.wait_for(_READY, "Codex to be ready")
            yield terminal

    def trust_hooks(self) -> None:
        """Approve every hook there is, by the hash that Codex itself tells."""
        hooks = self._hooks()
        if not hooks:
            raise Failed("Codex knows of no hook after the plugin was brought in")
        with (self.own_folder / "config.toml").open("a") as file:
            for hook in hooks:
                hashed = hook["currentHash"].split("/")[0]  # a second one, of the whole plugin, may follow
                file.write(f"\n[hooks.state.{json.dumps(hook['key'])}]\ntrusted_hash = {json.dumps(hashed)}\n")
        doubted = [hook["key"] for hook in self._hooks() if hook["trustStatus"] != "trusted"]
        if doubted:
            raise Failed(f"Codex does not trust {doubted}")

    def _hooks(self) -> list[dict[str, Any]]:
        with self._server() as lines:
            listed = self._call(lines, 2, "hooks/list", {"cwds": [str(self.world.project)]})
        return [hook for place in listed.get("data", []) for hook in place.get("hooks", [])]

    def environment(self) -> dict[str, str]:
        return self.world.environment(CODEX_HOME=str(self.own_folder), E2E_API_KEY="e2e")

    def command(self, prompt: str, session: str) -> list[str]:
        words = [str(self.installed.program), "exec"]
        if session:
            words.append("resume")
        words += ["--json", "--skip-git-repo-check"]
        return [*words, session, "-"] if session else [*words, "-"]

    def read(self, printed: str) -> tuple[str, str]:
        session = answer = ""
        for told in json_lines(printed):
            if told.get("type") == "thread.started":
                session = told["thread_id"]
            item = told.get("item") or {}
            if told.get("type") == "item.completed" and item.get("type") == "agent_message":
                answer = item.get("text", "")
        return session, answer

    def _server(self) -> Lines:
        lines = Lines([str(self.installed.program), "app-server"], self.environment(), self.world)
        self._call(lines, 1, "initialize", {"clientInfo": {"name": "e2e", "title": "e2e", "version": "1"}})
        lines.write({"method": "initialized"})
        return lines

    @staticmethod
    def _call(lines: Lines, number: int, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        lines.write({"id": number, "method": method, "params": parameters})
        told = lines.until(lambda line: line.get("id") == number and "method" not in line, f"answer to {method}")
        if "error" in told:
            raise Failed(f"{method}: {told['error']}")
        result: dict[str, Any] = told.get("result") or {}
        return result

    def converse(self, *says: str, session: str = "") -> Outcome:
        place = {"cwd": str(self.world.project)}
        return self._run("thread/resume" if session else "thread/start", place | {"threadId": session}, says)

    def fork(self, prompt: str, session: str) -> Outcome:
        return self._run("thread/fork", {"threadId": session, "cwd": str(self.world.project)}, [prompt])

    def _run(self, begin: str, place: dict[str, str], says: Sequence[str]) -> Outcome:
        """Open a thread in the app server, and say something in it."""
        since = self.world.model.count
        with self._server() as lines:
            thread = self._call(lines, 3, begin, {name: value for name, value in place.items() if value})["thread"][
                "id"
            ]
            for number, said in enumerate(says, 4):
                if said == COMPACT:
                    self._call(lines, number, "thread/compact/start", {"threadId": thread})
                else:
                    text = [{"type": "text", "text": said}]
                    self._call(lines, number, "turn/start", {"threadId": thread, "input": text})
                lines.until(lambda line: line.get("method") == "turn/completed", f"an end to {said[:40]!r}")
        return Outcome(thread, "", 0, tuple(self.world.model.requests(since)))

    def run_shell(self, command: str) -> Step:
        return Step(tool=self.shell, arguments={"cmd": command})

    def write_file(self, path: Path, text: str) -> Step:
        body = "".join(f"+{line}\n" for line in text.splitlines())
        patch = f"*** Begin Patch\n*** Add File: {path.name}\n{body}*** End Patch\n"
        return Step(tool=self.shell, arguments={"cmd": f"apply_patch <<'EOF'\n{patch}EOF"})

    def mcp_call(self, name: str, arguments: dict[str, str]) -> Step:
        return Step(tool=name, namespace="mcp__lorelog", arguments=dict(arguments))
