"""User interfaces: CLI, daemon, MCP, HTTP and Python. Each parses a request, calls one operation and formats the reply."""
