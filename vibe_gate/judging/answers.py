"""What judges answered about a change, or why none was asked."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.checks import CheckResults
from vibe_gate.context.facts import Facts
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.gate import Waivers
from vibe_gate.domain.summary import CacheUse, Cost
from vibe_gate.domain.verdict import WAITS
from vibe_gate.judging.decide import spares
from vibe_gate.judging.findings import fingerprinted, ordered

if TYPE_CHECKING:
    from vibe_gate.judging.questions import RubricVotes


class Answers(Struct, frozen=True):
    """What the judges answered, or why none was asked: then nothing of theirs has been loaded.

    `by_rubric`: by rubric id, the votes on each question that was asked about it. Of these rubrics, `cached` had a
    question answered by an earlier run, `asked` one by this run. `silence` says why no judge was asked, and `chosen`
    that this is what the user wanted. `intact`: the exported tree is still what it was. `questions` are the keys of
    what was answered for good in this run, all of it. `reused` are the scores of rubrics whose pass was taken from a
    receipt: `silence` then says whose.
    """

    by_rubric: Mapping[str, tuple[RubricVotes, ...]] = MappingProxyType({})
    cost: Cost = Cost()
    cached: frozenset[str] = frozenset()
    asked: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    silence: str = ""
    chosen: bool = False
    intact: bool = True
    questions: Mapping[str, str] = MappingProxyType({})
    reused: Mapping[str, float] = MappingProxyType({})

    @property
    def answered_now(self) -> list[str]:
        """The rubrics that were asked in this run, wholly, and answered for good."""
        return [name for name in self.asked - self.cached if all(one.is_final for one in self.by_rubric[name])]

    @property
    def cache(self) -> CacheUse:
        """Criteria that an earlier run answered, in part or all, and criteria about which something was asked."""
        sizes = {name: max(len(one.by_criterion) for one in votes) for name, votes in self.by_rubric.items()}
        return CacheUse(
            hits=sum(sizes[name] for name in self.cached),
            misses=sum(sizes[name] for name in self.asked),
        )


def without_asking(request: ReviewRequest, facts: Facts, checks: CheckResults, waivers: Waivers) -> Answers | None:
    """Why no judge is asked: nothing to ask, not wanted, or the outcome is known. None: ask."""
    if not facts.rubrics_with_judge:
        asks = any(rubric.judge_criteria for rubric in facts.rubrics)
        why = "no question to a judge applies" if asks else "no criterion asks a judge"
        return Answers(silence=why, chosen=True)
    if why := request.why_no_judge(facts.gate, by_agent=facts.authored.decision):
        return Answers(silence=why, chosen=True)
    failed = blocking_check(checks, waivers)
    if failed is not None and (request.judge != "always" or _adds_secrets(facts, checks)):
        # Nothing a judge says can turn this into a pass, and a secret must not travel to a model.
        return Answers(silence=f"{WAITS} {failed!r} fails already")
    if not request.force and (why := request.mode.why_not_needed()):
        return Answers(silence=why, chosen=True)
    return None


def blocking_check(checks: CheckResults, waivers: Waivers) -> str | None:
    """The first `must` check that fails and that nobody lets pass: then no judge has to be asked."""
    found = ordered(checks.findings)
    pairs = zip(fingerprinted(found), found, strict=True)
    findings = [replace(made, rubrics=tuple(checks.raised_by[one])) for made, one in pairs]
    failed = [name for name, result in checks.results.items() if result.must and result.outcome == "fail"]
    return next((name for rubric, name in failed if not spares(rubric, name, findings, waivers)), None)


def _adds_secrets(facts: Facts, checks: CheckResults) -> bool:
    found = [(rubric.id, one.id) for rubric in facts.rubrics for one in rubric.criterion if one.check == "no-secrets"]
    return any(checks.results[name].outcome == "fail" for name in found)
