"""A run with one defect at three places."""

from __future__ import annotations

from msgspec.structs import replace
from reports import BASE, COUNTEREXAMPLE, FIRST, judged, links
from summaries import changed, criterion, failed, finding, rubric

from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import CheckedEvidence, Defect, Finding, FindingPlace
from vibe_gate.report.report import Report
from vibe_gate.report.round import first_round

MESSAGE = "Three handlers return 0 for a refused transfer, which reads like one of nothing."

PATCH = """\
diff --git a/src/ledger/transfer.py b/src/ledger/transfer.py
--- a/src/ledger/transfer.py
+++ b/src/ledger/transfer.py
@@ -41,2 +41,5 @@ def transfer(account: Account, amount: int) -> int:
     bank = account.bank
-    return bank.send(account, amount)
+    try:
+        return bank.send(account, amount)
+    except BankError:
+        return 0
diff --git a/src/ledger/refund.py b/src/ledger/refund.py
--- a/src/ledger/refund.py
+++ b/src/ledger/refund.py
@@ -17,1 +17,4 @@ def refund(account: Account, amount: int) -> int:
-    return account.bank.send(account, -amount)
+    try:
+        return account.bank.send(account, -amount)
+    except BankError:
+        return 0
"""


def quoted(path: str, line: int, quote: str, **fields) -> CheckedEvidence:
    return CheckedEvidence(
        path=path, line=line, end_line=line, quote=quote, standing="holds", **fields
    )


QUOTES = (
    quoted("src/ledger/transfer.py", 44, "    except BankError:"),
    quoted("src/ledger/refund.py", 19, "    except BankError:"),
    quoted("src/ledger/payout.py", 8, "    except BankError:"),
)
"""The third stands in a file that the diff does not have."""

DECIDES = quoted("src/ledger/receipt.py", 31, "    if sent == 0: return NOTHING_TO_DO")
"""An unchanged line."""


def spread_finding(**fields) -> Finding:
    """One defect with three places, and an unchanged line that decides it."""
    first, *other_quotes = QUOTES
    places = [
        FindingPlace(path=other_quote.path, line=other_quote.line, end_line=other_quote.line)
        for other_quote in other_quotes
    ]
    values = {
        "path": first.path,
        "fingerprint": "3f9a1c2b4d5e6f70",
        "evidence": QUOTES,
        "other_places": tuple(places),
        "also": (DECIDES,),
        "counterexample": COUNTEREXAMPLE,
        "basis": "inferred",
    } | fields
    return finding(MESSAGE, first.line, **values)


def run_with(*findings: Finding) -> Summary:
    """A run that these findings block."""
    swallowed = judged("errors-not-swallowed", "fail", MESSAGE, said_outcome="fail")
    defect = Defect(reason=MESSAGE, counterexample=COUNTEREXAMPLE, evidence=QUOTES)
    vote = replace(swallowed.votes[0], defects=(defect,))
    swallowed = replace(swallowed, votes=(vote,))
    files = (
        changed("src/ledger/transfer.py", 4, 1),
        changed("src/ledger/refund.py", 4, 1),
    )
    summary = failed(
        0,
        first_findings=findings,
        rubrics=(rubric(criterion(), swallowed, outcome="fail", score=0.5),),
        files=files,
    )
    change = replace(summary.change, head_commit=FIRST, base_commit=BASE)
    return replace(summary, change=change, key=FIRST)


def report_of(*findings: Finding) -> Report:
    """What a pull request is told of the run."""
    summary = run_with(*findings)
    return Report(
        summary,
        (),
        first_round(summary.findings, FIRST),
        links=links(FIRST),
        patch=PATCH,
        artifact="summary",
        number=12,
        review=f"{BASE[:12]}...{FIRST[:12]}",
    )
