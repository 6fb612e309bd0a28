"""SSH signatures of receipts, by `ssh-keygen -Y`: offline, with the key that git signs commits with.

git's configuration is honoured as `git commit -S` honours it (`gpg.format = ssh`,
`user.signingKey`, `gpg.ssh.program`, `gpg.ssh.allowedSignersFile`,
`gpg.ssh.revocationFile`), with one difference: a program or a list of signers that
the repository's own configuration names is not used. Nothing ever asks a question
or waits for one: without an unlocked key the receipt stays unsigned, and a note says why.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from vibe_gate.domain.expressions import expression
from vibe_gate.domain.receipt import NAMESPACE, Signature

PATIENCE_S = 10.0
"""Seconds for one call: an agent that asks for a touch of the key gets that long."""

DEFAULT_PROGRAM = "ssh-keygen"

_KEPT = ("PATH", "HOME", "SSH_AUTH_SOCK", "SSH_SK_PROVIDER", "TMPDIR", "LANG")
_LITERAL = expression(r"(?:key::|(?:ssh|ecdsa|sk-ssh|sk-ecdsa)-)")
_KEY = expression(r"key (SHA256:[A-Za-z0-9+/]+)")
_PRINCIPALS_AT_MOST = 20


@dataclass(frozen=True, slots=True)
class Signing:
    """What git's configuration says about SSH signatures; "" for what it does not say. `root` is for relative paths."""

    key: str
    program: str
    allowed: str
    revoked: str
    root: Path


class Configured(Protocol):
    """A repository, as far as its git configuration is read."""

    root: Path

    def config(self, name: str) -> str | None:
        """A value from every scope."""

    def given(self, name: str) -> str | None:
        """The same without what the repository's own configuration says."""


def signing_of(repository: Configured) -> Signing:
    """Read git's configuration."""
    ssh = (repository.config("gpg.format") or "").lower() == "ssh"
    return Signing(
        key=(repository.config("user.signingkey") or "") if ssh else "",
        program=repository.given("gpg.ssh.program") or DEFAULT_PROGRAM,
        allowed=repository.given("gpg.ssh.allowedsignersfile") or "",
        revoked=repository.given("gpg.ssh.revocationfile") or "",
        root=repository.root,
    )


@dataclass(frozen=True, slots=True)
class Signed:
    """An armoured signature and the key's fingerprint; both "" where nothing was signed, and a note why not."""

    signature: bytes = b""
    key: str = ""
    note: str = ""


def sign(data: bytes, signing: Signing, environ: Mapping[str, str]) -> Signed:
    """Sign `data` with the configured key; unsigned without a note where none is configured."""
    if not signing.key:
        return Signed()
    with tempfile.TemporaryDirectory(prefix="vibe-gate-sign-") as folder:
        tool = _Tool(signing.program, environ, Path(folder))
        done = tool.run("-Y", "sign", "-f", _key_file(signing, environ, Path(folder)), "-n", NAMESPACE, stdin=data)
        if done.why or done.code or not done.out.startswith(b"-----BEGIN SSH SIGNATURE-----"):
            return Signed(note=f"The receipt is not signed: {done.why or _reason(done.err)}")
        made = tool.valid(data, done.out)
    if made.state != "valid":
        return Signed(note=f"The receipt is not signed: {signing.program} made a signature that does not hold.")
    return Signed(done.out, made.key)


def check(
    data: bytes, signature: bytes, allowed: bytes | None, signing: Signing, environ: Mapping[str, str]
) -> Signature:
    """Look at a signature over `data`, offline. `allowed` is a list of allowed signers as ssh-keygen reads it.

    None: nobody is listed anywhere, so a right signature is only `valid`. An entry's
    validity is held against today, for the time in a receipt is its signer's claim.
    """
    if not signature:
        return Signature("unsigned", why="it is not signed")
    with tempfile.TemporaryDirectory(prefix="vibe-gate-verify-") as folder:
        tool = _Tool(signing.program, environ, Path(folder))
        found = tool.valid(data, signature)
        if found.state != "valid" or allowed is None:
            return found
        (tool.folder / "allowed").write_bytes(allowed)
        revoked = ("-r", _path(signing.revoked, signing, environ)) if signing.revoked else ()
        return _listed(tool, data, found, revoked)


def allowed_signers(signing: Signing, environ: Mapping[str, str]) -> bytes | None:
    """The list that git's configuration names outside the repository; None where it names none that can be read."""
    if not signing.allowed:
        return None
    try:
        return Path(_path(signing.allowed, signing, environ)).read_bytes()
    except OSError:
        return None


def _listed(tool: _Tool, data: bytes, found: Signature, revoked: tuple[str, ...]) -> Signature:
    allowed, signature = str(tool.folder / "allowed"), str(tool.folder / "signature")
    holders = _holders(tool, found.key)
    whys = [f"signed by {found.key}, who is not among the allowed signers"]
    accepted = []
    for principal in holders[:_PRINCIPALS_AT_MOST]:
        asked = ("-Y", "verify", "-f", allowed, "-I", principal, "-n", NAMESPACE, "-s", signature, *revoked)
        done = tool.run(*asked, stdin=data)
        if done.code == 0 and not done.why:
            accepted.append(principal)
        else:
            said = (done.why or _reason(done.err)).replace(f"{allowed}:", "in the list, line ")
            whys.append(f"its key is listed, but not for this: {said}")
    if accepted:
        return Signature("listed", found.key, tuple(accepted), holders=holders)
    return Signature("unlisted", found.key, why=whys[-1], holders=holders)


