"""Where people and machines come in: thin, and without rules of their own."""
