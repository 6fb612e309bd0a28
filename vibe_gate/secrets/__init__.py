"""The door to secrets: `find_secrets` names those in a text, a `Redactor` replaces them wherever a text
enters.

The rules are a table (`rules.py`); `decoding` undoes what hides a secret, `published` tells
ciphertexts, hashes and the like apart, `redaction` knows what of an environment is secret,
`allowlist` what other scanners' lists allow.
"""

from vibe_gate.secrets.allowlist import FILE as GITLEAKS_FILE
from vibe_gate.secrets.allowlist import Allowlist, allowing_comment, read_allowlist
from vibe_gate.secrets.published import is_package_digest
from vibe_gate.secrets.redaction import Redactor
from vibe_gate.secrets.scan import BY_NAME, SecretMatch, find_secrets, mask, preview

__all__ = [
    "BY_NAME",
    "GITLEAKS_FILE",
    "Allowlist",
    "Redactor",
    "SecretMatch",
    "allowing_comment",
    "find_secrets",
    "is_package_digest",
    "mask",
    "preview",
    "read_allowlist",
]
