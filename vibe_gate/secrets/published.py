"""What looks like a secret and is made to be published: ciphertexts, hashes, public keys, documented keys."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import PurePosixPath

from vibe_gate.domain.escape import expression

_PUBLISHED_TOKEN = expression(
    r"(?:public[-_ ]?key"  # the hash of a .NET assembly's public key
    r"|[cx]srf|csrf[-_]?middleware|authenticity|request[-_]?verification|anti[-_]?forgery|(?<![a-z])form"
    r"|page|next|continuation|cursor|pagination|(?<!a)sync"  # where the next page of a list begins
    r")[-_ ]?token\Z|public[-_]?token\Z|[\"']_token\Z"
)
"""The end of a name whose token every page or answer shows."""

_ENCRYPTED_NAME = expression(
    r"(?:encrypted|sealed|hashed)[-_]?(?:[a-z0-9]{1,12}[-_]?)?(?:pass|pwd|secret|token|credential|key)\Z"
)
_DIGEST_NAME = expression(
    r"(?:checksum|digest|fingerprint|hash|integrity|md5|sha-?[0-9]{1,3}|commit|revision)s?[-_./:@][a-z0-9_./-]{0,60}\Z"
)
"""Before a secret's name: what stands there is the digest of one, as in Helm's `checksum/secret`."""

_DIGEST = expression(r"(?:sha-?[0-9]{1,3}[-:=])?(?:[0-9a-f]{32,128}|[A-Za-z0-9+/_-]{27,128}={0,2})\Z")

_PUBLISHED_VALUE = expression(
    r"A[gQ][A-D][A-Za-z0-9+/]{60,}={0,2}\Z"  # SealedSecrets: two bytes of length, a session key encrypted with RSA
    r"|ENC[\[(]"  # SOPS, eyaml, Jasypt
    r"|\$ANSIBLE_VAULT;|vault:v[0-9]{1,4}:|(?i:encrypted:|\{(?:cipher|aes)\})"
    r"|AQ[IE]CAH[A-Za-z0-9+/]{60,}={0,2}\Z"  # AWS KMS
    r"|U2FsdGVkX1[89+/][A-Za-z0-9+/]|gAAAAA[A-Za-z0-9_-]{60,}={0,2}\Z"  # `openssl enc`, Fernet
    r"|AQAAANCMnd8BFdERjHoAwE/Cl\+|(?i:01000000d08c9ddf0115d1118c7a00c04fc297eb)"  # Windows' DPAPI
    r"|76492d1116743f0423413b16050a5345"  # PowerShell's ConvertFrom-SecureString with a key
    r"|age1[02-9ac-hj-np-z]{58}\Z"  # the public key of age
    r"|(?i:sha(?:-?(?:1|224|256|384|512))?[-:=])[A-Za-z0-9+/_-]{27,128}={0,2}\Z"
    r"|v?[0-9]{1,9}+(?:\.[0-9]{1,9}+){1,5}+[\w.-]{0,60}+=[A-Za-z]"  # a version and where it is used: gradle.lockfile
)
"""How ciphertexts, public keys, digests and entries of lock files begin."""

_PASSWORD_HASH = expression(
    r"(?:\{[a-z0-9-]{2,20}\})?(?:"
    r"(?:django[-_])?pbkdf2[a-z0-9_-]*[$:]|scrypt[$:]|argon2(?:id|i|d)?[$:]|bcrypt(?:_sha256)?\$"
    r"|scram-sha-(?:1|256|512)[$:]|sha(?:1|256|512)(?:_crypt)?\$|sha1:[0-9a-f]{12}:[0-9a-f]{40}|md5(?:\$|[0-9a-f]{32}\Z)"
    r"|\$\$?(?:1|2[abxy]?|5|6|7|y|p|s|apr1|argon2|scrypt|pbkdf2)[a-z0-9-]{0,12}\$"
    r"|\{(?:s?sha|s?md5|crypt|pbkdf2|argon2|bcrypt)[a-z0-9-]{0,12}\}"
    r"|aqaaaa[ei]a[a-z0-9+/]{70,80}={0,2}\Z)"  # ASP.NET Identity
)
"""How the hash of a password begins, in lower case."""

_SEALED_DOCUMENT = expression(r"kind\\?[\"']?:[ \t]{0,4}\\?[\"']?SealedSecret\b|encryptedData\\?[\"']?:")
_BASE64 = expression(r"[A-Za-z0-9+/]{40,}={0,2}\Z")
_REACH = 20_000
"""Characters around a value in which the kind of its document is looked for."""

_DOCUMENTED_DIGESTS = frozenset(
    {
        # account keys of Azurite and of the Cosmos DB emulator
        "0011cc25eb4320717494d2703e8cba85743e71b500283c21c8b88147992f9059",
        "aa6547439583c3a275d4542a0df6c1ad6a863971be9f2a2220f027cc02aef615",
        # user and key of play.min.io
        "1bbb9293c38acc5e510d904495845d532df64a9e5996b2ec7c86cc2e2ac33b5a",
        "df452eef23e8cf2c74af54c0c7419c05a5ec70ef4d5c2eb04082b02af8c55598",
        # secrets that reCAPTCHA and Turnstile have for tests
        "f5e95c9954635b65acab57e6d5ea663eb900f06dc8794a90358f5abb1c77d4e0",
        "fb8f35129df87662c650ada12fd614f1b58dce4a37fdd7589ba3a6b9a78c0aae",
        # the first three accounts of Hardhat's and Anvil's chains
        "60a09e4357868c1e9b801052726d061c370429f723db84523ed58ac354f6eb8a",
        "095101cf732c298a0ce0320b9de704209cdd8640b70d8fdf4e5be51aa2eb272e",
        "bb4978fbe7638de8e6ee13d9a59a5fb047beb0f0ee059fe166541b1f96b6af63",
    }
)
"""SHA-256 of keys that a program's documentation gives to everybody. As text they would be findings here."""

