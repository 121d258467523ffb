"""Forgetting: text is erased from every file of ours, and its absence is proven."""
