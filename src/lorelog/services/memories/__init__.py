"""Write, list, expand, supersede, summarize and delete memories. Journals are only ever appended to.

Not for indexing files or searching: see `indexing` and `search`.
"""
