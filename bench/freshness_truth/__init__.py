"""What is defined in two states of a repository, and what became of it, by each language's own parser.

Python is parsed by `ast`, Go by `go/parser`, TypeScript and JavaScript by the TypeScript compiler. Nothing here uses
lorelog. A definition's shape is its syntax tree (in Go: its tokens) without comments, documentation and layout.
"""
