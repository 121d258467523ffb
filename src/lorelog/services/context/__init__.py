"""What an agent should know before it works: what is marked for it, what fits its task, and a file that holds it all."""
