"""A project's records as browsable Markdown pages. Everything in the wiki is derived; edit records, not pages."""
