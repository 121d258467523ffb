"""Index runs: from changed files to searchable chunks and vectors, whole or incremental, and the health of the index."""
