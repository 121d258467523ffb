"""Client side of the daemon: find, start, call and stop it. Light enough for hooks and warm commands; not the server."""
