"""Check whether the code that a memory mentions is unchanged since the memory was made."""
