"""Parse source files with tree-sitter, and store their symbols, uses and imports in code.db."""
