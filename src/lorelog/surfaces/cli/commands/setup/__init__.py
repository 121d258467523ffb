"""Commands that set lorelog up and look after it."""
