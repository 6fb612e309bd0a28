"""The receipt of a review: put together when the bundle is sealed, signed if a key is configured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vibe_gate import __version__
from vibe_gate.domain.change import Change
from vibe_gate.domain.context import RunContext
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.receipt import Circumstances, Waiver, envelope, exact, places, receipt_of, statement, to_sign
from vibe_gate.domain.summary import Summary
from vibe_gate.git import Repository
from vibe_gate.judging.assemble import JudgeResult
from vibe_gate.receipts import signatures
from vibe_gate.receipts.notes import share
from vibe_gate.receipts.versions import version_of


@dataclass(slots=True)
class Attest:
    """Makes receipt.json for one run; the sealing calls it. `note` then says why it is not signed, if it was to be.

    `answers` say why no judge was asked, and what was answered; `policy` names the change of the gate itself;
    `waivers` took effect.
    """

    repository: Repository
    change: Change
    gate: Gate
    run: RunContext
    summary: Summary
    answers: JudgeResult
    policy: str
    waivers: tuple[Waiver, ...]
    note: str = ""

    def __call__(self, document: Mapping[str, Any], files: Mapping[str, str]) -> bytes:
        """The envelope, from the summary as it is stored and the digests of the bundle's other files."""
        about = Circumstances(
            exact=exact(self.change),
            places=places(self.change, self.repository.read),
            created_at=self.run.clock().isoformat(timespec="seconds"),
            definitions=dict(self.gate.digests),
            versions={"vibe-gate": __version__, "claude-agent-sdk": version_of("claude-agent-sdk")},
            policy=self.policy,
            unasked=self._unasked(),
            questions=self.answers.questions,
            waivers=tuple(self._as_kept(waiver) for waiver in self.waivers),
            signer=self.repository.config("user.email") or "",
        )
        payload = statement(receipt_of(self.summary, document, files, about))
        signed = signatures.sign(to_sign(payload), signatures.signing_of(self.repository), self.run.environ)
        made = envelope(payload, signed.signature, signed.key)
        shared = share(self.repository, self.change.head_commit, made) if self.change.head_commit else ""
        self.note = " ".join(filter(None, [signed.note, shared]))
        return made

    def _unasked(self) -> str:
        """Why no judge was asked although criteria want one; "" if one was, or none is wanted."""
        wanted = any(criterion.kind == "judge" for rubric in self.summary.rubrics for criterion in rubric.criteria)
        return self.answers.silence if self.answers.chosen and wanted else ""

    def _as_kept(self, waiver: Waiver) -> Waiver:
        """What people wrote without secrets, as the bundle's log has it: a receipt is kept and shared, too."""
        redact = self.run.redactor.text
        return waiver.model_copy(update={"reason": redact(waiver.reason), "by": redact(waiver.by)})
