"""Export and import of records (JSON lines, Markdown, OMF). Not for transcripts, which `ingest` reads."""
