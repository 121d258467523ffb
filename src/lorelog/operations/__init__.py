"""What can be asked for by name? Every verb as a typed operation, so that shell, batch, HTTP, MCP and Python ask alike."""
