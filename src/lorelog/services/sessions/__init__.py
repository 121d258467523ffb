"""Agent sessions: recent memory at the start, recall for prompts, and capture of every finished turn, once."""
