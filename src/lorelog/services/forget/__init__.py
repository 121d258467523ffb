"""Forgetting: text is taken out of every file of ours, and its absence is proven."""
