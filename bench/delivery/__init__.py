"""What is kept of a session, and what is brought back: measured on real and on made-up sessions."""
