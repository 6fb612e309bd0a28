"""`vibe-gate post`: a recorded run to its pull request, or what another job uploaded."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from vibe_gate.domain import paths
from vibe_gate.domain.bundles import WRONG, RunEntry, Verified
from vibe_gate.domain.summary import Summary
from vibe_gate.errors import INCONCLUSIVE, PASS, IntegrityError, StorageError, UsageError
from vibe_gate.faces.action.relay import relay
from vibe_gate.faces.action.runner import API_URL, SERVER_URL, Runner
from vibe_gate.faces.action.telling import Told, report_of, touched_since
from vibe_gate.faces.cli.bundles.naming import named, provenance, root_of
from vibe_gate.faces.cli.output import complain, emit, emit_to_runner
from vibe_gate.forge import Forge, Pull, open_forge
from vibe_gate.git import Repository, open_repository
from vibe_gate.git.fetching import Access
from vibe_gate.report.links import Links
from vibe_gate.report.posting import Posting, post
from vibe_gate.report.text import safe
from vibe_gate.store import Bundles, read_bundle

SUMMARY = "Post a recorded run to its pull request, or in a workflow_run job what another job uploaded."

FORM = "vibe-gate post [RUN] [--repo OWNER/NAME] [--pr N] | --from-artifact DIR"

EXAMPLES = """\
examples:
  vibe-gate post                       the newest run, to the pull request that has its commit
  vibe-gate post HEAD --pr 7           the run of HEAD, to pull request 7
  vibe-gate post --from-artifact DIR   in a job on workflow_run (docs/github.md)
"""

_REMOTE = re.compile(r"(?:[^@/\s]+@)?(?P<host>[A-Za-z0-9.-]+):(?P<path>[^\s]+)\Z")
"""`git@github.com:owner/name.git`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `post` takes."""
    parser.add_argument("run", nargs="?", metavar="RUN", help="a run id, its beginning, or a revision; else the newest")
    parser.add_argument("--repo", metavar="OWNER/NAME", help="by default GITHUB_REPOSITORY, or what origin is")
    parser.add_argument("--pr", type=_number, metavar="N", help="by default the open pull request with the commit")
    parser.add_argument("--review-comments", action="store_true", help="also comments at the lines of new findings")
    parser.add_argument("--from-artifact", metavar="DIR", help="what the job uploaded that set this job off")


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Post; 0 where the comment stands, 3 where it could not be posted."""
    runner = Runner(environ, Path.cwd(), lambda: datetime.now(UTC), emit_to_runner)
    if args.from_artifact is not None:
        if args.run or args.repo or args.pr:
            raise UsageError(
                "--from-artifact takes run, repository and pull request from the event; name none of them."
            )
        return relay(runner, Path(args.from_artifact))
    token = environ.get("GITHUB_TOKEN") or environ.get("GH_TOKEN") or ""
    if not token:
        raise UsageError("There is no token: set GITHUB_TOKEN or GH_TOKEN (`gh auth token` prints one).")
    root = root_of(environ)
    found = named(root, args.run, environ)
    if found.foreign:
        raise IntegrityError(f"The run {found.entry.run_id} is not posted: {found.foreign}.")
    bundle = root / found.entry.bundle
    summary = _sealed(found.entry, (root, environ))
    with open_repository(root, environ) as repository:
        server, name = _home(repository, args.repo, environ)
    with open_forge(_api(server, environ), token, name, environ=environ) as forge:
        pull = _pull(forge, args.pr, summary.change.head_commit)
        return _post(runner, forge, (summary, bundle, pull), (server, name, token), args.review_comments)


