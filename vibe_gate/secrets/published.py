"""What looks like a secret and is made to be published: ciphertexts, hashes, public keys,
documented keys.

A form counts only as a whole: its salt, its length, its alphabet and its closing bracket. What
merely begins like one may be a secret behind a prefix, and is reported.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from pathlib import PurePosixPath

from vibe_gate.domain.escape import expression

_ASSEMBLY_TOKEN = expression(r"(?<![A-Za-z])(?i:public[-_]?key[-_]?token)\Z")
"""The end of the name of a .NET assembly's public key token."""
_ASSEMBLY_TOKEN_VALUE = expression(r"[0-9A-Fa-f]{16}\Z")

_PUBLISHED_TOKEN = expression(
    r"(?:(?<![A-Za-z0-9_.-])(?:"
    r"_{0,2}(?:csrf|xsrf)[-_]?[Tt]oken|csrfmiddlewaretoken|(?:X-)?(?:CSRF|XSRF|Csrf|Xsrf)-?(?:Token|TOKEN)"
    r"|(?:x|data)-(?:csrf|xsrf)-token"
    r"|authenticity(?:_t|T)oken|__RequestVerificationToken"
    r"|(?:next(?:_p|P)age|NextPage|continuation|nextSync)(?:_t|T)oken|public(?:_t|-t|T)oken)"
    r"|[?&](?:page|next|continuation)(?:_t|T)oken)\Z"
)
"""The whole name of a token that every page or answer shows. In capitals it is a setting:
CSRF_TOKEN, FB_PAGE_TOKEN.
"""

_ENCRYPTED_NAME = expression(
    r"(?<![A-Za-z])(?<!not[-_])(?<!non[-_])(?i:encrypted|sealed|hashed)[-_]?"
    r"(?:(?!(?i:cookie|session|secret|jwt))[A-Za-z0-9]{1,12}[-_]?)?"  # a secret of these encrypts others
    r"(?i:pass|pwd|secret|token|credential|key)\Z"
)
_ENCRYPTED_TAIL = expression(
    r"(?:\A|[-_.])(?i:encrypted|ciphertext|crypted|sealed|hashed)\Z|\A(?:Encrypted|Hashed)\Z"
)
_MARKED_BASE64 = expression(
    r"(?=[A-Za-z0-9]{0,200}[+/=])(?:[A-Za-z0-9+/]{4}){6,}[A-Za-z0-9+/]{2}(?:[A-Za-z0-9+/]|=)=\Z"
)
"""Base64 of bytes, which random letters and digits are not: with its padding."""
_LONG_BASE64 = expression(r"(?=[A-Za-z0-9]{0,200}[+/])(?:[A-Za-z0-9+/]{4}){10,}\Z")
"""Base64 of bytes without padding, told by its other marks."""

_ID_TAIL = expression(
    r"(?:\A|[-_.])(?i:uuid|guid|oid|commit|rev|revision|etag|fingerprint|thumbprint)\Z"
    r"|\A(?:Uuid|UUID|Guid|Commit|Rev|Revision|Etag|ETag|Fingerprint|Thumbprint)\Z"
)
_ID = expression(r"[0-9A-Fa-f:-]{8,200}\Z")
_IMAGE_TAIL = expression(r"(?i:\A[-_.]?image)\Z")
_IMAGE = expression(
    r"[a-z0-9.-]{1,100}(?::[0-9]{2,5})?/[a-z0-9._/-]{1,200}[:@][A-Za-z0-9_.:-]{1,200}\Z"
)
_PUBLIC_FILE_TAIL = expression(r"(?i:\.pub)\Z")

_HEX_DIGEST = r"(?:[0-9a-f]{128}|[0-9a-f]{96}|[0-9a-f]{64}|[0-9a-f]{56}|[0-9a-f]{40}|[0-9a-f]{32})"
_DIGEST_NAME = expression(
    r"(?<![a-z0-9_])(?:[a-z]{1,20}-)?(?:checksum|digest|fingerprint|hash|integrity|md5|sha-?[0-9]{1,3})s?"
    r"/[a-z0-9_./-]{0,60}\Z"
)
"""Before a secret's name: what stands there is the digest of one, as in Helm's
`checksum/secret`.
"""
_DIGEST = expression(_HEX_DIGEST + r"\Z")

