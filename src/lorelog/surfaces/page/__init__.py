"""The page: memories, records and health in a browser. `app` serves it, `markdown` renders text, `static/` is what the browser loads."""
