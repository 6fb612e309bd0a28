"""Pure words: values and decisions, with no I/O, no clock and no async."""
