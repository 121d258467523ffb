"""Language support: detecting the language of a file, and hooks for rules that a tree-sitter query cannot express."""