_DOCUMENTED_CLAIMS = ({"sub": "1234567890"}, {"name": "John Doe"}, {"iss": "supabase-demo"})
"""What tokens of jwt.io and of Supabase's local server say; one of them is enough."""

_MAX_TOKEN = 4_000
"""Characters of the longest JSON Web Token that is read."""

_LOCK_FILES = """
    package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock deno.lock cargo.lock go.sum go.work.sum
    poetry.lock uv.lock pdm.lock pipfile.lock pylock.toml pixi.lock conda-lock.yml composer.lock gemfile.lock
    podfile.lock package.resolved cartfile.resolved mix.lock rebar.lock pubspec.lock flake.lock gradle.lockfile
    buildscript-gradle.lockfile verification-metadata.xml packages.lock.json paket.lock conan.lock chart.lock
    .terraform.lock.hcl module.bazel.lock cabal.project.freeze stack.yaml.lock shard.lock
"""
LOCK_FILES = frozenset(_LOCK_FILES.split())
"""Files of names, versions and digests that a package manager writes."""


def is_lock_file(path: str) -> bool:
    """Whether a package manager wrote the file, so that a random value in it is a digest."""
    return PurePosixPath(path).name.lower() in LOCK_FILES


def names_published_value(name: str, value: str) -> bool:
    """Whether the name says that its value is published: `csrf_token`, `checksum/secret`, `encrypted_password`.

    `name` ends with the secret's name that it has.
    """
    lowered = name.lower()
    if _PUBLISHED_TOKEN.search(lowered) or _ENCRYPTED_NAME.search(lowered):
        return True
    return _DIGEST_NAME.search(lowered) is not None and _DIGEST.match(value) is not None


def is_published_value(value: str) -> bool:
    """Whether the value is a ciphertext, a password's hash, a public key or a digest by its form."""
    return bool(_PUBLISHED_VALUE.match(value) or _PASSWORD_HASH.match(value.lower()))


def is_sealed(text: str, start: int, end: int) -> bool:
    """Whether `text[start:end]` is base64 in a SealedSecret of Kubernetes, or in a list of them."""
    if not _BASE64.match(text[start:end]):
        return False
    first, last = max(0, start - _REACH), min(len(text), end + _REACH)
    document_start = max(first, text.rfind("\n---", first, start))
    document_end = text.find("\n---", end, last)
    return bool(_SEALED_DOCUMENT.search(text, document_start, document_end if document_end >= 0 else last))


def is_documented_value(value: str) -> bool:
    """Whether a program's documentation gives this value to everybody."""
    if value.startswith("eyJ"):
        return _has_documented_claims(value)
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest() in _DOCUMENTED_DIGESTS


def _has_documented_claims(token: str) -> bool:
    parts = token[:_MAX_TOKEN].split(".")
    if len(parts) < 2:
        return False
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return False
    if not isinstance(claims, dict):
        return False
    return any(documented.items() <= claims.items() for documented in _DOCUMENTED_CLAIMS)
