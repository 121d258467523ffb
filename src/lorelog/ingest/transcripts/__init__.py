"""Transcripts: the conversations that agent hosts keep, read turn by turn.

`detect.open_conversation` finds out by its content what a file is. One module per host says what that host's records
mean (`claude`, `codex`, `opencode`, `openclaw`, `dsh`), `building` puts turns together within limits, and `lines`,
`documents` and `databases` bring the records in one at a time, whatever the size of the file.
"""
