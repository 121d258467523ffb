"""Recognise a coding agent as the caller of a command, by the variables that hosts set in the shells they start.

This tells apart a person's terminal and an agent's shell as long as the agent does not hide. An agent runs with the
user's rights: it can unset a variable, as it can edit any file of the user. So it prevents accidents, not attacks.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

AGENT_MARKERS = {
    "OMPCODE": "Oh My Pi",
    "PI_CODING_AGENT": "Pi",
    "KILO": "Kilo Code",
    "FACTORY_EXEC_TARGET_AUTONOMY": "Factory Droid",
    "CLINE_CONNECTOR_CLI_LAUNCH": "Cline",
    "CLAUDECODE": "Claude Code",
    "CODEX_THREAD_ID": "Codex",
    "CODEX_SANDBOX": "Codex",
    "CODEX_SANDBOX_NETWORK_DISABLED": "Codex",
    "CODEX_CI": "Codex",
    "OPENCODE": "OpenCode",
    "OPENCODE_PID": "OpenCode",
    "OPENCLAW_SHELL": "OpenClaw",
    "OPENCLAW_CLI": "OpenClaw",
    "GEMINI_CLI": "Gemini CLI",
    "QWEN_CODE": "Qwen Code",
    "QWEN_CODE_SESSION_ID": "Qwen Code",
    "COPILOT_CLI": "Copilot CLI",
    "CURSOR_AGENT": "Cursor",
    "AI_AGENT": "an agent",
}
"""Variables that hosts set in the shells of their agents; the first counts, as some set those of others too. CODEX_HOME and the like
are set by people. Kimi Code sets none."""


def detect_agent(environment: Mapping[str, str]) -> str:
    """Return the name of the agent whose shell has this environment; empty for a person's."""
    return next((agent for variable, agent in AGENT_MARKERS.items() if environment.get(variable)), "")


def checked_origin(claimed: str, agent: str) -> str:
    """Return the origin of a text that is added: an agent cannot write the user's own words, whatever it claims."""
    return "agent" if agent and claimed == "user" else claimed


def hook_environment(environment: Mapping[str, str], variables: object) -> dict[str, str]:
    """Return the environment in which a hook's event is captured; `variables` are those of the event.

    A hook has the markers of an agent's shell too, so they say nothing about its event.
    """
    own = {**environment, **without_agent_markers(environment)}
    return {**own, **(variables if isinstance(variables, dict) else {})}


def without_agent_markers(environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables that undo the markers of an environment, for a call that a person confirmed."""
    return dict.fromkeys((variable for variable in AGENT_MARKERS if environment.get(variable)), "")
