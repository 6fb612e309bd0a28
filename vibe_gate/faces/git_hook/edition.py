"""Which edition of the scripts this version writes; they say theirs when they call, so that an older one is noticed."""

EDITION = "3"
"""Another one with every change of `scripts.py` that an installed hook should get (a test holds its digest)."""

OPTION = "--edition="
"""How a script says it, before the arguments of git."""