_PREFIXED_DIGEST = (
    r"(?i:sha(?:-?1)?)[-:=](?:[0-9a-f]{40}|[A-Za-z0-9+/]{27}=)|(?i:sha-?224)[-:=][0-9a-f]{56}"
    r"|(?i:sha-?256)[-:=](?:[0-9a-f]{64}|[A-Za-z0-9+/]{43}=)"
    r"|(?i:sha-?384)[-:=](?:[0-9a-f]{96}|(?=[A-Za-z0-9]{0,63}[+/])[A-Za-z0-9+/]{64})"
    r"|(?i:sha-?512)[-:=](?:[0-9a-f]{128}|[A-Za-z0-9+/]{86}==?)"
)
_GRADLE_ENTRY = (
    r"v?[0-9]{1,9}+(?:\.[0-9]{1,9}+){1,5}+(?:[.-][A-Za-z0-9.-]{1,30})?=[A-Za-z0-9]{0,60}"
    r"(?<=[a-z0-9=])(?i:classpath|processor)"
)
_BASE64 = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"

_PUBLISHED_VALUE = expression(
    r"(?:A[gQ][A-D][A-Za-z0-9+/]{340,}={0,2}"  # SealedSecrets: two bytes of length, a session key encrypted with RSA
    r"|ENC\[AES256_GCM,data:[A-Za-z0-9+/]{2,}={0,2},iv:[A-Za-z0-9+/]{43}=,tag:[A-Za-z0-9+/]{22}==,type:[a-z]{1,9}\]"
    r"|ENC\[PKCS7,MII[A-Za-z0-9+/]{50,}={0,2}\]?"  # eyaml, whose value goes on in further lines
    r"|\$ANSIBLE_VAULT;1\.[0-2];AES256(?:;[\w.-]{1,60})?(?:\s{1,40}[0-9a-f]{64,})*"
    r"|encrypted:B[A-P][A-Za-z0-9+/]{126,}={0,2}"  # dotenvx: a point of a curve, and more
    r"|\{cipher\}[0-9a-f]{64,}"
    rf"|\{{(?:AES|AES256)\}}(?=[A-Za-z0-9+/]{{0,200}}[+/=]){_BASE64}"
    r"|AQ[IE]CAH[A-Za-z0-9+/]{140,}={0,2}"  # AWS KMS
    rf"|(?=U2FsdGVkX1[89+/][A-Za-z0-9+/=]{{33,}}\Z){_BASE64}"  # `openssl enc`
    r"|AQAAANCMnd8BFdERjHoAwE/Cl\+[A-Za-z0-9+/]{100,}={0,2}"  # Windows' DPAPI
    r"|(?i:01000000d08c9ddf0115d1118c7a00c04fc297eb[0-9a-f]{80,})"
    r"|76492d1116743f0423413b16050a5345[A-Za-z0-9+/]{60,}={0,2}"  # PowerShell's ConvertFrom-SecureString with a key
    r"|age1[02-9ac-hj-np-z]{58}"  # the public key of age
    rf"|{_PREFIXED_DIGEST}|{_GRADLE_ENTRY})\Z"
)
"""Whole ciphertexts, public keys, digests and entries of lock files."""

_PREFIX = expression(
    r"ENC[(\[]|encrypted:|vault:v[0-9]{1,4}:|(?:scrypt|bcrypt|pbkdf2|argon2(?:id|i|d)?):|\{(?:cipher|(?i:aes))\}"
    r"|\$(?:1|2[abxy]?|5|6|7|y|apr1)\$"
)
"""What ciphertexts and hashes begin with, and secrets that are dressed as one."""

_TRANSIT = "vault:v"
_JASYPT = expression(rf"ENC\(({_BASE64})\)\Z")
_JASYPT_BLOCK, _SHORTEST_JASYPT = 8, 16
"""Bytes of the shortest block of its ciphers, and of the shortest salt with one block."""
_FERNET = expression(r"gAAAAA[A-Za-z0-9_-]{90,}={0,2}\Z")
_FERNET_BYTES, _BLOCK = 57, 16
"""Bytes of a Fernet token beside its blocks, and bytes of each block."""

