"""Whose dialect? What each agent host tells its hooks and wants to hear from them. Pure translation: imports core only.

A host waits for its hooks, so nothing is imported here before it is needed.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    class Dialect(Protocol):
        """What each host's module offers."""

        MOMENTS: dict[str, str]
        """The host's own name of an event to the moment it is."""

        def read_event(self, moment: str, payload: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
            """Return what a payload tells, in the words of the spool."""

        def answer(self, moment: str, context: str, notice: str) -> dict[str, Any]:
            """Return the host's JSON: the context reaches the model, the notice the person."""


TITLES = {"claude": "Claude Code", "codex": "Codex", "opencode": "OpenCode", "openclaw": "OpenClaw"}
HOSTS = tuple(TITLES)
ALIASES = {"claude-code": "claude"}
MOMENTS = ("session-start", "prompt", "turn-end", "turn-failed", "compact", "session-end")


def known_host(word: str) -> str:
    """Return the host that a word names, or nothing."""
    word = ALIASES.get(word, word)
    return word if word in TITLES else ""


def dialect(host: str) -> Dialect:
    """Return the module of a host."""
    from importlib import import_module

    if host not in TITLES:
        raise KeyError(host)
    module: Dialect = import_module(f"lorelog.hosts.{host}")
    return module


def recognise(host: str, payload: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    """Return who really speaks: Codex runs the hooks of a bundle that was made for Claude Code as if they were its own.

    Its transcripts are called rollouts, and its turns have an id that Claude Code does not give; inside a Claude Code
    session, which may run Codex, the name of the transcript alone decides.
    """
    if host != "claude":
        return host
    transcript = payload.get("transcript_path")
    if isinstance(transcript, str) and transcript:
        name = transcript.rpartition("/")[2]
        if name.startswith("rollout-"):
            return "codex"
    return "codex" if payload.get("turn_id") and not environment.get("CLAUDECODE") else host
