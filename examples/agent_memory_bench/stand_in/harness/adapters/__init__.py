"""The contract of an arm."""
