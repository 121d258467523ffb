"""Commands that find and change memories."""
