"""A user's configuration changes how git looks to the user, and nothing that vibe-gate says or
does.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from command import vibe_gate
from repos import Repo

CONFIGURATION = """\
[blame]
    ignoreRevsFile = .not-there
    date = relative
    coloring = repeatedLines
    showEmail = true
    showRoot = true
    blankBoundary = true
    markIgnoredLines = true
[log]
    showSignature = true
    date = format:%Y %n%H
    follow = true
    decorate = full
    diffMerges = first-parent
    showRoot = false
    mailmap = true
    abbrevCommit = true
[diff]
    noprefix = true
    mnemonicPrefix = true
    external = false
    renames = false
    renameLimit = 1
    orderFile = .not-there
    context = 0
    interHunkContext = 50
    algorithm = patience
    ignoreSubmodules = all
    relative = true
    wordRegex = .
    colorMoved = zebra
    wsErrorHighlight = all
    statGraphWidth = 1
    submodule = log
    suppressBlankEmpty = true
    indentHeuristic = false
[core]
    quotePath = false
    abbrev = 4
    pager = false
    editor = false
    logAllRefUpdates = always
    warnAmbiguousRefs = false
    commentChar = x
    whitespace = trailing-space,tab-in-indent,cr-at-eol
    untrackedCache = true
    preloadIndex = false
    deltaBaseCacheLimit = 1
    fsmonitor = false
    notesRef = refs/notes/other
    alternateRefsCommand = false
[color]
    ui = always
    advice = always
    diff = always
    branch = always
    grep = always
    status = always
    interactive = always
    push = always
    remote = always
    transport = always
[i18n]
    logOutputEncoding = UTF-16
    commitEncoding = UTF-16
[status]
    short = true
    branch = true
    showUntrackedFiles = no
    relativePaths = false
    renames = copies
    submoduleSummary = true
[format]
    pretty = format:%ae%n%n
    notes = *
[notes]
    displayRef = refs/notes/*
    rewriteRef = refs/notes/*
    mergeStrategy = union
[grep]
    lineNumber = true
    column = true
    patternType = perl
    extendedRegexp = true
    fullName = true
    fallbackToNoIndex = true
    threads = 1
[column]
    ui = always
[advice]
    detachedHead = true
    graftFileDeprecated = true
[tag]
    sort = -version:refname
    gpgSign = true
[branch]
    sort = -committerdate
[push]
    default = matching
    followTags = true
    gpgSign = true
    recurseSubmodules = check
[fetch]
    prune = true
    pruneTags = true
    output = compact
    recurseSubmodules = true
    writeCommitGraph = true
[commit]
    gpgSign = true
    template = .not-there
    cleanup = scissors
    verbose = true
[gpg]
    program = false
    format = ssh
[gpg "ssh"]
    program = false
[user]
    useConfigOnly = true
[safe]
    bareRepository = explicit
[apply]
    whitespace = error
    ignoreWhitespace = change
[merge]
    conflictStyle = zdiff3
    renames = false
    log = true
[rerere]
    enabled = true
[submodule]
    recurse = true
[init]
    defaultBranch = other
    templateDir = .not-there
    defaultObjectFormat = sha256
    defaultRefFormat = reftable
[pager]
    log = false
    blame = false
    diff = false
[alias]
    log = !false
    blame = !false
    rev-parse = !false
[index]
    version = 4
    threads = 1
[feature]
    manyFiles = true
[mailmap]
    file = .not-there
    blob = HEAD:.not-there
[uploadpack]
    hideRefs = refs
[transfer]
    hideRefs = refs
    fsckObjects = true
[trace2]
    normalTarget = 1
    eventTarget = 1
    perfTarget = 1
"""

UNLIKE = re.compile(
    r"\b\d{8}T\d{9}Z-[0-9a-f]{8}\b|\b\d+(\.\d+)? ?m?s\b|\d\d:\d\d|\b[0-9a-f]{8}-[0-9a-f-]{27}\b"
)
"""What two runs of one command do not have in common: the run's id, how long it took, the time."""

COMMANDS = (
    "review HEAD~3..HEAD --no-judge --concise",
    "review --commit HEAD~1 --no-judge",
    "review HEAD --no-judge --concise",
    "review HEAD~2..HEAD --each --no-judge --jobs 1",
    "verify HEAD~3..HEAD",
    "blame src/new.py",
    "blame src/new.py HEAD~1",
    "blame src/load.py --json",
    "trace HEAD~3..HEAD",
    "bundles list",
    "config show",
)


@pytest.fixture
def repo(tmp_path: Path, environ: dict[str, str]) -> Repo:
    """Four commits: a rename with a change, a merge, a name that git would quote; and uncommitted
    changes.
    """
    repo = Repo(tmp_path / "repo", environ)
    repo.commit(
        "First",
        **{"src/load.py": "a = 1\nb = 2\nc = 3\n", "src/old.py": "one = 1\n" * 9, "é.txt": "x\n"},
    )
    repo.git("checkout", "-q", "-b", "side")
    repo.commit("Side", **{"side.py": "side = 1\n"})
    repo.git("checkout", "-q", "main")
    repo.git("mv", "src/old.py", "src/new.py")
    repo.commit("Rénamed", **{"src/new.py": "one = 1\n" * 9 + "two = 2\n"})
    repo.git("merge", "-q", "--no-ff", "-m", "Merge", "side")
    repo.commit(
        "Last",
        **{
            "src/load.py": "a = 1\nb = 3\nc = 3\n",
            "é.txt": "x\n<<<<<<< ours\ny\n=======\n>>>>>>> b\n",
        },
    )
    repo.write("src/load.py", "a = 1\nb = 3\nc = 4\n")
    repo.write("untracked.py", "d = 5\n")
    return repo


def outputs_of(repo: Repo, home: Path) -> dict[str, tuple[int, str]]:
    """By command its exit code and what it printed."""
    environ = {**repo.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")}
    outputs = {}
    for command in COMMANDS:
        result = vibe_gate(*command.split(), cwd=repo.path, environ=environ)
        outputs[command] = result.code, re.sub(r" +", " ", UNLIKE.sub("_", result.out + result.err))
    return outputs


@pytest.mark.slow
def test_no_setting_of_the_user_changes_what_is_said(repo: Repo, tmp_path: Path) -> None:
    homes = [tmp_path / name for name in ("clean", "hostile")]
    for home, text in zip(homes, ("", CONFIGURATION), strict=True):
        home.mkdir()
        (home / ".gitconfig").write_text(text)
    original = repo.path.rename(tmp_path / "original")
    outputs = []
    for home in homes:
        shutil.rmtree(repo.path, ignore_errors=True)
        shutil.copytree(original, repo.path, symlinks=True)
        outputs.append(outputs_of(repo, home))
    clean, hostile = outputs
    assert all(code in (0, 1) for code, _ in clean.values()), clean
    assert hostile == clean
