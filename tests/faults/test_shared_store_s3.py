"""A bucket that a team shares: S3 as moto speaks it, behind a proxy that fails."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import sdk_alone
from answers import passes
from command import vibe_gate
from repos import GATE, SWALLOWS, Repo, gated
from scripted_messages_api import Hang
from walks import LAST, await_review, run_review
from wire import answer, answering

from vibe_gate.domain.store_access import read_store_access
from vibe_gate.run.review_result import Review

pytest.importorskip("obstore", reason="obstore is not installed here")
pytest.importorskip("moto.server", reason="moto is not installed here")

from obstore.store import from_url
from s3 import BUCKET, S3, bucket, moto

from vibe_gate.store.object_storage import ObjectStorage, StoreUnavailable

pytestmark = pytest.mark.usefixtures("quick_agents")

SECRET = "correct horse battery staple"
URL = f"s3://{BUCKET}/shop/reviews"
PASSES = passes("errors-not-swallowed", "names-are-clear")
LATER = "What it lacks is kept here; `vibe-gate bundles push` uploads it."


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with moto() as port:
        yield port


@pytest.fixture
def s3(port: int, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    with bucket(port) as s3:
        for name, value in (s3.environ | {"VIBE_GATE_STORE_KEY": SECRET}).items():
            monkeypatch.setenv(name, value)  # obstore reads the process's
            environ[name] = value
        yield s3


class Clones:
    def __init__(self, place: Path, environ: dict[str, str]) -> None:
        self.place, self.environ = place, environ
        self.origin = gated(place / "origin", environ, gate=f'{GATE}[store]\nurl = "{URL}"\n')
        self.origin.commit("Load robustly", **{"src/load.py": SWALLOWS})
        self.notes: tuple[str, ...] = ()

    def clone(self, name: str) -> Repo:
        self.origin.git("clone", "-q", str(self.origin.path), str(self.place / name))
        return Repo(self.place / name, self.environ)

    def review(self, repo: Repo, *steps: object) -> Review:
        with answering(*map(answer, steps)) as model:
            review = run_review(repo.path, self.environ | model.environ, LAST)
            self.notes = (*review.notes, *(review.unshared.upload() if review.unshared else ()))
        assert (len(model.script.requests), model.script.unexpected) == (len(steps), [])
        assert review.outcome == "pass"
        assert list((repo.path / ".vibe-artifacts").rglob("summary.json"))
        return review


@pytest.fixture
def team(tmp_path: Path, environ: dict[str, str]) -> Clones:
    return Clones(tmp_path, environ)


def test_what_one_clone_was_answered_another_takes_from_the_bucket(s3: S3, team: Clones) -> None:
    team.review(team.clone("a"), PASSES)
    assert team.notes == ()
    request_counts = {
        kind: s3.count(kind)
        for kind in ("GET .*answers/", "PUT .*answers/", "PUT .*claims/", "PUT .*runs/")
    }
    assert request_counts == {
        "GET .*answers/": 3,
        "PUT .*answers/": 2,
        "PUT .*claims/": 1,
        "PUT .*runs/": 1,
    }
    s3.seen.clear()
    team.review(team.clone("b"))
    assert team.notes == ()
    assert (s3.count("GET .*answers/"), s3.count("PUT .*(answers|claims)/")) == (1, 0)


def test_three_clones_at_once_pay_for_one_question(s3: S3, team: Clones) -> None:
    clones = [team.clone(name) for name in ("a", "b", "c")]

    async def all_at_once(environ: dict[str, str]) -> list[Review]:
        return await asyncio.gather(*(await_review(repo.path, environ) for repo in clones))

    with answering(PASSES, repeat_last=True) as model:
        reviews = asyncio.run(all_at_once(team.environ | model.environ))
    assert len(model.script.requests) == 1
    assert sorted((review.outcome, review.summary.cache.misses) for review in reviews) == [
        ("pass", 0),
        ("pass", 0),
        ("pass", 2),
    ]
    assert s3.count("PUT .*answers/") == 2  # about the trees, and about what was shown
    listed = s3.pass_on("GET", f"/{BUCKET}?list-type=2&prefix=shop/reviews/claims", {}, b"")[2]
    assert b"<KeyCount>0</KeyCount>" in listed


PHASES = {
    "looking up": "GET .*answers/",
    "claiming": "PUT .*claims/",
    "sharing an answer": "PUT .*answers/",
    "releasing": "POST",
    "uploading": "PUT .*runs/",
}


FAULTS = [
    *(("drop", phase) for phase in PHASES),
    *(("lose", phase) for phase in ("claiming", "uploading")),
]
FAULTS += [("deny", "releasing"), ("deny", "uploading")]
HARMLESS = {("deny", "releasing")}
"""The claim ends by itself."""


@pytest.mark.parametrize(("fault", "phase"), FAULTS)
def test_a_connection_that_is_lost_in_any_phase_loses_no_run_and_is_told_once(
    s3: S3, team: Clones, phase: str, fault: str
) -> None:
    s3.fault = lambda method, path: fault if re.search(PHASES[phase], f"{method} {path}") else ""
    first = team.clone("a")
    team.review(first, PASSES)
    is_told = 0 if (fault, phase) in HARMLESS else 1
    assert len(team.notes) == is_told, team.notes
    for note in team.notes:
        assert note.startswith(f"The shared store {URL} ")
        assert note.endswith(LATER)
    s3.fault = lambda method, path: ""
    pushed = vibe_gate("bundles", "push", "--json", cwd=first.path, environ=team.environ)
    assert pushed.code == 0, pushed.err
    assert pushed.json["left"] == 0
    s3.seen.clear()
    team.review(team.clone("b"))
    listed = vibe_gate(
        "bundles", "list", "--store", "--json", cwd=first.path, environ=team.environ
    ).json["bundles"]
    assert {run["outcome"] for run in listed} == {"pass"}
    assert len(listed) == 2


def test_a_store_that_hangs_holds_a_review_up_for_seconds_and_a_pass_from_answers_as_long(
    s3: S3, team: Clones
) -> None:
    s3.fault = lambda method, path: "hang"
    began = time.monotonic()
    team.review(team.clone("a"), PASSES)
    assert time.monotonic() - began < 9
    [note] = team.notes
    assert note == f"The shared store {URL} is not used: it does not answer in time. {LATER}"


def test_a_bucket_that_may_only_be_read_gives_answers_and_takes_none(s3: S3, team: Clones) -> None:
    team.review(team.clone("a"), PASSES)
    s3.fault = lambda method, path: "deny" if method != "GET" else ""
    second = team.clone("b")
    team.review(second)
    [note] = team.notes
    assert (
        note
        == f"The shared store {URL} may not be written: access is denied: 403 Forbidden AccessDenied. {LATER}"
    )
    push = vibe_gate("bundles", "push", cwd=second.path, environ=team.environ)
    assert (push.code, "access is denied" in push.err) == (3, True)
    assert (
        vibe_gate("bundles", "verify", "--store", cwd=second.path, environ=team.environ).code == 0
    )
    assert vibe_gate("bundles", "clean", "--store", cwd=second.path, environ=team.environ).code == 0


@pytest.mark.parametrize("name", ["runs//b", "runs/../b", "runs/a%1B"])
def test_an_object_whose_name_cannot_be_read_is_named(s3: S3, name: str) -> None:
    url = f"{s3.environ['AWS_ENDPOINT_URL']}/{BUCKET}/shop/reviews/{name}"
    urllib.request.urlopen(urllib.request.Request(url, b"junk", method="PUT")).close()
    displayed_name = name if "%" not in name else '"shop/reviews/runs/a\\033"'
    with pytest.raises(StoreUnavailable) as raised:
        ObjectStorage(URL, read_store_access(s3.environ), 5).list_objects("runs")
    assert str(raised.value).startswith(
        "an object there has a name that cannot be read, delete it: "
    )
    assert str(raised.value).endswith(displayed_name)


def test_a_bucket_that_is_not_there_or_gives_no_rights_changes_nothing(
    s3: S3, team: Clones
) -> None:
    s3.fault = lambda method, path: "deny"
    team.review(team.clone("a"), PASSES)
    [note] = team.notes
    assert (
        note
        == f"The shared store {URL} is not used: access is denied: 403 Forbidden AccessDenied. {LATER}"
    )
    s3.fault = lambda method, path: ""
    s3.pass_on("DELETE", f"/{BUCKET}", {}, b"")
    team.review(team.clone("b"), PASSES)
    [note] = team.notes
    assert "there is no such bucket" in note
    listing = vibe_gate("bundles", "list", "--store", cwd=team.place / "b", environ=team.environ)
    assert (listing.code, "NoSuchBucket" in listing.err) == (3, True)


def test_a_range_is_reviewed_once_by_all_machines(s3: S3, team: Clones) -> None:
    for number in range(3):
        team.origin.commit(f"Change {number}", **{"src/load.py": f"{SWALLOWS}X = {number}\n"})
    facts = {}
    with answering(PASSES, repeat_last=True) as model:
        for name in ("a", "b"):
            argv = ("review", "HEAD~3..HEAD", "--each", "--jobs", "1", "--json")
            review = vibe_gate(
                *argv, cwd=team.clone(name).path, environ=team.environ | model.environ
            )
            facts[name] = (
                review.code,
                [json.loads(line).get("why") for line in review.out.splitlines()],
            )
    assert facts["a"] == facts["b"] == (0, ["", "", "", None])
    assert len(model.script.requests) == 3
    runs = vibe_gate(
        "bundles", "list", "--store", "--json", cwd=team.place / "a", environ=team.environ
    ).json["bundles"]
    assert len(runs) == 6


def test_foreign_and_altered_objects_are_named_and_never_believed(s3: S3, team: Clones) -> None:
    first, second = team.clone("a"), team.clone("b")
    team.review(first, PASSES)
    bucket_store = from_url(URL, client_options={"allow_http": True})
    objects = {
        stored_object["path"]: bytes(bucket_store.get(stored_object["path"]).bytes())
        for part in bucket_store.list()
        for stored_object in part
    }
    [run] = [name for name in objects if name.startswith("runs/")]
    for name in objects.keys() - {run}:
        bucket_store.put(name, objects[name].replace(b'"pass"', b'"fail"'))
    bucket_store.put(run.replace("runs/2", "runs/1"), objects[run])
    bucket_store.put(run, b"altered")

    def run_vibe_gate(*argv: str) -> tuple[int, str]:
        result = vibe_gate(*argv, cwd=second.path, environ=team.environ)
        return result.code, result.out + result.err

    code, listed = run_vibe_gate("bundles", "list", "--store")
    assert (code, listed.count("foreign"), listed.count("pass")) == (0, 1, 1)
    code, checked = run_vibe_gate("bundles", "verify", "--store")
    assert code == 5
    assert (
        "Checked 2 runs, 2 answers: 4 objects not to be believed; the rest is what the team wrote."
        in checked
    )
    assert "its bytes are not those that were uploaded" in checked
    assert "it was not uploaded with this VIBE_GATE_STORE_KEY, or its name was altered" in checked
    code, shown_bundle = run_vibe_gate("bundles", "show", "--store")
    assert (code, "its bytes are not those" in shown_bundle) == (5, True)
    team.review(second, PASSES)  # asked again
    [note] = team.notes
    assert note.startswith(f"2 objects in {URL} (first answers/")
    assert note.endswith("altered, or not written with this VIBE_GATE_STORE_KEY; not used.")
    team.review(team.clone("c"))  # what was altered is what the team wrote again
    assert team.notes == ()


def test_a_machine_that_dies_while_it_asks_holds_others_up_no_longer_than_its_deadline(
    s3: S3, team: Clones
) -> None:
    argv = (sys.executable, "-m", "vibe_gate", "review", "--commit", "HEAD", "--deadline")
    with answering(Hang(), PASSES) as model:
        environ = (
            team.environ
            | model.environ
            | {"PYTHONPATH": f"{Path(__file__).parents[2]}:{sdk_alone.SITE}"}
        )
        first = subprocess.Popen(
            [*argv, "8"],
            cwd=team.clone("a").path,
            env=environ,
            start_new_session=True,
            stderr=subprocess.DEVNULL,
        )
        while not model.script.requests:
            time.sleep(0.05)
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        assert s3.count("POST") == 0  # it left its claim
        review = vibe_gate(
            "review",
            "--commit",
            "HEAD",
            "--deadline",
            "60",
            cwd=team.clone("b").path,
            environ=environ,
        )
    assert review.code == 0, review.err
    assert "another review asks the same just now; waiting for its answer" in review.err
    assert (len(model.script.requests), model.script.unexpected) == (2, [])