_CRYPT = (
    r"\$1\$[./A-Za-z0-9]{1,8}\$[./A-Za-z0-9]{22}|\$apr1\$[./A-Za-z0-9]{1,8}\$[./A-Za-z0-9]{22}"
    r"|\$5\$(?:rounds=[0-9]{1,9}\$)?[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]{43}"
    r"|\$6\$(?:rounds=[0-9]{1,9}\$)?[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]{86}"
    r"|\$y\$[./A-Za-z0-9]{1,9}\$[./A-Za-z0-9]{1,86}\$[./A-Za-z0-9]{43}"
)
_BCRYPT = r"\$\$?2[abxy]?\$[0-9]{2}\$[./A-Za-z0-9]{53}"
_ARGON2 = r"\$argon2(?:id|i|d)\$v=[0-9]{1,3}\$m=[0-9]{1,9},t=[0-9]{1,9},p=[0-9]{1,9}\$[A-Za-z0-9+/]{11,}\$[A-Za-z0-9+/]{22,}"
_PASSWORD_HASH = expression(
    rf"(?:(?:\{{[a-z0-9-]{{2,20}}\}})?(?:{_CRYPT}|{_BCRYPT}|{_ARGON2})"
    rf"|bcrypt(?:_sha256)?\$(?:{_BCRYPT})|argon2[:$]?(?:{_ARGON2})"
    r"|pbkdf2_sha(?:1|256)\$[0-9]{1,9}\$[A-Za-z0-9./+=]{8,64}\$(?:[A-Za-z0-9+/]{27}=|[A-Za-z0-9+/]{43}=)"
    rf"|pbkdf2:sha(?:1|256|512)(?::[0-9]{{1,9}})?\$[A-Za-z0-9]{{8,64}}\${_HEX_DIGEST}"
    r"|\$pbkdf2(?:-sha(?:256|512))?\$[0-9]{1,9}\$[./A-Za-z0-9]{8,90}\$(?:[./A-Za-z0-9]{27}|[./A-Za-z0-9]{43}|[./A-Za-z0-9]{86})"
    r"|scrypt:[0-9]{1,9}:[0-9]{1,3}:[0-9]{1,3}\$[A-Za-z0-9]{8,64}\$[0-9a-f]{128}"
    r"|SCRAM-SHA-(?:256\$[0-9]{1,9}:[A-Za-z0-9+/]{22}==\$[A-Za-z0-9+/]{43}=:[A-Za-z0-9+/]{43}="
    r"|1\$[0-9]{1,9}:[A-Za-z0-9+/=]{16,32}\$[A-Za-z0-9+/]{27}=:[A-Za-z0-9+/]{27}=)"
    r"|sha1\$[A-Za-z0-9]{1,32}\$[0-9a-f]{40}|md5\$[A-Za-z0-9]{1,32}\$[0-9a-f]{32}"
    r"|sha1:[0-9a-f]{12}:[0-9a-f]{40}|md5[0-9a-f]{32}"
    r"|\{(?i:s?sha|s?md5)(?:-?(?:256|384|512))?\}(?=[A-Za-z0-9+/=]{24,})(?=[A-Za-z0-9]{0,200}[+/=])"
    + _BASE64
    + r"|AQAAAA[EI]AA[A-Za-z0-9+/]{3}AAAAE[A-Za-z0-9+/]{65}==)\Z"  # ASP.NET Identity
)
"""Whole hashes of passwords: an algorithm, a salt, and a hash of the length that the algorithm
has.
"""

_SEALED = "encryptedData"
_SEALED_MAPPING = expression(
    r"^(?P<indent>[ \t]{0,40})(?:- )?encryptedData:[ \t]{0,9}\r?\n(?P<values>(?:(?P=indent)[ \t][^\n]*(?:\n|\Z))+)"
    r"|\\?\"encryptedData\\?\"\s{0,9}:\s{0,9}\{(?P<members>[^{}]*)\}",
    re.MULTILINE,
)
"""The mapping of a SealedSecret of Kubernetes, in YAML and in JSON, with what it holds."""
_SEALED_VALUE = expression(r"A[gQ][A-D][A-Za-z0-9+/]{60,}={0,2}\Z")

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
        # tokens of Supabase's local server: anon, service_role
        "bf1725a8f98bea37e88618702e725ba84bd8acdb2647c5e0ed638bfd685791cf",
        "70541e07fd4f900b66e289f5be55c85f9bef1def4924a5b0c518c45ea1688c12",
    }
)
"""SHA-256 of keys that a program's documentation gives to everybody. As text they would be findings
here.
"""

_DOCUMENTED_CLAIMS = frozenset(
    {
        "3373cfa8cfd3d25622125d01af103fd4727b8d44648999185b68346ab5f4d59d",
        "25be1edd45a3a982faa1861a20949eb23625d150d1926403060937ade7f2a1de",
        "9cad21446b79d6b1604a6f3e50d15769c94a1b6ed0f3f49ebf871f7ecca7fdb8",
    }
)
"""SHA-256 of the part with the claims in tokens of jwt.io, whatever signs them: they say nothing
else.
"""

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


