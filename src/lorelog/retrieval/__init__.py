"""How is it found? Analyse, weigh the lanes, fuse, explain, cut snippets."""
