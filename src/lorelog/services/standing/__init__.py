"""Standing memories: which memories are the user's own, which stand, and the files that hooks read."""
