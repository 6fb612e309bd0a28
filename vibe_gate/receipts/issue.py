"""The receipt of a review: put together when the bundle is sealed, signed if a key is configured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from vibe_gate import __version__
from vibe_gate.domain.receipt import Circumstances, Waiver, envelope, exact, places, receipt_of, statement, to_sign
from vibe_gate.domain.summary import Summary
from vibe_gate.gate import policy
from vibe_gate.gate.case import Case
from vibe_gate.judging.heard import Heard
from vibe_gate.receipts import signatures
from vibe_gate.receipts.notes import share
from vibe_gate.receipts.versions import version_of


class Attest:
    """Makes receipt.json for one run; the sealing calls it. `note` then says why it is not signed, if it was to be.

    `heard` says why no judge was asked where criteria want one, and what was answered; `waivers` took effect.
    """

    def __init__(
        self, case: Case, summary: Summary, clock: Callable[[], datetime], heard: Heard, waivers: tuple[Waiver, ...]
    ) -> None:
        self._case = case
        self._summary = summary
        self._clock = clock
        self._unasked = heard.silence if heard.chosen and any(rubric.judged for rubric in case.rubrics) else ""
        self._questions = heard.questions
        self._waivers = waivers
        self.note = ""

    def __call__(self, document: Mapping[str, Any], files: Mapping[str, str]) -> bytes:
        """The envelope, from the summary as it is stored and the digests of the bundle's other files."""
        case = self._case
        about = Circumstances(
            exact=exact(case.change),
            places=places(case.change, case.repository.read),
            created_at=self._clock().isoformat(timespec="seconds"),
            definitions=dict(case.gate.digests),
            versions={"vibe-gate": __version__, "claude-agent-sdk": version_of("claude-agent-sdk")},
            policy=policy.fingerprint(policy.policy_files(case.change, case.gate)),
            unasked=self._unasked,
            questions=self._questions,
            waivers=tuple(self._as_kept(waiver) for waiver in self._waivers),
            signer=case.repository.config("user.email") or "",
        )
        payload = statement(receipt_of(self._summary, document, files, about))
        signed = signatures.sign(to_sign(payload), signatures.signing_of(case.repository), case.environ)
        made = envelope(payload, signed.signature, signed.key)
        shared = share(case.repository, case.change.head_commit, made) if case.change.head_commit else ""
        self.note = " ".join(filter(None, [signed.note, shared]))
        return made

    def _as_kept(self, waiver: Waiver) -> Waiver:
        """What people wrote without secrets, as the bundle's log has it: a receipt is kept and shared, too."""
        redact = self._case.redactor.text
        return waiver.model_copy(update={"reason": redact(waiver.reason), "by": redact(waiver.by)})
