"""Read the conversations that agent hosts store, turn by turn.

`conversation.open_conversation` detects a file's format by its content. `claude`, `codex`, `opencode`, `openclaw`, `gemini` (Gemini CLI, Qwen
Code) and `copilot` (Copilot CLI) interpret the records of hosts, `agent_formats` translates those of other agents, `turns` builds bounded turns from them, `turn_note` and `actions` extract the
content of memories, and `json_files` streams records from files of any size.
"""
