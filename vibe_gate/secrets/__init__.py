"""Secrets: rules, decoding of what hides them, and redaction of every text that is written or shown."""
