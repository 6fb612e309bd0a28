"""Payments: send them to the bank, write down what happened."""

import json
from pathlib import Path


class Ledger:
    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, entry: dict) -> None:
        with self.path.open("a") as log:
            log.write(json.dumps(entry) + "\n")


def send(bank, ledger: Ledger, account: str, cents: int) -> str:
    """Send one payment; returns the bank's receipt number."""
    receipt = bank.transfer(account, cents)
    ledger.write({"account": account, "cents": cents, "receipt": receipt})
    return receipt
