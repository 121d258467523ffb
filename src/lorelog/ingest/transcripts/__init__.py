"""Read the conversations that agent hosts store, turn by turn.

`conversation.open_conversation` detects a file's format by its content. One module per host interprets that host's
records (`claude`, `codex`, `opencode`, `openclaw`, `gemini`, `qwen`, `copilot`, `dsh`), `turns` builds bounded turns from them, `turn_note` and
`actions` extract the content of memories, and `json_files` and `databases` stream records from files of any size.
"""
