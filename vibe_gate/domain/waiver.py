"""Waivers: what failed and is let pass all the same, because a person said so, with a reason and for a while.

An *override* is local: one finding, or one change of the gate itself, kept in the git
directory. A *suppression* is the repository's: it stands in `.vibe-gate/suppressions.toml`
and is read at the trusted revision, so that a change cannot bring its own.

Neither hides anything: the criterion stays failed, its findings become notices that
say who let them pass; only what follows from them is worked out without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from vibe_gate.domain import paths
from vibe_gate.domain.gate import Reason, Suppression
from vibe_gate.domain.model import Model
from vibe_gate.domain.provenance import AGENT_ADDRESSES, AGENT_VARIABLES
from vibe_gate.domain.receipt import Waiver
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.verdict import MAX_FINDINGS, Finding, RubricResult, decide, short

DEFAULT_DAYS = 30
"""An override without a date of its own holds that long."""

POLICY = "policy-"
"""Before the fingerprint of changes of the gate itself: what an override of an exit code 4 names."""

Fingerprint = Annotated[str, StringConstraints(pattern=r"^(?:policy-)?[0-9a-f]{16}$")]


class Override(Model):
    """An override as the shared state keeps it: who let what pass, why, until when, and the run that showed it."""

    schema_: Literal[1] = Field(default=1, alias="schema")
    ts: str
    finding: Fingerprint
    reason: Reason
    by: str
    email: str
    expires: date
    run: str = ""

    @property
    def waiver(self) -> Waiver:
        """As a receipt has it."""
        return Waiver(finding=self.finding, reason=self.reason, by=self.by, expires=self.expires, local=True)


@dataclass(frozen=True, slots=True)
class Waivers:
    """All that could be waived on a day: the repository's suppressions, this place's overrides."""

    today: date
    overrides: tuple[Override, ...] = ()
    suppressions: tuple[Suppression, ...] = ()
    approval: Waiver | None = None
    """Of the changes of the gate itself that are under review, by a person who may approve them."""

    def of(self, finding: Finding) -> Waiver | None:
        """What lets the finding pass today, or None."""
        override = self._override(finding.fingerprint)
        if override is not None:
            return override.waiver
        found = (one for one in self.suppressions if one.covers(finding) and not self._is_over(one.expires))
        return next((_waiver_of(one) for one in found), None)

    def of_policy(self, fingerprint: str) -> Waiver | None:
        """What lets the changes of the gate itself pass today, or None."""
        found = self._override(POLICY + fingerprint) if fingerprint else None
        return found.waiver if found else self.approval

    def remarks(self, findings: Sequence[Finding], touched: Iterable[str]) -> list[str]:
        """Sentences about waivers that have run out although they are wanted, and suppressions that nothing needs.

        A suppression is unused where a path of its own was `touched` and nothing was found there.
        """
        paths_ = list(touched)
        said = []
        known = {finding.fingerprint for finding in findings}
        for one in self.overrides:
            if self._is_over(one.expires) and one.finding in known and self._override(one.finding) is None:
                said.append(f"The override of {one.finding} by {one.by} expired on {one.expires}.")
        for rule in self.suppressions:
            hits = any(rule.covers(finding) for finding in findings)
            if self._is_over(rule.expires):
                said.append(f"The suppression of {rule.name} expired on {rule.expires} and has no effect.")
            elif not hits and rule.paths and any(paths.matches(path, rule.paths) for path in paths_):
                said.append(f"The suppression of {rule.name} suppressed nothing here: is it needed any more?")
        return list(dict.fromkeys(said))

    def _override(self, finding: str) -> Override | None:
        found = [one for one in self.overrides if one.finding == finding and not self._is_over(one.expires)]
        return found[-1] if found else None

    def _is_over(self, expires: date | None) -> bool:
        return expires is not None and expires < self.today


@dataclass(frozen=True, slots=True)
class Waived:
    """Results after waivers: what people see, and the waivers that took effect."""

    rubrics: tuple[RubricResult, ...]
    findings: tuple[Finding, ...]
    effective: tuple[Waiver, ...] = ()


def agent_behind(environ: Mapping[str, str], emails: Iterable[str]) -> str:
    """The sign of an agent in the environment or among the addresses, for people; "" where there is none."""
    for name, agent in AGENT_VARIABLES.items():
        if environ.get(name):
            return f"{name} is set, so {agent} runs this"
    for email in emails:
        for pattern, agent in AGENT_ADDRESSES:
            if pattern.search(email):
                return f"{email} is {agent}"
    return ""


def apply_overrides(
    rubrics: Sequence[Rubric], results: Sequence[RubricResult], findings: Sequence[Finding], waivers: Waivers
) -> Waived:
    """The results worked out without what is waived.

    A failed criterion is left out of the arithmetic where every finding of it is
    waived; it still reads `fail`, and its reason says who let it pass. With as many
    findings as are kept there may be more, so then it is never left out.
    """
    known = {finding: waiver for finding in findings if (waiver := waivers.of(finding)) is not None}
    if not known:
        return Waived(tuple(results), tuple(findings))
    spared = {
        criterion: said
        for criterion in {finding.criterion for finding in known}
        if (said := _spared(criterion, findings, known))
    }
    made = tuple(_without(rubric, result, spared) for rubric, result in zip(rubrics, results, strict=True))
    shown = tuple(_noticed(finding, known[finding]) if finding in known else finding for finding in findings)
    failed = {one.id for result in results for one in result.criteria if one.outcome == "fail"} & spared.keys()
    effective = dict.fromkeys(waiver for finding, waiver in known.items() if finding.criterion in failed)
    return Waived(made, shown, tuple(effective))


def spares(criterion: str, findings: Sequence[Finding], waivers: Waivers) -> bool:
    """Whether everything that the failed criterion found is waived."""
    known = {finding: waiver for finding in findings if (waiver := waivers.of(finding)) is not None}
    return bool(_spared(criterion, findings, known))


def expiry(today: date) -> date:
    """When an override ends that says nothing about it."""
    return today + timedelta(days=DEFAULT_DAYS)


def _waiver_of(rule: Suppression) -> Waiver:
    by = rule.by or "the repository"
    return Waiver(finding=rule.name, reason=rule.reason, by=by, expires=rule.expires)


def _spared(criterion: str, findings: Sequence[Finding], known: dict[Finding, Waiver]) -> str:
    """What the reason of a criterion says that is waived as a whole; "" where it is not."""
    own = [finding for finding in findings if finding.criterion == criterion]
    if not own or len(own) >= MAX_FINDINGS or any(finding not in known for finding in own):
        return ""
    return "; ".join(dict.fromkeys(known[finding].sentence for finding in own))


def _without(rubric: Rubric, result: RubricResult, spared: dict[str, str]) -> RubricResult:
    waived = {one.id for one in result.criteria if one.outcome == "fail" and one.id in spared}
    if not waived:
        return result
    counted = [
        one.model_copy(update={"outcome": "not_applicable"}) if one.id in waived else one for one in result.criteria
    ]
    shown = [
        one.model_copy(update={"reason": short(f"{spared[one.id]} | {one.reason}")}) if one.id in waived else one
        for one in result.criteria
    ]
    return decide(rubric, counted).model_copy(update={"criteria": tuple(shown)})


def _noticed(finding: Finding, waiver: Waiver) -> Finding:
    message = short(f"{waiver.sentence} | {finding.message}")
    return finding.model_copy(update={"level": "notice", "message": message})
