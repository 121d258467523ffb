"""Per-tenant state beside the index: deletions, supersession and expiry, feedback, and links from summaries to sources.

Not for the memories themselves: those are in the user's files and in the index.
"""
