"""Brings memories to an agent when they matter: cues, guards, standing memories, and the log of what was delivered."""
