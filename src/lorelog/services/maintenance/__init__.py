"""Keep the index up to date: index runs over roots, followed file changes, and background work."""
