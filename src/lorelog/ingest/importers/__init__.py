"""Readers of other tools' memories, one module per tool. Not for writing: `services/imports` does that."""
