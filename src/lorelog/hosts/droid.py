"""Factory Droid: Claude Code's hooks, without an event for a call that failed.

In `droid exec` no prompt is reported, and a reply before a tool call reaches the model only if it stops the call, so
memories follow with the result of a call that succeeded.
"""

from __future__ import annotations

from lorelog.hosts import claude

MOMENTS = {
    event: claude.MOMENTS[event]
    for event in ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "PreCompact", "SessionEnd")
}
CONTEXT_FOLLOWS_CALL = True
answer, read_event, read_tool_call = claude.answer, claude.read_event, claude.read_tool_call