def _holders(tool: _Tool, key: str) -> tuple[str, ...]:
    """Whom the list names for a key (its fingerprint), on any line and for whatever purpose and time.

    Not asked of `find-principals`, which tells of the first line that fits and of no more (OpenSSH 9.2): on
    another line the key may be the author's. Only of lines about certificates it is asked, one by one.
    """
    found: list[str] = []
    for line in (tool.folder / "allowed").read_bytes().split(b"\n"):
        words = line.split()
        if not words or words[0].startswith(b"#"):
            continue
        if any(_fingerprint(word) == key for word in words):
            found += _principals(line)
        elif b"cert-authority" in line.lower():
            found += tool.certified(line)
    return tuple(dict.fromkeys(found))


def _principals(line: bytes) -> list[str]:
    """The first field of a line, which may be quoted: names and patterns with commas between them."""
    text = line.decode("utf-8", "replace").strip()
    field = text[1:].partition('"')[0] if text.startswith('"') else text.split()[0]
    return [name for name in field.split(",") if name]


def _fingerprint(word: bytes) -> str:
    """Of a public key as the list has it, as ssh-keygen writes it; "" of another word."""
    try:
        blob = base64.b64decode(word, validate=True)
    except binascii.Error:
        return ""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class _Done:
    """How a call ended; `why` says that it could not be made or did not end, in a few words."""

    code: int
    out: bytes = b""
    err: str = ""
    why: str = ""


class _Tool:
    """ssh-keygen in a folder of its own, without a terminal to ask at."""

    def __init__(self, program: str, environ: Mapping[str, str], folder: Path) -> None:
        self.folder = folder
        self._program = program
        self._environ = {name: environ[name] for name in _KEPT if name in environ}
        self._environ |= {"LC_ALL": "C", "SSH_ASKPASS_REQUIRE": "never"}

    def run(self, *arguments: str, stdin: bytes = b"") -> _Done:
        """Run it to its end, at most PATIENCE_S seconds."""
        try:
            done = subprocess.run(
                [self._program, *arguments],
                input=stdin,
                cwd=self.folder,  # a relative program or PATH entry must not mean the reviewed repository
                env=self._environ,
                capture_output=True,
                timeout=PATIENCE_S,
                start_new_session=True,  # away from the terminal: a passphrase cannot be asked for
            )
        except subprocess.TimeoutExpired:
            return _Done(-1, why=f"{self._program} did not finish within {PATIENCE_S:g} seconds")
        except (OSError, ValueError) as error:
            return _Done(-1, why=f"{self._program} could not be started: {getattr(error, 'strerror', error)}")
        return _Done(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))

    def valid(self, data: bytes, signature: bytes) -> Signature:
        """Whether the signature is right, whoever made it: valid, bad or unchecked."""
        (self.folder / "signature").write_bytes(signature)
        done = self.run("-Y", "check-novalidate", "-n", NAMESPACE, "-s", str(self.folder / "signature"), stdin=data)
        if done.why:
            return Signature("unchecked", why=done.why)
        key = _KEY.search(done.out.decode("utf-8", "replace"))
        if done.code or key is None:
            return Signature("bad", why=_reason(done.err))
        return Signature("valid", key[1])

    def certified(self, line: bytes) -> list[str]:
        """Whom one line of a list names for the signature's certificate, by the authority that the line trusts."""
        (self.folder / "line").write_bytes(line + b"\n")
        signature = str(self.folder / "signature")
        done = self.run("-Y", "find-principals", "-s", signature, "-f", str(self.folder / "line"))
        return [name for name in done.out.decode("utf-8", "replace").split("\n") if name]


def _key_file(signing: Signing, environ: Mapping[str, str], folder: Path) -> str:
    """The file of the key; a literal public key, whose private half an agent holds, is written to one."""
    if _LITERAL.match(signing.key):
        file = folder / "key.pub"
        file.write_bytes(signing.key.removeprefix("key::").encode("utf-8", "surrogateescape") + b"\n")
        return str(file)
    return _path(signing.key, signing, environ)


def _path(value: str, signing: Signing, environ: Mapping[str, str]) -> str:
    """A path of git's configuration, absolute."""
    if value.startswith("~/"):
        value = f"{environ.get('HOME', '')}/{value[2:]}"
    return str(signing.root / value)


def _reason(err: str) -> str:
    """What ssh-keygen said, as one line, and what to do about it where that is known."""
    lines = [line.strip() for line in err.replace("\r", "\n").split("\n") if line.strip()]
    said = lines[-1] if lines else "ssh-keygen gave no reason"
    said = said.removeprefix("Enter passphrase: ")
    if "passphrase" in said:
        return "its key needs a passphrase, and nobody is asked here; `ssh-add` it"
    if "No private key found" in said:
        return "no agent holds its key; `ssh-add` it"
    return said
