"""The shell asks: one module per command."""
