"""What happens? One module per verb, over ports only."""
