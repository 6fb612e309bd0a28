"""Pure renderings of a Summary."""
