"""An agent's own model, asked through its own program: `claude -p`, `codex exec`.

Nothing new has to be configured or paid for: whoever uses the agent is signed in already. The child is kept from
everything but writing: no tools, no plugins, no hooks, no MCP servers, no session on disk, an empty directory to stand in.
LORELOG_HOOKS=off keeps our own hooks from capturing the summary of a capture, should a host run them after all. What
it reads is somebody's conversation, so what it could be talked into must be nothing.

OpenCode and OpenClaw have no such command that ends reliably; their models are asked by their plugins.
"""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from lorelog.core.errors import ModelFault, ModelUnavailable
from lorelog.core.options import LanguageOptions
from lorelog.core.ports import Completion
from lorelog.models.child import run_child

_KEPT = ("USE_", "SKIP_", "OAUTH_", "API_KEY_", "CLIENT_", "DISABLE_NONESSENTIAL")
"""How the variables CLAUDE_CODE_… go on that say how to sign in; the others are of the session that we were started in."""
_SESSION = (
    "CLAUDE_PLUGIN_",
    "CLAUDE_PROJECT_",
    "CLAUDE_ENV_",
    "CLAUDE_PID",
    "CLAUDECODE",
    "PLUGIN_ROOT",
    "PLUGIN_DATA",
)
_THINKING = 1400
"""Tokens that a model may think beyond what it writes."""
_PLACES = (
    "~/.local/bin",
    "~/.claude/local",
    "~/.npm-global/bin",
    "~/.bun/bin",
    "~/.volta/bin",
    "/usr/local/bin",
    "/opt/homebrew/bin",
)
"""Where agents are installed when the PATH of whoever started us does not say."""
_WITHOUT = (
    "hooks",
    "plugins",
    "apps",
    "shell_tool",
    "unified_exec",
    "multi_agent",
    "goals",
    "view_image",
    "skill_search",
)
"""Features of Codex that have no part in writing a few lines. With them a call costs 5,000 tokens more."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for."""

    program: str
    system: str
    text: str
    model: str
    most_tokens: int


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one agent's program is asked, and how it answers."""

    program: str
    default_model: str
    extra_tokens: int
    command: Callable[[Asked, Mapping[str, str]], list[str]]
    given: Callable[[Asked], str]
    variables: Callable[[Asked], dict[str, str]]
    read: Callable[[int, bytes], Completion]


class HostLanguage:
    """Writes by running an agent's program once."""

    provider = "host"

    def __init__(self, host: str, options: LanguageOptions, environment: Mapping[str, str]) -> None:
        self._dialect = DIALECTS[host]
        self._timeout_s = options.timeout_s
        self._environment = environment
        self._model = options.model or self._dialect.default_model
        self.model = f"{host}/{self._model or 'default'}"
        self.extra_tokens = self._dialect.extra_tokens

    def check(self) -> str:
        """Return where the agent's program is, or raise ModelUnavailable. Starts none."""
        program = find_program(self._dialect.program, self._environment)
        if not program:
            raise ModelUnavailable(
                f"there is no program {self._dialect.program!r} to ask", hint="install it, or put it on the PATH"
            )
        return program

    def complete(self, system: str, text: str, most_tokens: int) -> Completion:
        dialect = self._dialect
        program = self.check()
        clean = [one.encode("utf-8", "replace").decode().replace("\0", " ") for one in (system, text)]
        asked = Asked(program, clean[0], clean[1], self._model, most_tokens)
        environment = {**child_environment(self._environment), **dialect.variables(asked)}
        command = dialect.command(asked, self._environment)
        status, said = run_child(command, dialect.given(asked).encode(), environment, self._timeout_s)
        return dialect.read(status, said)


