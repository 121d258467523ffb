"""Watch the roots of a home for file changes, and keep the index up to date."""
