"""Input: find Markdown files and split them into chunks, read transcripts and stack traces, redact secrets, embed."""
