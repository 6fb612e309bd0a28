"""Words of the tests about signatures: real keys, a real agent, git configured to sign with
them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from repos import Repo


def key(folder: Path, name: str = "key", passphrase: str = "") -> Path:
    """A new ed25519 key pair; the private key's file."""
    folder.mkdir(parents=True, exist_ok=True)
    key_file = folder / name
    command = [
        "ssh-keygen",
        "-q",
        "-t",
        "ed25519",
        "-N",
        passphrase,
        "-C",
        name,
        "-f",
        str(key_file),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return key_file


def public(private: Path) -> str:
    """Type and base64 of a key, as allowed signers and literal signing keys have it."""
    return " ".join(private.with_suffix(".pub").read_text().split()[:2])


def sign_with(repo: Repo, signing_key: object) -> None:
    """Have git, and so vibe-gate, sign with this key."""
    repo.git("config", "gpg.format", "ssh")
    repo.git("config", "user.signingKey", str(signing_key))


@contextmanager
def agent(environ: Mapping[str, str], *keys: Path) -> Iterator[dict[str, str]]:
    """The environment with an agent that holds the keys."""
    started = subprocess.run(
        ["ssh-agent", "-s"], env=dict(environ), capture_output=True, text=True, check=True
    )
    values = dict(part.split("=", 1) for part in started.stdout.split(";") if "=" in part)
    values = {name.strip(): value for name, value in values.items()}
    try:
        for key_file in keys:
            env = {**environ, **values}
            subprocess.run(
                ["ssh-add", "-q", str(key_file)], env=env, check=True, capture_output=True
            )
        yield {**environ, "SSH_AUTH_SOCK": values["SSH_AUTH_SOCK"]}
    finally:
        os.kill(int(values["SSH_AGENT_PID"]), 15)
