"""Lines of code: the session that wrote one, and why it exists. Not for errors; those are in `services/traces`."""
