"""The door to secrets: `find` names those in a text, a `Redactor` replaces them wherever a text enters.

The rules are a table (`rules.toml`); `decoding` undoes what hides a secret, `redaction` knows what of an
environment is secret.
"""

from vibe_gate.secrets.redaction import Redactor
from vibe_gate.secrets.scan import SecretMatch, find, mask

__all__ = ["Redactor", "SecretMatch", "find", "mask"]
