"""Adapters between agent hosts and hooks: they translate hook payloads and replies, and import core only.

This module finds the adapter of a host, and has what adapters share: validated fields of hook payloads, and the reply
format of Claude Code and Codex. A host waits for its hooks, so everything is imported on first use.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol

    Answer = Callable[..., dict[str, Any]]

    class HostAdapter(Protocol):
        """The interface of each host's module."""

        MOMENTS: dict[str, str]
        """The host's event names, mapped to ours."""

        def read_event(self, moment: str, payload: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
            """Return a payload's fields under their names in the spool; empty if it is not an event."""

        def read_tool_call(self, payload: dict[str, Any]) -> dict[str, Any]:
            """Return a tool call in the form of `hosts.tool_calls`, and the subagent that made it."""

        def answer(
            self, moment: str, context: str, notice: str, decision: Mapping[str, str] | None = None
        ) -> dict[str, Any]:
            """Return the host's JSON: the context is for the model, the notice for the user.

            A decision has an `action`, `block` or `warn`, and a `message`; only `block` stops a tool call.
            """


_MAX_ID_CHARS = 512
"""Characters of an id. A longer text is not an id and could be conversation."""
_MAX_PATH_CHARS = 4_096


def text_field(payload: Mapping[str, Any], name: str) -> str:
    """Return an id or a name; empty for anything else."""
    value = payload.get(name)
    return value if isinstance(value, str) and len(value) <= _MAX_ID_CHARS and value.isprintable() else ""


def path_field(payload: Mapping[str, Any], name: str) -> str:
    """Return an absolute path; empty for anything else."""
    value = payload.get(name)
    if not isinstance(value, str) or not value.startswith("/") or len(value) > _MAX_PATH_CHARS or "\0" in value:
        return ""
    return value


def prompt_field(payload: Mapping[str, Any]) -> str:
    """Return the user's prompt. Gemini CLI puts the context of a session's start in front of it."""
    prompt = payload.get("prompt")
    if isinstance(prompt, list):  # blocks, in Kimi Code
        prompt = "\n".join(str(block.get("text", "")) for block in prompt if isinstance(block, dict))
    if not isinstance(prompt, str):
        return ""
    if prompt.startswith("<hook_context>"):
        prompt = prompt.partition("</hook_context>")[2].lstrip()
    return prompt


def event_fields(payload: Mapping[str, Any], session: str, directory: str, **more: Any) -> dict[str, Any]:
    """Return the fields of an event under their names in the spool; `more` are those that a host has or names otherwise."""
    return {
        "session": session,
        "turn": "",
        "transcript": path_field(payload, "transcript_path"),
        "directory": directory,
        "agent": text_field(payload, "agent_id"),
        "source": text_field(payload, "source") or text_field(payload, "reason") or text_field(payload, "trigger"),
        "answer": "",
        "again": payload.get("stop_hook_active") is True,
        **more,
    }


def hook_answer(event: str, context: str, notice: str, decision: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a hook's reply in Claude Code's format; an empty object if there is nothing to say."""
    answer: dict[str, Any] = {}
    if notice:
        answer["systemMessage"] = notice
    output = {"additionalContext": context} if context else {}
    if block_reason(decision):
        output |= {"permissionDecision": "deny", "permissionDecisionReason": block_reason(decision)}
    if output:
        answer["hookSpecificOutput"] = {"hookEventName": event, **output}
    return answer


def claude_answer(moments: Mapping[str, str]) -> Answer:
    """Return the `answer` of a host that has Claude Code's format, and these events; others get an empty object."""
    events = {moment: event for event, moment in moments.items() if moment in _ANSWERED_MOMENTS}

    def answer(moment: str, context: str, notice: str, decision: Mapping[str, str] | None = None) -> dict[str, Any]:
        return hook_answer(events[moment], context, notice, decision) if moment in events else {}

    return answer


def block_reason(decision: Mapping[str, str] | None) -> str:
    """Return why a tool call is blocked; empty if it is not."""
    return decision.get("message", "") if decision and decision.get("action") == "block" else ""


HOST_TITLES = {
    "claude": "Claude Code",
    "codex": "Codex",
    "opencode": "OpenCode",
    "openclaw": "OpenClaw",
    "gemini": "Gemini CLI",
    "qwen": "Qwen Code",
    "copilot": "Copilot CLI",
    "droid": "Factory Droid",
    "pi": "Pi",
    "omp": "Oh My Pi",
    "kilo": "Kilo Code",
    "kimi": "Kimi Code",
    "cline": "Cline",
}
HOSTS = tuple(HOST_TITLES)
ADAPTERS = dict.fromkeys(("pi", "omp", "kilo", "cline"), "opencode")
"""Hosts in which our plugin sends and expects the JSON of another one's."""
_DATA_FOLDERS = {
    "claude": ("CLAUDE_CONFIG_DIR", ".claude", ""),
    "codex": ("CODEX_HOME", ".codex", ""),
    "opencode": ("XDG_DATA_HOME", ".local/share", "opencode"),
    "openclaw": ("OPENCLAW_STATE_DIR", ".openclaw", ""),
    "gemini": ("GEMINI_CLI_HOME", "", ".gemini"),
    "qwen": ("QWEN_HOME", ".qwen", ""),
    "copilot": ("COPILOT_HOME", ".copilot", ""),
    "droid": ("FACTORY_HOME_OVERRIDE", "", ".factory"),
    "pi": ("PI_CODING_AGENT_DIR", ".pi/agent", ""),
    "omp": ("PI_CODING_AGENT_DIR", ".omp/agent", ""),
    "kilo": ("XDG_DATA_HOME", ".local/share", "kilo"),
    "kimi": ("KIMI_CODE_HOME", ".kimi-code", ""),
    "cline": ("CLINE_DIR", ".cline", ""),
}
"""The variable that names a folder, the folder below the user's home without it, and the host's own folder in either."""
TRANSCRIPT_FILES = {
    "claude": "projects/*/*.jsonl",
    "codex": "sessions/*/*/*/rollout-*.jsonl",
    "openclaw": "agents/*/sessions/*.jsonl",
    "gemini": "tmp/*/chats/*.json*",
    "qwen": "projects/*/chats/*.jsonl",
    "copilot": "session-state/*/events.jsonl",
    "droid": "sessions/*/*.jsonl",
    "pi": "sessions/*/*.jsonl",
    "omp": "sessions/*/*.jsonl",
    "kimi": "sessions/*/*/agents/main/wire.jsonl",
    "cline": "data/sessions/*/*.messages.json",
}
"""Files with conversations in a host's folder of data, as patterns."""
TRANSCRIPT_DATABASES = {"opencode": "opencode.db", "kilo": "kilo.db"}
HOST_ALIASES = {"claude-code": "claude", "gemini-cli": "gemini", "qwen-code": "qwen", "copilot-cli": "copilot"}
MOMENTS = ("session-start", "prompt", "turn-end", "turn-failed", "compact", "session-end", "subagent-start")
TOOL_MOMENTS = ("tool-before", "tool-after", "tool-failed")
"""Moments of a single tool call: they are answered, and never spooled."""
_ANSWERED_MOMENTS = ("session-start", "subagent-start", "prompt", *TOOL_MOMENTS)
"""Moments whose reply Claude Code reads; the reply repeats the name of the event."""


def resolve_host(name: str) -> str:
    """Return the host of a name or alias; empty if unknown."""
    name = HOST_ALIASES.get(name, name)
    return name if name in HOST_TITLES else ""


def host_data_folder(host: str, environment: Mapping[str, str], home: str = "") -> str:
    """Return the folder in which a host keeps its data; `home` is the user's, by default that of this process."""
    variable, default, below = _DATA_FOLDERS[host]
    folders = (environment[variable], below) if environment.get(variable) else (home or "~", default, below)
    return os.path.expanduser("/".join(filter(None, folders)))


def host_adapter(host: str) -> HostAdapter:
    if host not in HOST_TITLES:
        raise KeyError(host)
    module: HostAdapter = __import__(
        f"lorelog.hosts.{ADAPTERS.get(host, host)}", fromlist=[host]
    )  # `importlib` imports `warnings`
    return module


def detect_host(host: str, payload: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    """Return the actual host: Codex runs the hooks of a Claude Code bundle as if they were its own.

    Its transcripts are called rollouts, and its turns have an id that Claude Code's do not have. Inside a Claude Code
    session, which may run Codex, only the transcript's name decides.
    """
    if host != "claude":
        return host
    if str(payload.get("transcript_path")).rpartition("/")[2].startswith("rollout-"):
        return "codex"
    return "codex" if payload.get("turn_id") and not environment.get("CLAUDECODE") else host
