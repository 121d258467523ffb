"""The warm daemon: one process per user and home that answers for all others, and the thin client that asks it."""
