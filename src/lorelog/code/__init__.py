"""What is in the code? Symbols, uses, imports: parsed by tree-sitter, kept in a database that can be made again at any time."""
