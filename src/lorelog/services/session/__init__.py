"""What happens in an agent's session: shown what is recent, told that memory is there, its turns captured once each."""
