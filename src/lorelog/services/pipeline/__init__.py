"""What the engine is built from: its dependencies and defaults, and the search pipeline."""
