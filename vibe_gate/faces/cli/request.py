"""argv and environment to a ReviewRequest: what is compared, the limits, how the model is reached."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import cast, get_args
from urllib.parse import urlsplit

from msgspec import Struct

from vibe_gate.context.review_request import ReviewRequest, WireMode
from vibe_gate.domain import paths
from vibe_gate.domain.change import Selection
from vibe_gate.errors import UsageError
from vibe_gate.faces.advice import advising, words_of
from vibe_gate.faces.cli.command import argument
from vibe_gate.gate.source import is_identifier
from vibe_gate.run.shard import WHOLE, shard_of

WIRES: tuple[WireMode, ...] = get_args(WireMode)

SHARD = argument(
    "--shard", type=shard_of, default=WHOLE, metavar="K/N", help="only part K of N equal parts, for N machines"
)

_INSTEAD = {
    "staged": "--staged",
    "index": "--staged",
    "commit": "--commit REV",
    "worktree": "no revision, which is HEAD to the working tree",
    "range": "A..B",
    "merge_base": "A...B",
}
"""What selects a change, by words that people write for it as if they were revisions."""


class Spelling(Struct, frozen=True):
    """How a caller writes what selects a change, for errors; `range` says how a range is given instead of a commit."""

    revision: str
    staged: str
    commit: str
    range: str


def scheduler(text: str) -> str:
    """The value of `--cluster`. UsageError if it is not an address: Dask would wait for it for two minutes."""
    try:
        url = urlsplit(text)
        is_address = url.scheme in ("tcp", "tls") and bool(url.hostname and url.port) and not url.path
    except ValueError:  # a port that is not a number
        is_address = False
    if not (is_address or text == "local"):
        raise UsageError(
            f"--cluster {paths.quote(text)} is not an address; use tcp://HOST:PORT, tls://HOST:PORT or local."
        )
    return text


CLUSTER = argument(
    "--cluster",
    type=scheduler,
    metavar="URL",
    help="hand the work to a Dask cluster: tls:// or tcp://HOST:PORT of its scheduler, or local",
)


def add_limits(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """The options that limit cost and time."""
    limits = parser.add_argument_group("limits")
    limits.add_argument("--max-cost-usd", type=positive, metavar="X", help="spend at most X US dollars")
    limits.add_argument("--deadline", type=positive, metavar="SECONDS", help="time limit of the whole run")
    return limits


def add_wire(parser: argparse.ArgumentParser) -> None:
    """The options that say how the model is reached."""
    wire = parser.add_argument_group("model requests")
    wire.add_argument("--wire", choices=WIRES, help="record to a cassette, or replay one offline (default: live)")
    wire.add_argument("--cassette", metavar="DIR", help="the folder of recorded requests and answers")


def request_of(args: argparse.Namespace, environ: Mapping[str, str]) -> ReviewRequest:
    """The request that the arguments mean. UsageError if they contradict each other."""
    rubrics, revision = _rubrics_and_revision(args.rubric, args.revision)
    if revision == "" or args.commit == "":
        raise UsageError("the revision is empty; omit it to review HEAD to the working tree.")
    spelling = Spelling(revision or "", "--staged", "--commit", f"use `vibe-gate review {args.commit}`")
    wire, cassette = wire_of(args, environ)
    return ReviewRequest(
        selection=selected(revision, args.staged, args.commit, spelling),
        rubrics=tuple(dict.fromkeys(rubrics)),
        judge="never" if args.no_judge else "if checks pass",
        base=args.base or base_of_pull_request(environ),
        definitions=args.definitions,
        max_cost_usd=args.max_cost_usd,
        deadline_s=args.deadline,
        wire=wire,
        cassette=cassette,
        force=args.force,
    )


def selected(revision: str | None, staged: bool, commit: str | None, spelling: Spelling) -> Selection:
    """The change that one of the three selects; without any, HEAD to the working tree. UsageError for two of them."""
    given = ((spelling.revision, revision), (spelling.staged, staged or None), (spelling.commit, commit))
    words = [word for word, value in given if value is not None]
    if len(words) > 1:
        raise UsageError(f"{words[0]} and {words[1]} select different changes; use one of them.")
    if commit is not None:
        if ".." in commit:
            raise UsageError(f"{spelling.commit} takes one commit; for a range {spelling.range}")
        return Selection("commit", left=commit)
    return Selection("staged") if staged else selection(revision or "HEAD")


def selection(revision: str) -> Selection:
    """What `REV`, `A..B` or `A...B` selects; an empty side is HEAD, as in git. Whether it exists is not looked up."""
    dots = "..." if "..." in revision else ".."
    left, found, right = revision.partition(dots)
    if not found:
        return Selection("worktree", left=revision)
    if revision in ("..", "...") or ".." in right or left.endswith(".") or right.startswith("."):
        raise UsageError(f"'{revision}' is not a range. Use A..B, or A...B to start at the merge base.")
    return Selection("merge_base" if dots == "..." else "range", left=left or "HEAD", right=right or "HEAD")


def advising_about(request: ReviewRequest, environ: Mapping[str, str]) -> AbstractContextManager[None]:
    """Name, with an error about a revision of the request that is not there, what is nearest to it."""
    return advising(words_of(request), Path.cwd(), environ, _INSTEAD)


def base_of_pull_request(environ: Mapping[str, str]) -> str | None:
    """The base branch that GitHub Actions names in a pull request's job; definitions are read there."""
    base = environ.get("GITHUB_BASE_REF") if environ.get("GITHUB_ACTIONS") else None
    return f"origin/{base}" if base else None


def _rubrics_and_revision(rubrics: Sequence[str], revisions: Sequence[str]) -> tuple[list[str], str | None]:
    if len(revisions) > 1:
        raise UsageError(f"more than one revision; for a range use {revisions[0]}..{revisions[1]}")
    # `review --rubric quality HEAD~1`: argparse gives all words to --rubric, but
    # HEAD~1 cannot be a rubric's id, so the last word is the revision.
    names = list(rubrics)
    revision = revisions[0] if revisions else None
    if revision is None and len(names) > 1 and not may_be_rubric(names[-1]):
        revision = names.pop()
    for name in names:
        if not may_be_rubric(name):
            raise UsageError(f"'{name}' is not a rubric id; use lower-case letters, digits, '.', '_', '-'.")
    return names, revision


def may_be_rubric(name: str) -> bool:
    """Whether a word can be the id of a rubric; no revision with an upper-case letter, `~` or `..` is one."""
    return is_identifier(name) and ".." not in name


def wire_of(args: argparse.Namespace, environ: Mapping[str, str]) -> tuple[WireMode | None, Path | None]:
    """How the model is reached, by the options of `add_wire`, else by the environment. UsageError."""
    wire = args.wire or environ.get("VIBE_GATE_WIRE") or None
    cassette = args.cassette or environ.get("VIBE_GATE_CASSETTE") or None
    if wire is not None and wire not in WIRES:
        raise UsageError(f"VIBE_GATE_WIRE is '{wire}'; use {', '.join(WIRES)}.")
    if wire in ("record", "replay") and cassette is None:
        raise UsageError(f"--wire {wire} needs --cassette DIR (or VIBE_GATE_CASSETTE).")
    if args.cassette and wire in (None, "live"):
        raise UsageError("--cassette DIR needs --wire record or --wire replay.")
    return cast(WireMode | None, wire), Path(cassette) if cassette else None


def positive(text: str) -> float:
    """The value of an option that is a number above zero."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above zero")
    return value
