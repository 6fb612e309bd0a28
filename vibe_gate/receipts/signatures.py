"""SSH signatures of receipts, by `ssh-keygen -Y`: offline, with the key that git signs commits
with.

git's configuration counts as for `git commit -S` (`gpg.format = ssh`, `user.signingKey`,
`gpg.ssh.program`, `gpg.ssh.allowedSignersFile`, `gpg.ssh.revocationFile`), but a program or list of
signers from the repository's own configuration is not used. Nothing prompts: without an unlocked
key the receipt is unsigned, and a note says why.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from vibe_gate.domain.escape import expression
from vibe_gate.domain.receipt import NAMESPACE

if TYPE_CHECKING:
    from vibe_gate.git import Repository

TIMEOUT_S = 10.0
"""Of one call: an ssh-agent that asks for a touch of the key gets that long."""

DEFAULT_PROGRAM = "ssh-keygen"

_KEPT = ("PATH", "HOME", "SSH_AUTH_SOCK", "SSH_SK_PROVIDER", "TMPDIR", "LANG")
_LITERAL = expression(r"(?:key::|(?:ssh|ecdsa|sk-ssh|sk-ecdsa)-)")
_KEY = expression(r"key (SHA256:[A-Za-z0-9+/]+)")
_MAX_PRINCIPALS = 20


SignatureState = Literal["unsigned", "bad", "unlisted", "listed", "valid", "unchecked"]
"""`valid`: correct, but there is no list of signers; `unchecked`: ssh-keygen could not check it."""


class SignatureCheck(Struct, frozen=True):
    """The result of checking a receipt's signature."""

    state: SignatureState
    key: str = ""
    """The key's fingerprint, or ""."""
    principals: tuple[str, ...] = ()
    """Those of the list who may have made it."""
    why: str = ""
    """Why it does not count, as a clause; "" if it is correct."""
    holders: tuple[str, ...] = ()
    """All names that the list has for the key, also for other purposes and times."""


class Signing(Struct, frozen=True):
    """git's configuration of SSH signatures; "" for what is not set."""

    key: str
    """A file, or a literal public key."""
    program: str
    """ssh-keygen, or what takes its place."""
    allowed: str
    """The file of the list of signers."""
    revoked: str
    """The file of revoked keys."""
    root: Path
    """Where relative paths start."""
    environ: Mapping[str, str]
    """The environment in which the program is started; HOME is what `~/` means."""

    def path(self, value: str) -> str:
        """An absolute path from one in git's configuration."""
        if value.startswith("~/"):
            value = f"{self.environ.get('HOME', '')}/{value[2:]}"
        return str(self.root / value)


def signing_of(repository: Repository) -> Signing:
    """Read git's configuration."""
    key = ""
    if (repository.config("gpg.format") or "").lower() == "ssh":
        key = repository.config("user.signingkey") or ""
    return Signing(
        key=key,
        program=repository.trusted_config("gpg.ssh.program") or DEFAULT_PROGRAM,
        allowed=repository.trusted_config("gpg.ssh.allowedsignersfile") or "",
        revoked=repository.trusted_config("gpg.ssh.revocationfile") or "",
        root=repository.root,
        environ=ssh_environment(repository.environment.variables),
    )


def ssh_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """What ssh-keygen is started with."""
    environ = {name: variables[name] for name in _KEPT if name in variables}
    return environ | {"LC_ALL": "C", "SSH_ASKPASS_REQUIRE": "never"}


class Signed(Struct, frozen=True):
    """An armoured signature, b"" if nothing was signed; `note` says why although a key is
    configured.
    """

    signature: bytes = b""
    note: str = ""


def sign_receipt(data: bytes, signing: Signing) -> Signed:
    """Sign `data` with the configured key; without one the result is empty."""
    if not signing.key:
        return Signed()
    with tempfile.TemporaryDirectory(prefix="vibe-gate-sign-") as folder:
        tool = _SshKeygen(signing, Path(folder))
        key_file = _key_file(signing, Path(folder))
        result = tool.run("-Y", "sign", "-f", key_file, "-n", NAMESPACE, stdin=data)
    if result.code or not result.out.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        return Signed(note=f"The receipt is unsigned: {_reason(result.err)}")
    return Signed(result.out)


def check_signature(
    data: bytes, signature: bytes, allowed: bytes | None, signing: Signing
) -> SignatureCheck:
    """Check a signature over `data`, offline. `allowed` is a list of signers in ssh-keygen's
    format.

    Without a list a correct signature is only `valid`. Entries must be valid today: the time in a
    receipt is its signer's claim.
    """
    if not signature:
        return SignatureCheck("unsigned", why="unsigned")
    with tempfile.TemporaryDirectory(prefix="vibe-gate-verify-") as folder:
        tool = _SshKeygen(signing, Path(folder))
        validity = tool.valid(data, signature)
        if validity.state != "valid" or allowed is None:
            return validity
        (tool.folder / "allowed").write_bytes(allowed)
        revoked = ("-r", signing.path(signing.revoked)) if signing.revoked else ()
        return _listed(tool, data, validity.key, revoked)


