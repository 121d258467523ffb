"""Commands about tasks, decisions and their ledger."""
