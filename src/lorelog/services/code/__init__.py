"""Index the code of working trees, keep it up to date, and find definitions, uses, callers and imports."""
