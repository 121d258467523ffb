"""Recognise stack traces and error messages in program output and logs, and compute signatures of equal errors."""
