from ledger import Ledger, send


class Bank:
    def transfer(self, account, cents):
        return "r-1"


def test_a_payment_is_written_down(tmp_path):
    ledger = Ledger(tmp_path / "log")
    assert send(Bank(), ledger, "DE01", 500) == "r-1"
    assert "r-1" in ledger.path.read_text()
