"""What stands in a request and was not written by the person: context that programs put in, ours first of all.

What lorelog showed an agent must never come back as a memory: it would be found, shown again and captured again. Other
programs wrap what they inject in tags of their own, and hosts put instructions and surroundings where a request is kept.
"""

from __future__ import annotations

import re

_TAGS = (
    "lorelog-memory",
    "lorelog-context",
    "memsearch-context",
    "memsearch-memory",
    "relevant-memories",
    "relevant_memories",
    "memory-context",
    "memory_context",
    "claude-mem-context",
    "supermemory-context",
    "hindsight_memories",
    "hook_context",
    "system-reminder",
    "system_reminder",
    "environment_context",
    "environment_details",
    "user_instructions",
    "INSTRUCTIONS",
    "permissions instructions",
    "collaboration_mode",
    "apps_instructions",
    "skills_instructions",
    "subagent_notification",
    "task-notification",
    "turn_aborted",
    "local-command-caveat",
    "local-command-stdout",
    "local-command-stderr",
    "ide_opened_file",
    "ide_selection",
    "ide_diagnostics",
    "post-tool-use-hook",
    "user-prompt-submit-hook",
)
_NAMES = "|".join(map(re.escape, _TAGS))
_BLOCK = re.compile(rf"<({_NAMES})(?:\s[^<>]*)?>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_LONE_END = re.compile(rf"</(?:{_NAMES})>", re.IGNORECASE)
_AGENTS = re.compile(r"\A\s*# AGENTS\.md instructions\b.*", re.DOTALL)
_ENVELOPE = re.compile(
    r"\A\s*(?:"
    r"\[(?:\w{3} )?\d{4}-\d\d-\d\d[ T]\d\d:\d\d[^\]\n]{0,40}\]\s*"  # the time, as gateways put it before a message
    r"|(?:Conversation info|Sender|Thread starter|Replied message)[^\n]{0,60}\(untrusted[^\n]*\n```(?:json)?\n.*?\n```\s*"
    r"|System: \[\d{4}-\d\d-\d\d[^\n]*\n"
    r")",
    re.DOTALL,
)
_MOST_ENVELOPES = 8


def without_noise(text: str) -> str:
    """Return what a person wrote of a request."""
    text = _LONE_END.sub("", _BLOCK.sub("", text))
    text = _AGENTS.sub("", text)
    for _ in range(_MOST_ENVELOPES):
        shorter = _ENVELOPE.sub("", text, count=1)
        if shorter == text:
            break
        text = shorter
    return text.strip()
