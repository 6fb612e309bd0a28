"""`vibe-gate replay`: stored runs judged again, as a user calls it."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from command import vibe_gate
from replaying import RUBRIC, History, judge
from repos import GATE, Repo, allow_store
from wire import answering

from vibe_gate.domain.bundles import Provenance, RunEntry
from vibe_gate.faces import workers
from vibe_gate.faces.cli.runs import StoredRuns
from vibe_gate.store.worktree_bundles import Bundles

pytestmark = pytest.mark.usefixtures("quick_agents")


@pytest.mark.slow
def test_the_table_names_what_came_out_otherwise_and_what_it_comes_to(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    with answering(judge, repeat_last=True) as model:
        history = History(Repo(tmp_path / "repo", environ), model.environ, model.script.requests)
        runs = [history.reviewed(number) for number in range(2)]
        history.define("lax")
        finding = runs[0].findings[0].fingerprint
        call = {"cwd": history.path, "environ": history.environ}
        history.repo.git("config", "user.name", "Ada")
        history.repo.git("config", "user.email", "ada@example.org")
        assert vibe_gate("label", finding, "wrong", **call).code == 0
        result = vibe_gate("replay", "--since", "1d", "--jobs", "1", **call)
        sentence = "Replaying 2 runs: at most $1.00 (--max-cost-usd), nothing for known answers.\n"
        assert (result.code, result.err) == (0, sentence)
        head, row, finding_line, blocked, labelled = result.out.splitlines()
        assert head.split() == ["run", "criterion", "before", "->", "after", "USD"]
        assert row.split()[:5] == [
            runs[0].run_id[:18],
            "quality/errors-not-swallowed",
            "fail",
            "->",
            "pass",
        ]
        assert finding_line == f"    src/load.py:4: The error is dropped. [{finding}]"
        assert blocked.startswith("Would have blocked 0 of 2, would no longer block 1; $0.0")
        assert labelled == "Of 1 that it would no longer block, 1 was labelled wrong."

        requests_before = len(history.requests)
        narrowed = vibe_gate("replay", "--json", "--rubric", "quality", runs[0].run_id, **call).json
        assert [row["recorded"] for row in narrowed["runs"]] == [False]
        second = vibe_gate("replay", runs[0].run_id, "HEAD", "--json", "--jobs", "1", **call).json
        assert [row["recorded"] for row in second["runs"]] == [True, True]
        assert second["totals"]["gone_wrong"] == 1
        assert len(history.requests) == requests_before

        replay = second["runs"][0]["replay"]
        assert replay not in vibe_gate("bundles", "list", **call).out
        assert (
            vibe_gate("bundles", "show", replay, "--json", **call).json["summary"]["outcome"]
            == "pass"
        )
        assert vibe_gate("stats", "--json", **call).json["runs"] == 2
        assert "is a replay of" in vibe_gate("post", replay, **call).err
        assert "is itself a replay" in vibe_gate("replay", replay, **call).err


@pytest.mark.slow
def test_workers_replay_side_by_side_and_a_run_that_is_not_here_is_a_row(tmp_path, environ) -> None:
    with answering(judge, repeat_last=True) as model:
        history = History(Repo(tmp_path / "repo", environ), model.environ, model.script.requests)
        runs = [history.reviewed(number) for number in range(3)]
        history.define("strict")
        missing_run = "20260101T000000000Z-00000000"
        run_ids = [*(run.run_id for run in runs), missing_run]
        call = {"cwd": history.path, "environ": history.environ}
        document = vibe_gate("replay", *run_ids, "--jobs", "2", "--json", **call).json
        assert [(row["run_id"], row["blocks"], bool(row["why"])) for row in document["runs"]] == [
            *((run.run_id, True, False) for run in runs),
            (missing_run, False, True),
        ]
        assert (
            document["exit_code"],
            document["totals"]["new"],
            document["totals"]["replayed"],
        ) == (0, 2, 3)
        table = vibe_gate("replay", *run_ids, "--table", **call)
        assert (table.code, "cannot be replayed: 1 run" in table.out) == (3, True)


@pytest.mark.slow
def test_shards_are_the_whole_and_their_archives_give_one_table(tmp_path, environ) -> None:
    history = History(Repo(tmp_path / "repo", environ), environ, None)
    runs = {history.reviewed(number).run_id for number in range(5)}
    history.forbid("raise$")
    machines = [history.path]
    for name in ("second", "last"):
        machines.append(tmp_path / name)
        shutil.copytree(history.path, machines[-1])
    parts = []
    for number, place in enumerate(machines[:2], 1):
        call = {"cwd": place, "environ": history.environ}
        document = vibe_gate(
            "replay", "--since", "1d", "--shard", f"{number}/2", "--jobs", "1", "--json", **call
        ).json
        parts.append({row["run_id"] for row in document["runs"]})
        vibe_gate("bundles", "export", "--all", "-o", str(tmp_path / f"{number}.tar.xz"), **call)
    assert parts[0] | parts[1] == runs
    assert not parts[0] & parts[1]
    call = {"cwd": machines[2], "environ": history.environ}
    assert vibe_gate("replay", "--table", **call).code == 3
    for number in (1, 2):
        assert vibe_gate("bundles", "import", str(tmp_path / f"{number}.tar.xz"), **call).code == 0
    table = vibe_gate("replay", "--table", **call)
    assert (table.code, table.out.splitlines()[-1]) == (
        0, "Would have blocked 3 of 5, would no longer block 2; $0.00."
    )  # fmt: skip


@pytest.mark.slow
def test_runs_of_the_teams_store_are_brought_and_replayed(tmp_path, environ) -> None:
    pytest.importorskip("obstore", reason="obstore is not installed here")
    team = tmp_path / "team"
    team.mkdir()
    allow_store(team.as_uri(), environ)
    history = History(
        Repo(tmp_path / "repo", environ), environ | {"VIBE_GATE_STORE_KEY": "k" * 20}, None
    )
    history.repo.write(".vibe-gate/gate.toml", f'{GATE}[store]\nurl = "{team.as_uri()}"\n')
    history.base = history.repo.commit("Share")
    run = history.reviewed(0)
    call = {"cwd": history.path, "environ": history.environ}
    assert vibe_gate("bundles", "push", **call).code == 0
    shutil.rmtree(history.path / ".vibe-artifacts")
    history.forbid("nothing")
    assert vibe_gate("replay", **call).err.startswith("No stored run")
    (row,) = vibe_gate("replay", "--store", "--json", **call).json["runs"]
    assert (row["run_id"], row["blocked"], row["blocks"]) == (run.run_id, True, False)


def test_a_key_is_wanted_of_workers_and_a_cost_is_told_only_where_a_chosen_rubric_asks_a_judge(
    tmp_path, environ, monkeypatch
) -> None:
    history = History(
        Repo(tmp_path / "repo", environ), environ | {"ANTHROPIC_API_KEY": "sk-none"}, None
    )
    history.repo.write(".vibe-gate/rubrics/asked.toml", RUBRIC.replace("quality", "asked"))
    missing_run = "20260101T000000000Z-00000000"
    errors = [
        vibe_gate(
            "replay", missing_run, "--rubric", name, cwd=history.path, environ=history.environ
        ).err
        for name in ("quality", "asked")
    ]
    assert errors == [
        "",
        "Replaying 1 run: at most $0.50 (--max-cost-usd), nothing for known answers.\n",
    ]
    monkeypatch.setattr("os.environ", environ)
    assert workers.unfit(asks=False) == ""
    assert (
        workers.unfit(asks=True) == "no API key: set ANTHROPIC_API_KEY in the worker's environment"
    )
    assert workers.unfit(asks=True, instead="use --no-judge").endswith(
        "environment, or use --no-judge"
    )


class CountedBundles(Bundles):
    """Counts how often its runs are listed."""

    lists = 0

    def find(self, *limits: Any, **conditions: Any) -> list[RunEntry]:
        self.lists += 1
        return super().find(*limits, **conditions)


def test_many_named_runs_are_looked_up_in_one_list(tmp_path, environ) -> None:
    history = History(Repo(tmp_path / "repo", environ), environ, None)
    names = [history.reviewed(number).run_id for number in range(3)]
    runs = StoredRuns(history.path)
    bundles = CountedBundles(history.path, Provenance(datetime.now(UTC)))
    runs.bundles = bundles
    entries = runs.entries([*names, names[0]])
    assert ([entry.run_id for entry in entries or ()], bundles.lists) == (names, 1)


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["HEAD", "--since", "1d"], "--since and runs select different runs"),
        (["--rubric", "qualty"], "did you mean"),
        (["--definitions", "nowhere"], "names no revision"),
        (["--wire", "replay"], "needs --cassette"),
    ],
)
def test_what_cannot_be_meant_is_told_before_anything_is_asked(
    tmp_path, environ, argv, sentence
) -> None:
    history = History(Repo(tmp_path / "repo", environ), environ, None)
    result = vibe_gate("replay", *argv, cwd=history.path, environ=history.environ)
    assert result.code == 2
    assert sentence in result.err
