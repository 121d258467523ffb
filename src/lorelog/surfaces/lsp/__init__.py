"""The language server: what is remembered, at the line, in any editor. It reads only, unless the editor's settings let it write."""
