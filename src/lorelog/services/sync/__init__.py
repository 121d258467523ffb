"""Exchange of memories, records and their state between machines over a Git remote of the user's."""
