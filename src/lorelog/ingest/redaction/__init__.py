"""Replace secrets in text before it is stored. For conversations and tool output; the user's files are unchanged."""
