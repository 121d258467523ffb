"""Commands for coding agents and their hosts."""
