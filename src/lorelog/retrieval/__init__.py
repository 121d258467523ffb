"""Ranking: analyse text, weigh and fuse the lanes, explain scores, cut snippets. Pure computation, no I/O."""