def find_program(name: str, environment: Mapping[str, str]) -> str:
    """Return where a program is: on the PATH, or else where such programs usually are; empty when nowhere."""
    home = environment.get("HOME") or os.path.expanduser("~")  # noqa: PTH111
    # A relative entry would be one of whichever directory this process happens to stand in.
    places = [one for one in environment.get("PATH", "").split(os.pathsep) if os.path.isabs(one)]  # noqa: PTH117
    places += [one.replace("~", home, 1) if one.startswith("~") else one for one in _PLACES]
    if environment.get("NPM_CONFIG_PREFIX"):
        places.append(f"{environment['NPM_CONFIG_PREFIX']}/bin")
    return shutil.which(name, path=os.pathsep.join(places)) or ""


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what a child may know: all but the session that we were started in, and that our hooks are off."""
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith(_SESSION)
        and (not name.startswith("CLAUDE_CODE_") or name.removeprefix("CLAUDE_CODE_").startswith(_KEPT))
    }
    return {**kept, "LORELOG_HOOKS": "off"}


def _claude_command(asked: Asked, environment: Mapping[str, str]) -> list[str]:
    command = [asked.program, "-p", "--output-format", "json", "--model", asked.model, "--effort", "low"]
    command += ["--setting-sources", "", "--no-session-persistence", "--tools", "", "--strict-mcp-config"]
    return [*command, "--disable-slash-commands", "--system-prompt", asked.system]


def _claude_variables(asked: Asked) -> dict[str, str]:
    return {
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(asked.most_tokens + _THINKING),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def _read_claude(status: int, said: bytes) -> Completion:
    """Read the one object that it prints. Errors come as objects too, and some with status 0."""
    try:
        answer = _object(json.loads(said))
    except (ValueError, RecursionError):
        answer = {}
    usage = _object(answer.get("usage"))
    spent = sum(_count(usage, f"{kind}input_tokens") for kind in ("", "cache_creation_", "cache_read_"))
    if status != 0 or answer.get("is_error"):
        failed = ModelFault if spent else ModelUnavailable
        raise failed(f"claude says that it failed (status {status})", hint="ask it something at a shell")
    if not isinstance(answer.get("result"), str):
        raise ModelFault("claude answered without a result")
    return Completion(answer["result"], spent, _count(usage, "output_tokens"))


def _codex_command(asked: Asked, environment: Mapping[str, str]) -> list[str]:
    settings = [f"features.{name}=false" for name in _WITHOUT]
    settings += ['web_search="disabled"', "project_doc_max_bytes=0", "notify=[]", "skills.bundled.enabled=false"]
    settings += ['approval_policy="never"', 'model_reasoning_effort="low"']
    settings += [f"mcp_servers.{name}.enabled=false" for name in _codex_servers(environment)]
    command = [asked.program, "exec", "--json", "--ephemeral", "--skip-git-repo-check", "--sandbox", "read-only"]
    command += ["--ignore-rules", "--color", "never"]
    command += ["--model", asked.model] if asked.model else []
    return [*command, *(word for setting in settings for word in ("-c", setting)), "-"]


def _codex_servers(environment: Mapping[str, str]) -> list[str]:
    """Return the MCP servers that Codex would start, to be switched off one by one: there is no word for all of them.

    Raise ModelUnavailable where that cannot be told: a conversation must not be read by someone who has tools.
    """
    home = environment.get("CODEX_HOME") or f"{environment.get('HOME') or os.path.expanduser('~')}/.codex"  # noqa: PTH111
    try:
        with open(f"{home}/config.toml", "rb") as file:  # noqa: PTH123
            servers = tomllib.load(file).get("mcp_servers", {})
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise ModelUnavailable(f"{home}/config.toml cannot be read: {error}") from error
    names = list(servers) if isinstance(servers, dict) else []
    odd = [name for name in names if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii()]
    if odd:
        raise ModelUnavailable(f"the MCP server {odd[0]!r} of Codex cannot be switched off by name")
    return names


def _codex_given(asked: Asked) -> str:
    # Not in the place of its own instructions: with a subscription Codex refuses any others.
    return f"{asked.system}\n\n{asked.text}\n"


def _read_codex(status: int, said: bytes) -> Completion:
    """Read the events, one a line: the last message, and what the turn cost. Unknown ones are passed over."""
    text, usage = "", None
    for line in said.splitlines():
        try:
            event = _object(json.loads(line))
        except (ValueError, RecursionError):
            continue
        item = _object(event.get("item"))
        if event.get("type") == "item.completed" and item.get("type") == "agent_message":
            text = str(item.get("text", ""))
        if event.get("type") == "turn.completed":
            usage = _object(event.get("usage"))
    if status != 0 or usage is None:
        # One that has written something, or told what the turn cost, may well have been paid for it.
        failed = ModelFault if text or usage else ModelUnavailable
        raise failed(f"codex did not finish its turn (status {status})", hint="ask it something at a shell")
    return Completion(text, _count(usage, "input_tokens"), _count(usage, "output_tokens"))


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) and value > 0 else 0


DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {
        "claude": Dialect(
            "claude",
            "haiku",
            1000 + _THINKING,
            _claude_command,
            lambda asked: asked.text,
            _claude_variables,
            _read_claude,
        ),
        # Its own instructions are 4,500 tokens, and nothing bounds what it thinks.
        "codex": Dialect("codex", "", 7000, _codex_command, _codex_given, lambda _: {}, _read_codex),
    }
)