def read_configured_signers(signing: Signing) -> bytes | None:
    """The list that the user's git configuration names; None if it names none that can be read."""
    if not signing.allowed:
        return None
    try:
        return Path(signing.path(signing.allowed)).read_bytes()
    except OSError:
        return None


def _listed(tool: _SshKeygen, data: bytes, key: str, revoked: tuple[str, ...]) -> SignatureCheck:
    """Whether one of the list's names for the key, which made the signature, may have signed the
    data.
    """
    allowed = str(tool.folder / "allowed")
    signature = str(tool.folder / "signature")
    holders = _holders(tool, key)
    reason = f"signed by {key}, which is not in allowed_signers"
    principals: list[str] = []
    for holder in holders[:_MAX_PRINCIPALS]:
        identity = ("-f", allowed, "-I", holder, "-n", NAMESPACE)
        result = tool.run("-Y", "verify", *identity, "-s", signature, *revoked, stdin=data)
        if not result.code:
            principals.append(holder)
            continue
        refusal = _reason(result.err).replace(f"{allowed}:", "line ")
        reason = f"its key is in allowed_signers, but not for this: {refusal}"
    if principals:
        return SignatureCheck("listed", key, tuple(principals), holders=holders)
    return SignatureCheck("unlisted", key, why=reason, holders=holders)


def _holders(tool: _SshKeygen, key: str) -> tuple[str, ...]:
    """All names that the list has for a key (its fingerprint), on any line, for any purpose and
    time.

    `find-principals` reports only the first line that fits (OpenSSH 9.2), and on another one the
    key may be the author's. Certificates (`cert-authority`) are not looked at.
    """
    holders: list[str] = []
    for line in (tool.folder / "allowed").read_bytes().split(b"\n"):
        words = line.split()
        if not words or words[0].startswith(b"#"):
            continue
        if any(_fingerprint(word) == key for word in words):
            holders += _principals(line)
    return tuple(dict.fromkeys(holders))


def _principals(line: bytes) -> list[str]:
    """The names and patterns in the first field of a line, which may be quoted."""
    text = line.decode("utf-8", "replace").strip()
    field = text.split()[0]
    if text.startswith('"'):
        field = text[1:].partition('"')[0]
    return [name for name in field.split(",") if name]


def _fingerprint(word: bytes) -> str:
    """The fingerprint of a base64 public key as ssh-keygen writes it; "" for another word."""
    try:
        blob = base64.b64decode(word, validate=True)
    except binascii.Error:
        return ""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


class _Result(Struct, frozen=True):
    """The result of a call; a negative code says that it failed to start or to end, and `err`
    why.
    """

    code: int
    out: bytes
    err: str


class _SshKeygen:
    """ssh-keygen in a temporary folder, without a terminal."""

    def __init__(self, signing: Signing, folder: Path) -> None:
        self.folder = folder
        self._program = signing.program
        self._environ = signing.environ

    def run(self, *arguments: str, stdin: bytes = b"") -> _Result:
        """Run it, for at most TIMEOUT_S seconds."""
        try:
            process = subprocess.run(
                [self._program, *arguments],
                input=stdin,
                cwd=self.folder,  # a relative program or PATH entry must not mean the reviewed repository
                env=self._environ,
                capture_output=True,
                timeout=TIMEOUT_S,
                start_new_session=True,  # away from the terminal: a passphrase cannot be asked for
            )
        except subprocess.TimeoutExpired:
            return _Result(-1, b"", f"{self._program} did not finish within {TIMEOUT_S:g} seconds")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", error)
            return _Result(-1, b"", f"{self._program} could not be started: {reason}")
        error_text = process.stderr.decode("utf-8", "replace")
        return _Result(process.returncode, process.stdout, error_text)

    def valid(self, data: bytes, signature: bytes) -> SignatureCheck:
        """Whether the signature is correct, whoever made it: valid, bad or unchecked."""
        (self.folder / "signature").write_bytes(signature)
        signature_file = self.folder / "signature"
        arguments = ("-Y", "check-novalidate", "-n", NAMESPACE, "-s", str(signature_file))
        result = self.run(*arguments, stdin=data)
        if result.code < 0:
            return SignatureCheck("unchecked", why=result.err)
        key = _KEY.search(result.out.decode("utf-8", "replace"))
        if result.code or key is None:
            return SignatureCheck("bad", why=_reason(result.err))
        return SignatureCheck("valid", key[1])


def _key_file(signing: Signing, folder: Path) -> str:
    """The file of the key; a literal public key, whose private key is in an ssh-agent, is written
    to one.
    """
    if _LITERAL.match(signing.key):
        file = folder / "key.pub"
        file.write_bytes(
            signing.key.removeprefix("key::").encode("utf-8", "surrogateescape") + b"\n"
        )
        return str(file)
    return signing.path(signing.key)


def _reason(err: str) -> str:
    """ssh-keygen's error as one line, with the remedy if it is known."""
    reason = "ssh-keygen gave no reason"
    for line in err.replace("\r", "\n").split("\n"):
        if line.strip():
            reason = line.strip()  # the last one counts
    reason = reason.removeprefix("Enter passphrase: ")
    if "passphrase" in reason:
        return "its key needs a passphrase: `ssh-add` it"
    if "No private key found" in reason:
        return "its key is in no ssh-agent: `ssh-add` it"
    return reason
