"""Commands that other programs run."""
