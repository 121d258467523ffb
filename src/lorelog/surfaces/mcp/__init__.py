"""The MCP surface: tools for agents over stdio (through a proxy) and streamable HTTP."""
