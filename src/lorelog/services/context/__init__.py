"""Context for an agent: relevant memories and records within a token budget, and the files that `init` writes."""
