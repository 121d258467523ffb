"""Whether the code that a memory names is still as it was when the memory was made."""
