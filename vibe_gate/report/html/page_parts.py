"""What findings and votes have in common on a page: places, quoted lines, tests, second looks,
links to conversations.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from vibe_gate.domain.summary import Unreviewed
from vibe_gate.domain.verdict import CheckedEvidence, Finding, FindingPlace, Proof, SecondLook
from vibe_gate.report import queries, sentences
from vibe_gate.report.html import stage_figures
from vibe_gate.report.html.addresses import file_link, place_link
from vibe_gate.report.html.view import View
from vibe_gate.report.markup import Html, tag, text_block

_PROOF_STYLES = {"proven": "fail", "shown": "abstain", "void": "pass"}
"""The colours of what a test's runs came to."""

_LOOK_STYLES = {"refuted": "pass", "intended": "pass", "stands": "", "undecided": "abstain"}
"""The colours of what a second look came to; one that changes nothing has none: the level tells
whether its finding blocks.
"""


def render_place(
    item: Finding | FindingPlace | Unreviewed | CheckedEvidence,
    *,
    before: bool = False,
    **attributes: str,
) -> Html:
    """Its place, which leads to the lines; `before`: those of the file before the change."""
    words = sentences.place_words_of(item)
    if not item.path:
        return tag("span", words, **attributes)
    line = ""
    if item.line:
        line = str(item.line)
    if before and line:
        line = f"-{line}"
    return tag("a", words, href=file_link(item.path, line), **attributes)


def render_counterexample(counterexample: str | None) -> Html | None:
    """The input that goes wrong."""
    if not counterexample:
        return None
    return tag("p", "For example: ", counterexample, class_="against")


def render_evidence(lines: Sequence[CheckedEvidence], *, counts: bool = True) -> Html | None:
    """Quoted lines, each with whether it stands there; uncoloured if nothing follows from them."""
    items = []
    for evidence in lines:
        item = tag(
            "li",
            tag("span", evidence.standing, class_=_standing_style(evidence, counts=counts)),
            " ",
            render_place(evidence, before=evidence.side == "before"),
            f" {evidence.why}" if evidence.why else None,
            text_block(evidence.quote, class_="quote"),
        )
        items.append(item)
    if not items:
        return None
    return tag("ul", *items, class_="evidence")


def _standing_style(evidence: CheckedEvidence, *, counts: bool) -> str:
    if counts:
        return f"standing {evidence.standing}"
    return "standing"


def render_proof(proof: Proof | UnsetType) -> Html | None:
    """What running its test came to, and the test, with the command that repeats it."""
    if proof is UNSET:
        return None
    style = f"badge {_PROOF_STYLES.get(proof.status, '')}".strip()
    badge = tag("span", proof.status.replace("_", " "), class_=style)
    result = tag("p", badge, " ", proof.reason)
    test = None
    if proof.test:
        name = tag("summary", "Test ", tag("code", proof.path))
        command = tag("p", "To repeat it: ", tag("code", proof.command))
        test = tag("details", name, text_block(proof.test), command)
    return tag("div", result, render_evidence(proof.obligation), test, class_="proof")


def render_second_look(look: SecondLook | UnsetType, view: View) -> Html | None:
    """What a second look came to, with the lines that prevent it and a link to its conversation;
    before that what was said against the finding.
    """
    if look is UNSET:
        return None
    argument = None
    if look.dispute is not UNSET:
        by = ""
        if look.dispute.by:
            by = f" by {look.dispute.by}"
        badge = tag("span", f"disputed{by}", class_="badge")
        argument = tag("p", badge, " ", look.dispute.argument)
    outcome: str = look.outcome
    if look.said is None:
        outcome = "no answer"
    style = f"badge {_LOOK_STYLES[look.outcome]}".strip()
    badge = tag("span", f"second look: {outcome}", class_=style)
    sentence = tag("p", badge, " ", look.reason, " ", link_conversation(look.turn, view))
    lines = render_evidence(look.evidence, counts=bool(queries.grounds_of_look(look)))
    return tag("div", argument, sentence, lines, class_="second-look")


def link_conversation(folder: str, view: View) -> Html | None:
    """A link to the conversation that is recorded there."""
    turn = next((turn for turn in view.turns if turn.id == folder), None)
    if turn is None:
        if not folder:
            return None
        return tag("span", f"asked in an earlier run: {folder}", class_="earlier")
    target = turn.id
    if turn.answer:
        target = f"{turn.id}/{turn.answer}"
    text = "conversation"
    is_recorded = view.summary is not None and view.summary.cost.basis == "none"
    if turn.usd is not None and not is_recorded:
        text += f" ({format_dollars(turn.usd)})"
    return tag("a", text, href=place_link("e", target))


def format_dollars(usd: float | None) -> str:
    """A cost."""
    if usd is None:
        return "not known"
    return stage_figures.format_stage_dollars(usd)