def _sealed(entry: RunEntry, store: tuple[Path, Mapping[str, str]]) -> Summary:
    """The verdict, after the whole bundle was compared with what it vouches for, and that with its log and receipt."""
    root, environ = store
    run_id = entry.run_id
    result = read_bundle(root / entry.bundle)
    if result.state != "sealed":
        raise StorageError(f"The run {run_id} is {result.state}: it has no verdict that could be posted.")
    _require_sound(Bundles(root, provenance(root, environ)).verify([entry]), run_id)
    summary = result.summary
    if not summary.change.head_commit:
        raise UsageError(
            f"The run {run_id} is about uncommitted work; no pull request has it. Commit, and review that."
        )
    return summary


def _require_sound(found: Verified, run_id: str) -> None:
    """IntegrityError with the first of what `vibe-gate bundles verify RUN` names."""
    wrong = [problem for problem in found.problems if problem.state in WRONG]
    if not wrong:
        return
    rest = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    raise IntegrityError(
        f"The run {run_id} is not posted: {paths.quote(wrong[0].place)}: {wrong[0].why}{rest} "
        f"(`vibe-gate bundles verify {run_id}` names all)."
    )


def _home(repository: Repository, wanted: str | None, environ: Mapping[str, str]) -> tuple[str, str]:
    """Server and name of the repository on GitHub. UsageError where nobody says."""
    host, path = _address(repository.config("remote.origin.url") or "")
    name = wanted or environ.get("GITHUB_REPOSITORY") or path
    server = environ.get("GITHUB_SERVER_URL") or (f"https://{host}" if host and not wanted else SERVER_URL)
    if name.count("/") != 1:
        raise UsageError("Which repository? Name it: --repo OWNER/NAME (origin is none on GitHub).")
    return server.rstrip("/"), name


def _address(remote: str) -> tuple[str, str]:
    """Host and path of a remote's address; "" for what it does not say."""
    if "://" not in remote:
        match = _REMOTE.match(remote)
        return (match["host"], match["path"].strip("/").removesuffix(".git")) if match else ("", "")
    try:
        parts = urlsplit(remote)
    except ValueError:  # no address
        return "", ""
    return parts.hostname or "", parts.path.strip("/").removesuffix(".git")


def _api(server: str, environ: Mapping[str, str]) -> str:
    """Where the API is. A token never goes to a server only because a remote names it."""
    given = environ.get("GITHUB_API_URL")
    if given:
        return given
    if server.lower() != SERVER_URL:
        raise UsageError(
            f"origin is at {paths.quote(server)}; for GitHub Enterprise set GITHUB_API_URL, as https://HOST/api/v3."
        )
    return API_URL


def _pull(forge: Forge, number: int | None, head: str) -> Pull:
    if number is not None:
        return forge.pull(number)
    pulls = [pull for pull in forge.pulls_of(head) if pull.state == "open"]
    if len(pulls) != 1:
        some = ", ".join(f"#{pull.number}" for pull in pulls) or "none"
        raise UsageError(
            f"Open pull requests with the commit {head[:12]}: {some}; name the one that is meant with --pr."
        )
    return pulls[0]


def _post(
    runner: Runner, forge: Forge, what: tuple[Summary, Path, Pull], where: tuple[str, str, str], lines: bool
) -> int:
    summary, bundle, pull = what
    server, name, token = where
    head, base = summary.change.head_commit, summary.change.base_commit
    links = Links(server, name, head, runner.run_url(name), base)
    told = Told(summary, (), bundle, links, repeat=f"{base[:12]}..{head[:12]}" if base else "")
    posting = Posting(
        head=head,
        number=pull.number,
        check_run=bool(runner.environ.get("GITHUB_ACTIONS")),  # only an app's token may write one
        review_comments=lines,
        touched=touched_since(runner.start, runner.environ, head, Access(server, token)),
    )
    posted = post(posting, forge, report_of(told))
    for sentence in posted.downgrades:
        complain(f"vibe-gate: {safe(sentence)}")
    if not posted.comment_url:
        return INCONCLUSIVE
    emit(posted.comment_url + "\n")
    return PASS


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 1 << 31):
        raise argparse.ArgumentTypeError(f"'{text}' is no number of a pull request")
    return int(text)
