"""How does it come in? Scan roots, cut Markdown into chunks, embed what is new."""
