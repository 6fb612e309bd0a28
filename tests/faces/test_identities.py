"""Whose accounts a change's commits name."""

from __future__ import annotations

import pytest

from vibe_gate.domain.provenance import Commit
from vibe_gate.faces.action.approvals import Accounts, accounts_of


def find_accounts(
    message: str = "", author: str = "", logins_by_address: dict[str, str] | None = None
) -> Accounts:
    return accounts_of(
        [Commit("a" * 40, "x", author, "noreply@github.com", message)], logins_by_address or {}
    )


@pytest.mark.parametrize(
    ("address", "login", "number"),
    [
        ("bob@users.noreply.github.com", "bob", None),
        ("583231+Bob@users.noreply.github.com", "bob", 583231),
        ("7+bob@users.noreply.github.example.org", "bob", 7),
        ("41898282+github-actions[bot]@users.noreply.github.com", "github-actions[bot]", 41898282),
    ],
)
def test_githubs_own_addresses_name_the_account(address, login, number):
    for part, accounts in {
        "wrote one of the commits": find_accounts(author=address),
        "a co-author": find_accounts(f"Fix\n\nCo-authored-by: Bob <{address}>"),
    }.items():
        assert accounts.logins[login] == part
        assert accounts.ids == ({number: part} if number else {})


@pytest.mark.parametrize(
    "line",
    [
        "Co-authored-by: Bob <bob@example.org>",
        "co-authored-BY : Bob < Bob@Example.org >",
        "  Co-authored-by: <bob@example.org>",
        "Co-authored-by: A <B <bob@example.org>",
        "Co-authored-by: Bob <bob@example.org>\nSigned-off-by: Ada <ada@example.org>",
    ],
)
def test_a_co_author_is_somebody_who_wrote_it(line):
    assert find_accounts(
        f"Fix\n\n{line}\n", logins_by_address={"bob@example.org": "bob"}
    ).logins == {"bob": "a co-author"}


def test_what_only_speaks_of_a_trailer_is_none():
    assert (
        find_accounts("Say what `Co-authored-by: Bob <bob@users.noreply.github.com>` does").logins
        == {}
    )
