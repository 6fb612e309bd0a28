"""Signatures by the real ssh-keygen: who can sign, who is believed, and that nothing ever waits for
an answer.
"""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import signing
from repos import Repo

from vibe_gate.domain.environment import read_environment
from vibe_gate.git import open_repository
from vibe_gate.receipts import signatures
from vibe_gate.receipts.signatures import (
    Signing,
    check_signature,
    read_configured_signers,
    sign_receipt,
    signing_of,
    ssh_environment,
)

DATA = b"DSSEv1 what was reviewed"


def signing_settings(
    environ: Mapping[str, str], key: object = "", root: Path = Path("/"), **settings: str
) -> Signing:
    values = {"program": "ssh-keygen", "allowed": "", "revoked": ""} | settings
    return Signing(key=str(key), root=root, environ=ssh_environment(environ), **values)


def signers_file(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def test_without_a_key_nothing_is_signed_and_nothing_said(environ):
    assert sign_receipt(DATA, signing_settings(environ)) == signatures.Signed()


def test_a_key_file_signs_and_its_list_names_the_signer(tmp_path, environ):
    key = signing.key(tmp_path)
    signed = sign_receipt(DATA, signing_settings(environ, key))
    assert signed.note == ""
    check = check_signature(
        DATA,
        signed.signature,
        signers_file(f"ada@example.org {signing.public(key)}"),
        signing_settings(environ),
    )
    assert (check.state, check.principals) == ("listed", ("ada@example.org",))
    assert check.key.startswith("SHA256:")


def test_a_path_may_be_relative_to_the_repository_or_begin_at_home(tmp_path, environ):
    signing.key(tmp_path, "here")
    signing.key(Path(environ["HOME"]), "at-home")
    assert sign_receipt(DATA, signing_settings(environ, "here", tmp_path)).signature
    assert sign_receipt(DATA, signing_settings(environ, "~/at-home")).signature


@pytest.mark.parametrize("form", ["key::{}", "{}", "file"])
def test_a_public_key_literal_or_in_a_file_signs_by_the_agent_that_holds_it(
    tmp_path, environ, form
):
    key = signing.key(tmp_path)
    key_setting = f"{key}.pub" if form == "file" else form.format(signing.public(key))
    with signing.agent(environ, key) as with_agent:
        key.unlink()
        assert sign_receipt(DATA, signing_settings(with_agent, key_setting)).signature


def test_a_key_that_no_agent_holds_is_a_note(tmp_path, environ):
    key = signing.key(tmp_path)
    key.unlink()
    signed = sign_receipt(DATA, signing_settings(environ, f"{key}.pub"))
    assert (signed.signature, signed.note) == (
        b"",
        "The receipt is unsigned: its key is in no ssh-agent: `ssh-add` it",
    )


@pytest.mark.slow
def test_a_key_with_a_passphrase_is_a_note_and_asks_nobody_even_at_a_terminal(tmp_path, environ):
    key = signing.key(tmp_path, passphrase="secret")
    code = (
        "import os, sys; from pathlib import Path; from vibe_gate.receipts.signatures import *;"
        f"made = sign_receipt(b'x', Signing({str(key)!r}, 'ssh-keygen', '', '', Path('/'), ssh_environment(os.environ)));"
        "sys.stdout.write(made.note)"
    )
    master, slave = pty.openpty()
    result = subprocess.run(
        [sys.executable, "-c", code], env=environ | {"PYTHONPATH": str(Path.cwd())}, stdin=slave, stderr=slave,
        stdout=subprocess.PIPE, start_new_session=True, timeout=250,
    )  # fmt: skip
    os.close(master)
    os.close(slave)
    assert b"needs a passphrase: `ssh-add` it" in result.stdout


def test_a_missing_program_is_a_note_and_an_unchecked_signature(tmp_path, environ):
    key = signing.key(tmp_path)
    signature = sign_receipt(DATA, signing_settings(environ, key)).signature
    absent = signing_settings(environ, key, program="no-such-ssh-keygen")
    assert "could not be started: No such file" in sign_receipt(DATA, absent).note
    assert check_signature(DATA, signature, b"", absent).state == "unchecked"


def test_a_bad_signature_is_bad_whoever_made_it(tmp_path, environ):
    key = signing.key(tmp_path)
    signature = sign_receipt(DATA, signing_settings(environ, key)).signature
    listed = signers_file(f"ada@example.org {signing.public(key)}")
    assert check_signature(DATA + b"!", signature, listed, signing_settings(environ)).state == "bad"
    assert (
        check_signature(
            DATA,
            signature[:-60] + b"\n-----END SSH SIGNATURE-----\n",
            listed,
            signing_settings(environ),
        ).state
        == "bad"
    )
    assert (
        check_signature(DATA, b"not a signature", listed, signing_settings(environ)).state == "bad"
    )
    command = ["ssh-keygen", "-Y", "sign", "-f", str(key), "-n", "git"]
    for_git = subprocess.run(command, input=DATA, capture_output=True, check=True).stdout
    assert check_signature(DATA, for_git, listed, signing_settings(environ)).state == "bad"


def test_a_key_that_is_not_listed_is_unlisted(tmp_path, environ):
    signature = sign_receipt(DATA, signing_settings(environ, signing.key(tmp_path))).signature
    other = signers_file(f"bob@example.org {signing.public(signing.key(tmp_path, 'other'))}")
    check = check_signature(DATA, signature, other, signing_settings(environ))
    assert (check.state, check.why) == (
        "unlisted",
        f"signed by {check.key}, which is not in allowed_signers",
    )
    assert check_signature(DATA, signature, b"", signing_settings(environ)).state == "unlisted"
    assert (
        check_signature(DATA, signature, None, signing_settings(environ)).state == "valid"
    )  # there is no list at all


def in_both_orders(*names: str) -> list[str]:
    """The lines of a list in either order."""
    return ["\n".join(names), "\n".join(reversed(names))]


@pytest.mark.parametrize(
    "lines",
    [
        *in_both_orders("ada@old.org {key}", "ada@new.org {key}"),
        *in_both_orders("ada@old.org {key}", 'ada@new.org namespaces="git" {key}'),
        *in_both_orders(
            "ada@old.org {key}", 'ada@new.org valid-before="20200101" {key} her old line'
        ),
        *in_both_orders('"ada@old.org" {key}', '  "ada@new.org,eve@example.org"\t{key}\r'),
        *in_both_orders(
            "ada@old.org {key}", "# ada@other.org {key}\nno line of a list\nada@new.org {key}"
        ),
        "ada@old.org,ada@new.org {key}",
    ],
)
def test_everybody_whom_the_list_names_for_the_key_is_known(tmp_path, environ, lines):
    key = signing.key(tmp_path)
    signature = sign_receipt(DATA, signing_settings(environ, key)).signature
    check = check_signature(
        DATA, signature, lines.format(key=signing.public(key)).encode(), signing_settings(environ)
    )
    assert (
        {"ada@old.org", "ada@new.org"}
        <= {*check.holders}
        <= {"ada@old.org", "ada@new.org", "eve@example.org"}
    )
    assert set(check.principals) <= set(check.holders)


def test_a_listed_key_that_may_not_sign_this_today_or_was_revoked_is_unlisted(tmp_path, environ):
    key = signing.key(tmp_path)
    signature = sign_receipt(DATA, signing_settings(environ, key)).signature
    for options in ('namespaces="git"', 'valid-before="20200101"', 'valid-after="20990101"'):
        listed = signers_file(f"ada@example.org {options} {signing.public(key)}")
        assert (
            check_signature(DATA, signature, listed, signing_settings(environ)).state == "unlisted"
        )
    listed = signers_file(f"ada@example.org {signing.public(key)}")
    revoked = signing_settings(environ, revoked=f"{key}.pub")
    assert check_signature(DATA, signature, listed, revoked).state == "unlisted"


def test_a_program_or_a_list_of_the_repositorys_own_configuration_is_never_used(tmp_path, environ):
    repo = Repo(tmp_path / "repo", environ)
    repo.commit(**{"a.txt": "a\n"})
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(0o755)
    signing.sign_with(repo, signing.key(tmp_path))
    repo.git("config", "gpg.ssh.program", str(trap))
    repo.git("config", "gpg.ssh.defaultKeyCommand", str(trap))
    repo.git("config", "gpg.ssh.allowedSignersFile", str(tmp_path / "key.pub"))
    with open_repository(repo.path, read_environment(environ)) as repository:
        settings = signing_of(repository)
    assert (settings.program, settings.allowed) == ("ssh-keygen", "")
    assert sign_receipt(DATA, settings).signature
    assert not (tmp_path / "sprung").exists()


def test_the_users_own_program_and_list_are_used(tmp_path, environ):
    repo = Repo(tmp_path / "repo", environ)
    repo.git("config", "--global", "gpg.ssh.program", "ssh-keygen-of-mine")
    repo.git("config", "--global", "gpg.ssh.allowedSignersFile", "~/signers")
    (Path(environ["HOME"]) / "signers").write_text("ada@example.org ssh-ed25519 AAAA\n")
    with open_repository(repo.path, read_environment(environ)) as repository:
        settings = signing_of(repository)
    assert settings.program == "ssh-keygen-of-mine"
    assert read_configured_signers(settings) == b"ada@example.org ssh-ed25519 AAAA\n"


def test_a_key_of_another_format_than_ssh_is_no_key(tmp_path, environ):
    repo = Repo(tmp_path / "repo", environ)
    repo.git("config", "user.signingKey", "0xDEADBEEF")
    with open_repository(repo.path, read_environment(environ)) as repository:
        assert signing_of(repository).key == ""
