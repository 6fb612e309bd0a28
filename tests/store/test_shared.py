"""A shared store in a folder, as two machines of a team and one stranger use it."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from bundle_words import START
from recorded import Kind, record_run

from vibe_gate.domain.bundles import Provenance, RunEntry
from vibe_gate.domain.gate import Retention
from vibe_gate.domain.label import Label
from vibe_gate.domain.store_access import StoreAccess
from vibe_gate.domain.upkeep import Cleaned
from vibe_gate.errors import IntegrityError, StorageError, UsageError
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.shared_store import SharedStore
from vibe_gate.store.worktree_bundles import Bundles

pytest.importorskip("obstore", reason="obstore is not installed here")

SECRET = "correct horse battery staple"
NOW = START + timedelta(hours=1)
ANSWER = {"model": "m", "by_criterion": {}}
Machine = Callable[..., SharedStore]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("team", "a", "b", "c", "d", "fetched"):
        (tmp_path / name).mkdir()
    return tmp_path / "team"


@pytest.fixture
def machine(folder: Path) -> Machine:
    """Opens the shared store as another machine of the team does at a time; with another secret, as
    a stranger's does.
    """

    def open_shared(secret: str = SECRET, at: datetime = NOW, url: str = "") -> SharedStore:
        return SharedStore(url or folder.as_uri(), StoreAccess(secret), lambda: at)

    return open_shared


def objects(folder: Path, of: str = "") -> list[Path]:
    return sorted(path for path in (folder / of).rglob("*") if path.is_file())


# Answers


def test_an_answer_is_there_for_whoever_has_the_secret_for_90_days(machine: Machine) -> None:
    assert machine().put("q", ANSWER, NOW.timestamp())
    assert machine().answers(["q", "other"])["q"].answer == ANSWER
    assert machine(at=NOW + timedelta(days=89)).answers(["q"])
    assert machine(at=NOW + timedelta(days=91)).answers(["q"]) == {}
    assert machine("another secret, as long").answers(["q"]) == {}


def test_an_altered_answer_is_named_once_and_replaced_when_it_is_asked_again(
    machine: Machine, folder: Path
) -> None:
    machine().put("q", ANSWER, NOW.timestamp())
    machine().put("r", ANSWER, NOW.timestamp())
    first, second = objects(folder, "answers")
    moved = second.read_bytes()
    altered = first.read_bytes().replace(b'"m"', b'"n"')
    for content in (altered, moved, b"", b"junk", altered[:30]):
        first.write_bytes(content)
        reader = machine()
        assert len(reader.answers(["q", "r"])) == 1
        [remark] = reader.take_remarks()
        assert remark.startswith(
            f"1 object in {folder.as_uri()} (first answers/{first.name}): altered, or not written with"
        )
        assert reader.take_remarks() == ()
    for key in ("q", "r"):
        assert machine().put(key, ANSWER, NOW.timestamp())
    assert len(machine().answers(["q", "r"])) == 2


def test_what_was_written_for_another_address_counts_nowhere_else(
    machine: Machine, folder: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    machine(url=elsewhere.as_uri()).put("q", ANSWER, NOW.timestamp())
    machine().put("q", ANSWER, NOW.timestamp())
    [object_elsewhere], [object_here] = objects(elsewhere), objects(folder)
    assert object_elsewhere.name != object_here.name
    object_here.write_bytes(object_elsewhere.read_bytes())
    assert machine().answers(["q"]) == {}


# Claims


def test_one_machine_at_a_time_asks_and_the_next_when_it_is_done_or_its_time_is_up(
    machine: Machine, folder: Path
) -> None:
    first = machine()
    assert first.claim(["q", "r"], 300)
    assert not machine().claim(["p", "q"], 300)
    assert machine().claim(["p"], 300)  # given up by the machine that did not get both
    late = NOW + timedelta(seconds=301)
    second = machine(at=late)
    assert second.claim(["q"], 300)
    assert not machine(at=late).claim(["q"], 300)
    second.release(["q"])
    assert machine(at=late).claim(["q"], 300)
    first.release(["q", "r"])
    assert machine().claim(["r"], 300)


def test_a_claim_that_a_stranger_wrote_holds_nobody_up(machine: Machine, folder: Path) -> None:
    first = machine()
    first.claim(["q"], 300)
    [claim] = objects(folder, "claims")
    claim.write_bytes(claim.read_bytes().replace(b"until", b"UNTIL"))
    second = machine()
    assert second.claim(["q"], 300)
    assert "altered, or not written" in second.take_remarks()[0]


def test_a_claim_that_is_put_back_holds_others_up_until_its_time(
    machine: Machine, folder: Path
) -> None:
    first = machine()
    first.claim(["q"], 300)
    [claim] = objects(folder, "claims")
    data = claim.read_bytes()
    first.release(["q"])
    claim.parent.mkdir(exist_ok=True)
    claim.write_bytes(data)
    assert not machine().claim(["q"], 300)
    assert machine(at=NOW + timedelta(seconds=301)).claim(["q"], 300)


def test_what_strangers_put_beside_claims_holds_nobody_up(machine: Machine, folder: Path) -> None:
    machine().claim(["q"], 300)
    [claim] = objects(folder, "claims")
    for name in ("zzz", "000000x", "999999"):
        claim.with_name(name).write_bytes(b"junk")
    assert machine().claim(["q"], 300)
    claim.with_name("999999").unlink()
    assert not machine().claim(["q"], 300)


def test_many_reviews_of_a_process_have_their_patience_each_and_a_failure_is_told_once(
    folder: Path,
) -> None:
    looks = count(0, 4)  # seconds between two looks at the clock
    store = SharedStore(folder.as_uri(), StoreAccess(SECRET), lambda: NOW, lambda: next(looks))
    for _ in range(10):
        store.begin()
        store.put("q", ANSWER, NOW.timestamp())
        assert store.answers(["q"])
    assert store.take_remarks() == ()
    assert [bool(store.answers(["q"])) for _ in range(20)].count(True) < 5  # without another review
    assert len(store.take_remarks()) == 1


def test_answers_of_a_clone_are_fetched_shared_and_pushed_later(
    machine: Machine, folder: Path, tmp_path: Path
) -> None:
    with open_state(tmp_path / "a") as a, open_state(tmp_path / "b") as b:
        missing_store = machine(url=f"{folder.as_uri()}/gone")
        a.answers.shared = missing_store
        assert a.answers.put("q", ANSWER, NOW) == ""
        [remark] = missing_store.take_remarks()
        assert "is not used: there is no such folder. What it lacks is kept here" in remark
        b.answers.shared = machine()
        b.answers.fetch(["q"], NOW)
        assert b.answers.get("q", NOW) is None
        assert a.answers.push(machine()) == (1, 0)
        assert a.answers.push(machine()) == (0, 0)
        b.answers.fetch(["q"], NOW)
        assert b.answers.get("q", NOW) == ANSWER


# Labels


def label_of(finding: str, at: datetime, *, right: bool) -> Label:
    origin = {
        "rubric": "quality",
        "criterion": "c",
        "digest": "",
        "by": "Ann <a@x>",
        "source": "cli",
    }
    return Label(ts=at, finding=finding, right=right, **origin)


def test_labels_of_a_team_are_the_newest_of_each_finding_until_they_are_taken_back(
    machine: Machine, folder: Path
) -> None:
    first, second = "1" * 16, "2" * 16
    machine().put_label(label_of(first, START, right=True))
    machine().put_label(label_of(first, NOW, right=False))
    machine().put_label(label_of(second, NOW, right=True))
    assert [(label.finding, label.right) for label in machine().labels()] == [
        (first, False),
        (second, True),
    ]
    machine().remove_labels(first)
    [label] = objects(folder, "labels")
    assert machine("another secret, as long").labels() == ()
    label.write_bytes(label.read_bytes().replace(b"true", b"null"))
    reader = machine()
    assert reader.labels() == ()
    assert "altered, or not written" in reader.take_remarks()[0]


# Runs


def upload_runs(machine: Machine, root: Path) -> None:
    bundles = Bundles(root, Provenance(NOW))
    shared = machine().runs(root, bundles.provenance)
    assert all(shared.upload(entry) for entry in bundles.find())
    assert not any(shared.upload(entry) for entry in bundles.find())


def facts_of(entry: RunEntry) -> tuple[object, ...]:
    """What a list shows of a run, beside its name."""
    ids = (entry.patch_id, entry.range_patch_id)
    return (entry.created_at, entry.outcome, *ids, entry.cost_usd, entry.author)


def test_a_list_says_of_runs_what_a_list_here_says_but_for_paths(
    machine: Machine, tmp_path: Path
) -> None:
    ids = {"patch_id": "c" * 40, "range_patch_id": "d" * 64}
    record_run(tmp_path / "a", START, Kind(ids=ids, rubrics=("quality", "safety"), agent=True))
    record_run(
        tmp_path / "a",
        START + timedelta(minutes=1),
        Kind(outcome="fail", rubrics=[f"r-{n}" for n in range(200)]),
    )
    upload_runs(machine, tmp_path / "a")
    shared_runs = machine().runs(tmp_path / "fetched", Provenance(NOW))
    local_runs = Bundles(tmp_path / "a", Provenance(NOW)).find()
    assert [(entry.run_id, entry.rubrics) for entry in shared_runs.find()] == [
        (local_runs[0].run_id, ()),
        (local_runs[1].run_id, local_runs[1].rubrics),
    ]
    assert list(map(facts_of, local_runs)) == list(map(facts_of, shared_runs.find()))
    assert [entry.outcome for entry in shared_runs.find(outcome="fail")] == ["fail"]
    assert len(shared_runs.find(since=START + timedelta(seconds=30))) == 1
    with pytest.raises(UsageError, match="--path looks into runs"):
        shared_runs.find(path="src/**")


def test_a_foreign_and_an_altered_run_are_listed_and_named_and_never_fetched(
    machine: Machine, folder: Path, tmp_path: Path
) -> None:
    for minute, name in enumerate(("a", "b", "c", "d")):
        record_run(tmp_path / name, START + timedelta(minutes=minute))
    for name in ("a", "b", "d"):
        upload_runs(machine, tmp_path / name)
    upload_runs(lambda: machine("another secret, as long"), tmp_path / "c")
    first, second, _, fourth = objects(folder, "runs")
    first.write_bytes(second.read_bytes())  # altered
    renamed = second.name.replace(second.name[:8], "0" * 8)
    second.rename(second.with_name(renamed))  # its name is altered
    facts = fourth.parent  # a verdict that was altered in the name alone
    facts.rename(facts.with_name(facts.name[:-1] + ("A" if facts.name[-1] != "A" else "B")))
    shared = machine().runs(tmp_path / "fetched", Provenance(NOW))
    assert [run.state for run in shared.find()] == ["foreign", "foreign", "foreign", "sealed"]
    foreign = "it was not uploaded with this VIBE_GATE_STORE_KEY, or its name was altered"
    for entry, sentence in zip(
        shared.find(), (foreign, foreign, foreign, "its bytes are not those"), strict=True
    ):
        with pytest.raises(IntegrityError, match=sentence):
            shared.fetch([entry])
    assert not list((tmp_path / "fetched").rglob("summary.json"))
    checked = shared.verify()
    assert [problem.state for problem in checked.problems] == [
        "foreign",
        "foreign",
        "foreign",
        "corrupt",
    ]
    assert not checked.is_sound
    assert [problem.why for problem in checked.problems[2:]] == [
        foreign,
        "its bytes are not those that were uploaded",
    ]


def test_a_genuine_run_is_reached_whatever_strangers_put_beside_it(
    machine: Machine, folder: Path, tmp_path: Path
) -> None:
    for minute, name in enumerate(("a", "b")):
        record_run(tmp_path / name, START + timedelta(minutes=minute))
        upload_runs(machine, tmp_path / name)
    altered, genuine = objects(folder, "runs")
    altered.write_bytes(b"junk")
    place = folder / "runs" / genuine.relative_to(folder / "runs").parts[0]
    junk = [place / "x" / "y.z.tar.xz", place.with_suffix(f".{'a' * 40}") / "x" / "y.z.tar.xz"]
    for path in junk:
        path.parent.mkdir(parents=True)
        path.write_text("junk")
    shared = machine().runs(tmp_path / "fetched", Provenance(NOW))
    entries = shared.find()
    assert [entry.state for entry in entries] == ["sealed", "sealed"]
    with pytest.raises(IntegrityError, match="its bytes are not those"):
        shared.fetch(entries)
    assert [entry.run_id for entry in Bundles(tmp_path / "fetched", Provenance(NOW)).find()] == [
        entries[0].run_id
    ]
    problems = [(problem.state, problem.place) for problem in shared.verify().problems]
    assert sorted(problems) == sorted(
        [
            ("corrupt", str(altered.relative_to(folder))),
            *(("foreign", str(path.relative_to(folder))) for path in junk),
        ]
    )


def test_a_large_run_is_left_for_push_while_somebody_waits(
    machine: Machine, folder: Path, tmp_path: Path
) -> None:
    record_run(tmp_path / "a")
    bundles = Bundles(tmp_path / "a", Provenance(NOW))
    [entry] = bundles.find()
    summary = bundles.summary(entry)
    assert summary
    ballast = tmp_path / "a" / entry.bundle / "ballast"
    with ballast.open("wb") as file:
        file.truncate(40 << 20)
    store = machine()
    assert not store.upload(tmp_path / "a", (), summary)
    [remark] = store.take_remarks()
    assert remark.endswith(
        "has 41 MB: too much to upload while you wait; `vibe-gate bundles push` uploads it."
    )
    assert objects(folder) == []
    ballast.unlink()
    assert store.upload(tmp_path / "a", (), summary)
    assert store.take_remarks() == ()


def test_what_is_not_sealed_or_not_sound_is_not_uploaded(
    machine: Machine, folder: Path, tmp_path: Path
) -> None:
    record_run(tmp_path / "a")
    [entry] = Bundles(tmp_path / "a", Provenance(NOW)).find()
    [summary] = (tmp_path / "a").rglob("summary.json")
    summary.write_text(summary.read_text().replace('"pass"', '"fail"'))
    with pytest.raises(IntegrityError):
        machine().runs(tmp_path / "a", Provenance(NOW)).upload(entry)
    assert objects(folder) == []


def test_clean_deletes_old_runs_answers_and_claims_and_leaves_what_is_foreign(
    machine: Machine, folder: Path, tmp_path: Path
) -> None:
    record_run(tmp_path / "a", START)
    record_run(tmp_path / "b", START)
    upload_runs(machine, tmp_path / "a")
    upload_runs(lambda: machine("another secret, as long"), tmp_path / "b")
    writer = machine(at=datetime.now(UTC))
    writer.put("q", ANSWER, NOW.timestamp())
    writer.claim(["q"], 300)
    writer.put("r", ANSWER, NOW.timestamp())
    ours = [*objects(folder, "claims"), objects(folder, "answers")[0]]
    names = (
        "answers/notes.txt",
        f"answers/{'a' * 40}",
        "answers/\x1b",
        f"claims/{'a' * 40}/000000",
    )
    theirs = [folder / name for name in names]
    for path in theirs:
        path.parent.mkdir(exist_ok=True)
        path.write_text("something else")
    for path in [*ours, *theirs]:
        os.utime(path, (0, 0))
    rules = Retention(max_age_days=30)
    shared = machine().runs(tmp_path / "fetched", Provenance(datetime.now(UTC)))
    for dry_run, remaining in ((True, 9), (False, 6)):
        cleaned = shared.clean(rules, dry_run=dry_run)
        assert len(cleaned.deleted) == 1
        assert cleaned.answers == 1
        assert cleaned.claims == 1
        assert cleaned.errors == ()
        assert len(objects(folder)) == remaining
    assert all(path.exists() for path in theirs)


@pytest.mark.parametrize(
    "link", ["answers", "claims/x", "labels/x", "runs/20260101T000000Z-aaaaaaaa.abc"]
)
def test_a_symbolic_link_in_a_folder_leads_to_nobodys_files(
    machine: Machine, folder: Path, link: str
) -> None:
    work = folder.with_name("a") / "work.txt"
    work.write_text("mine")
    os.utime(work, (0, 0))
    (folder / link).parent.mkdir(exist_ok=True)
    (folder / link).symlink_to(work.parent)
    shared = machine().runs(folder.with_name("fetched"), Provenance(datetime.now(UTC)))
    if link == "answers":
        with pytest.raises(StorageError, match="cannot be used: answers in it is a symbolic link"):
            shared.clean(Retention())
        writer = machine()
        assert not writer.put("q", ANSWER, NOW.timestamp())
        assert "answers in it is a symbolic link" in writer.take_remarks()[0]
    else:
        assert shared.clean(Retention()) == Cleaned()
        assert (shared.find(), machine().labels()) == ([], ())
    assert [path.name for path in work.parent.iterdir()] == ["work.txt"]
