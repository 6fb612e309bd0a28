"""Runs of workflows as the report's page shows them, as large as wanted, without a bundle."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace
from summaries import finding, summary

from vibe_gate.domain.event import Graph, Node
from vibe_gate.domain.summary import Cost
from vibe_gate.report.html.view import (
    CallView,
    EarlierRound,
    EventHead,
    FileView,
    NodeTime,
    TurnView,
    View,
)
from vibe_gate.report.node_outcomes import add_outcomes
from vibe_gate.report.reported_finding import ReportedFinding
from vibe_gate.report.round_record import RoundCounts, RoundRecord

BEGAN = 1_790_000_000_000
MODELS = ("claude-sonnet-5", "claude-haiku-5", "house-model-1")
STAGE_MS, JUDGE_MS, CHECKS_MS, WAIT_MS = 42_000, 9_000, 800, 1_500

QUALITY = ("quality",)


class Growing:
    """A graph that grows node by node; each begins when what it comes after has ended."""

    def __init__(self, attack: str = "") -> None:
        self.nodes: list[Node] = []
        self.edges: list[tuple[str, str]] = []
        self.times: dict[str, NodeTime] = {}
        self.ends: dict[str, int] = {}
        self.turns: list[TurnView] = []
        self.usd: dict[str, float] = {}
        self.attack = attack

    def add(self, name: str, kind: str, after: Sequence[str], outcome: str = "pass") -> str:
        """A node that has ended; its id."""
        name += self.attack
        number = len(self.nodes)
        took = {"stage": STAGE_MS, "judge": JUDGE_MS}.get(kind, CHECKS_MS) * (1 + number % 3)
        added = max((self.ends[predecessor] for predecessor in after), default=BEGAN)
        start = added + WAIT_MS * (number % 3)
        self.edges += [(predecessor, name) for predecessor in after]
        self.ends[name] = added if outcome == "skipped" else start + took
        if outcome != "skipped":
            self.times[name] = NodeTime(added, start, start + took)
        asks = kind in ("stage", "judge") and outcome != "skipped"
        if asks:
            self.usd[name] = 0.0125 * (1 + number % 7)
            self.turns.append(self._turn(name, kind, number, start, start + took))
        status = {"skipped": "SKIPPED", "error": "ERROR"}.get(outcome, "DONE")
        self.nodes.append(
            Node(
                id=name,
                kind=kind,
                status=status,
                turns=("turn-001",) if asks else (),
                agent="fixer" if kind == "stage" else "",
                outcome="" if kind in ("checks", "judge") else outcome,
                reason=f"its loop ended {self.attack}" if outcome == "fail" else "",
            )
        )
        return name

    def gate(
        self,
        name: str,
        after: Sequence[str],
        outcome: str = "pass",
        rubrics: Sequence[str] = QUALITY,
    ) -> str:
        """A gate with its checks and judges, which it lasts as long as."""
        gate_id = self.add(name, "gate", after, outcome)
        self.ends[gate_id] = self.times[gate_id].start
        checks = self.add(f"{name}-checks", "checks", [gate_id])
        judges = [self.add(f"{name}-{rubric}", "judge", [checks]) for rubric in rubrics]
        self.ends[gate_id] = max(self.ends[judge] for judge in judges)
        self.times[gate_id] = replace(self.times[gate_id], end=self.ends[gate_id])
        return gate_id

    def _turn(self, node: str, kind: str, number: int, start: int, end: int) -> TurnView:
        step = (end - start) // 4
        calls = [CallView("Bash", "completed", start + step, start + 2 * step, "u1", "", 1, 2)]
        files = [
            FileView(
                f"src/part{number}{self.attack}.py",
                None,
                "modified",
                12,
                3,
                False,
                None,
                None,
                "",
                [],
            )
        ]
        head = EventHead("sdk", 1, start + 500, "message", "", "", "assistant", "text")
        return TurnView(
            id=f"nodes/{node}/turn-001", node=node, kind=kind, agent="fixer" if kind == "stage" else "",
            model=MODELS[number % 3], status="completed", started=start, ended=end, usd=self.usd[node],
            input_tokens=9_000 + 400 * number, output_tokens=800 + 10 * number, cache_read_tokens=6_000,
            heads=[head], calls=calls if kind == "stage" else [], todos=[], files=files if kind == "stage" else [],
        )  # fmt: skip

    def view(self) -> View:
        """What a page of the run shows."""
        graph = Graph("20261004-080000-000-abcdef", tuple(self.nodes), tuple(self.edges))
        by_model = {
            model: sum(turn.usd or 0 for turn in self.turns if turn.model == model)
            for model in MODELS
        }
        cost = Cost(usd=sum(self.usd.values()), basis="known", by_node=self.usd, by_model=by_model)
        run_summary = summary(
            outcome="fail", exit_code=1, findings=(finding(),), cost=cost, run_id=graph.run_id
        )
        return View(
            run_summary,
            graph=add_outcomes(graph, run_summary),
            times=self.times,
            turns=self.turns,
        )


def review(attack: str = "") -> View:
    """Three nodes: checks, a judge, a second look."""
    run = Growing(attack)
    judge = run.add("judge-quality", "judge", [run.add("checks", "checks", [])])
    run.add("second-look-quality", "judge", [judge])
    return run.view()


def workflow(parts: int, attack: str = "") -> View:
    """A plan, then for each part: building, a gate, a loop of three iterations; joined by threes,
    and then all.

    Twenty nodes a part, or so. One part in five is skipped where it would be repaired.
    """
    run = Growing(attack)
    plan = run.add("plan", "stage", [])
    ends = []
    for part in range(parts):
        built = run.add(f"build-{part:02}", "stage", [plan])
        last = run.gate(f"gate-{part:02}", [built], "fail", ("quality", "security", "tests"))
        if part % 5 == 4:
            last = run.add(f"repair-{part:02}", "stage", [last], "skipped")
        else:
            for text in ("", "-b", "-c"):
                fixed = run.add(f"fix-{part:02}{text}", "stage", [last])
                last = run.gate(
                    f"until-{part:02}{text}", [fixed], "pass" if text == "-c" else "fail"
                )
        ends.append(last)
    joined = [run.add(f"join-{at}", "stage", ends[at : at + 3]) for at in range(0, parts, 3)]
    run.add("release", "stage", [*joined, plan])
    return run.view()


HERE, GONE = "1" * 16, "2" * 16


def earlier_finding(name: str, text: str = "Gone.") -> ReportedFinding:
    """A finding of an earlier round."""
    return ReportedFinding(
        fingerprint=name,
        criterion="x",
        path=text,
        line=3,
        level="failure",
        message=text,
        since="a" * 40,
    )


def looked_again(attack: str = "") -> dict[str, RoundRecord]:
    """Three gates; the first finding was fixed by the second and is back in the third."""
    first = RoundRecord(
        number=1,
        counts=RoundCounts(new=2),
        new=(earlier_finding(HERE, "Here."), earlier_finding(GONE, f"Gone.{attack}")),
    )
    fixed = (earlier_finding(HERE, "Here."), earlier_finding(GONE, f"Gone.{attack}"))
    second = RoundRecord(number=2, after="review", counts=RoundCounts(fixed=2), fixed=fixed)
    counts = RoundCounts(new=1, unanswered=1)
    third = RoundRecord(number=3, after="until", counts=counts, new=(earlier_finding(HERE, "Here."),), back=(HERE,),
                      unanswered=(earlier_finding(GONE, attack or "Gone."),))  # fmt: skip
    return {"review": first, "until": second, "until-b": third}


def rounds(attack: str = "") -> View:
    """A run whose gates looked three times, after another run about the same change."""
    run_summary = summary(
        outcome="fail", exit_code=1, findings=(finding("Here.", fingerprint=HERE),)
    )
    graph = Graph(
        run_summary.run_id,
        tuple(Node(id=name, kind="gate", outcome="fail") for name in looked_again()),
    )
    fixed = (earlier_finding(GONE, f"Gone.{attack}"),)
    since = RoundRecord(number=2, after="20260101T030405006Z-abcdef01", new=(earlier_finding(HERE),), fixed=fixed,
                      counts=RoundCounts(new=1, fixed=1))  # fmt: skip
    return View(
        run_summary,
        graph=graph,
        gates=looked_again(attack),
        rounds=(looked_again(attack),),
        earlier=EarlierRound(since, f"{since.after}.html"),
    )