_PACKAGE_DIGEST = expression(
    rf"(?:(?:[0-9a-z]{{1,6}}/)?{_HEX_DIGEST}|{_PREFIXED_DIGEST}|{_GRADLE_ENTRY}|h1:[A-Za-z0-9+/]{{43}}="
    r"|[A-Za-z0-9+/]{86}==)\Z"
)
"""Values that package managers write: digests, and versions with where they are used."""
_SECRETS_NAME = expression(
    r"(?i:passw|passphrase|pwd|secret|credential|(?:api|access|private|auth)[-_. ]?key)"
)
_NAME_REACH = 200
"""Characters before a value in which its name is looked for."""


def is_package_digest(path: str, text: str, start: int, end: int) -> bool:
    """Whether `text[start:end]` is a digest that a package manager wrote into this file.

    A value under a name such as DB_PASSWORD is none, whatever the file is called.
    """
    if PurePosixPath(path).name.lower() not in LOCK_FILES or not _PACKAGE_DIGEST.match(
        text[start:end]
    ):
        return False
    lines = text[max(0, start - _NAME_REACH) : start].split("\n")
    return _SECRETS_NAME.search("\n".join(lines[-2:])) is None


def names_published_value(name: str, tail: str, value: str) -> bool:
    """Whether the name says that its value is published, and the value has the form of one.

    `name` ends with the secret's name that it has, and `tail` is the rest of it.
    """
    if _PUBLISHED_TOKEN.search(name):
        return True
    if _ASSEMBLY_TOKEN.search(name):
        return _ASSEMBLY_TOKEN_VALUE.match(value) is not None
    if _ENCRYPTED_NAME.search(name) or _ENCRYPTED_TAIL.search(tail):
        return bool(_MARKED_BASE64.match(value) or _LONG_BASE64.match(value))
    if _ID_TAIL.search(tail):
        return _ID.match(value) is not None
    if _IMAGE_TAIL.search(tail):
        return _IMAGE.match(value) is not None
    if _PUBLIC_FILE_TAIL.search(tail):
        return True
    return _DIGEST_NAME.search(name.lower()) is not None and _DIGEST.match(value) is not None


def is_published_value(value: str) -> bool:
    """Whether the value is a ciphertext, a password's hash, a public key or a digest by its whole
    form.
    """
    if _PUBLISHED_VALUE.match(value) or _PASSWORD_HASH.match(value):
        return True
    if value.startswith(_TRANSIT):
        version, _, ciphertext = value.removeprefix(_TRANSIT).partition(":")
        is_base64 = _MARKED_BASE64.match(ciphertext) or _LONG_BASE64.match(ciphertext)
        return version.isdigit() and len(ciphertext) >= _SHORTEST_TRANSIT and is_base64 is not None
    if jasypt := _JASYPT.match(value):
        size = _size_of(jasypt[1])
        return size >= _SHORTEST_JASYPT and size % _JASYPT_BLOCK == 0
    return _FERNET.match(value) is not None and (_size_of(value) - _FERNET_BYTES) % _BLOCK == 0


def without_prefix(value: str) -> str:
    """The value without what a ciphertext begins with, and without its closing bracket."""
    prefix = _PREFIX.match(value)
    if prefix:
        return value[prefix.end() :].rstrip(")]")
    return value


_SHORTEST_TRANSIT = 40
"""Characters of a nonce, a tag and one byte in base64."""


def _size_of(value: str) -> int:
    """The number of bytes that a value is base64 of."""
    return len(value.rstrip("=")) * 3 // 4


def sealed_spans(text: str) -> list[tuple[int, int]]:
    """Where the mappings `encryptedData` of SealedSecrets stand in a text of YAML or JSON, in
    order.
    """
    if _SEALED not in text:
        return []
    spans = (
        match.span("values" if match["values"] else "members")
        for match in _SEALED_MAPPING.finditer(text)
    )
    return [span for span in spans if span[0] >= 0]


def is_sealed(spans: list[tuple[int, int]], text: str, start: int, end: int) -> bool:
    """Whether `text[start:end]` has the form of a sealed value and stands in one of the spans."""
    number = bisect_right(spans, (start, len(text))) - 1
    if number < 0 or end > spans[number][1]:
        return False
    return _SEALED_VALUE.match(text[start:end]) is not None


def is_documented_value(value: str) -> bool:
    """Whether a program's documentation gives this value to everybody: a whole key, or a whole
    token's claims.
    """
    if _digest_of(value) in _DOCUMENTED_DIGESTS:
        return True
    parts = value[:_MAX_TOKEN].split(".") if value.startswith("eyJ") else []
    return len(parts) > 1 and _digest_of(parts[1]) in _DOCUMENTED_CLAIMS


def _digest_of(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
