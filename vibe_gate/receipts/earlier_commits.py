"""What commits were before an amend, a rebase or a cherry-pick, and which review is about that.

Three sources, the surest first: what git hooks recorded (post-rewrite); amends, by the reflogs; and
commits of the reflogs and of recorded runs with the same author, author date and title, which git
keeps when it makes a commit anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable
from contextlib import suppress
from itertools import islice

from msgspec import Struct

from vibe_gate.domain.bundles import RunEntry
from vibe_gate.errors import GateError
from vibe_gate.git import Repository
from vibe_gate.receipts.commit_status import FoundReceipt

MAX_EARLIER = 100
"""Earlier forms of one commit that are looked at: anybody can write many records."""

MAX_RUNS = 1_000
"""Runs, the newest first, whose commits are compared by author, author date and title."""


class EarlierReview(Struct, frozen=True):
    """The review of what a commit was before."""

    commit: str
    """Its id then."""
    found: FoundReceipt

    @property
    def sentence(self) -> str:
        """Which review it was, and why it does not count any more, as a clause."""
        outcome = f": {self.found.receipt.outcome}" if self.found.receipt else ""
        reviewed = f"{self.commit[:12]} was reviewed (run {self.found.run_id}{outcome})"
        return f"{reviewed}, and an amend, rebase or cherry-pick changed it"


class EarlierForms:
    """The earlier forms of the commits of one repository; `recorded` gives those of which hooks
    wrote records.
    """

    def __init__(
        self,
        repository: Repository,
        recorded: Callable[[str], Iterable[str]],
        entries: Iterable[RunEntry],
    ) -> None:
        self._repository = repository
        self._recorded = recorded
        self._amended: defaultdict[str, list[str]] = defaultdict(list)
        self._by_origin: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for entry in repository.reflog():
            self._note(entry.commit)
            if entry.amends:
                self._amended[entry.commit].append(entry.amends)
        heads = (entry.head_commit for entry in entries if entry.head_commit)
        for head in islice(heads, MAX_RUNS):
            self._note(head)

    def of(self, commit: str) -> list[str]:
        """What the commit was, the latest first as far as that is known; at most `MAX_EARLIER`
        ids.
        """
        rewritten: dict[str, None] = {}
        waiting = [commit]
        while waiting and len(rewritten) <= MAX_EARLIER:
            name = waiting.pop(0)
            if name not in rewritten:
                rewritten[name] = None
                waiting += [*self._recorded(name), *self._amended.get(name, ())]
        of_same_origin = self._by_origin.get(self._repository.origin_of(commit), {})
        names = rewritten | of_same_origin
        names.pop(commit, None)
        return [*names][:MAX_EARLIER]

    def _note(self, commit: str) -> None:
        # A damaged object that the range does not have is no matter of its own.
        with suppress(GateError):
            if not self._repository.has(commit):
                return
            self._by_origin[self._repository.origin_of(commit)][commit] = None


def reviews_before(
    repository: Repository,
    forms: EarlierForms,
    commits: Collection[str],
    find: Callable[[Container[str]], Iterable[FoundReceipt]],
) -> dict[str, list[EarlierReview]]:
    """By commit with earlier forms, the newest review of each form that has one. `find` gives
    receipts by `object_ids`.

    A commit among `commits` is another commit and no earlier form.
    """
    forms_by_commit: dict[str, list[str]] = {}
    trees_by_form: dict[str, str] = {}
    for commit in commits:
        earlier_forms = [form for form in forms.of(commit) if form not in commits]
        if earlier_forms:
            forms_by_commit[commit] = earlier_forms
        for form in earlier_forms:
            trees_by_form[form] = _trees(repository, form)
    if not trees_by_form:
        return {}  # no look at every note for nothing
    receipts_by_trees = _newest_by_trees(find(set(trees_by_form.values())))
    reviews: dict[str, list[EarlierReview]] = {}
    for commit, earlier_forms in forms_by_commit.items():
        reviews[commit] = []
        for form in earlier_forms:
            receipt = receipts_by_trees.get(trees_by_form[form])
            if receipt is not None:
                reviews[commit].append(EarlierReview(form, receipt))
    return reviews


def _newest_by_trees(candidates: Iterable[FoundReceipt]) -> dict[str, FoundReceipt]:
    """By the trees that it compared, the newest receipt that is not forged."""
    newest: dict[str, FoundReceipt] = {}
    for candidate in sorted(candidates, key=lambda candidate: candidate.run_id):
        receipt = candidate.receipt
        is_forged = candidate.problem or candidate.signature.state in ("bad", "unlisted")
        if receipt is not None and not is_forged:
            newest[f"{receipt.before}..{receipt.after}"] = candidate
    return newest


def _trees(repository: Repository, commit: str) -> str:
    """The trees of the commit's first parent and of itself, as `object_ids` has them; "" if they
    cannot be read.
    """
    try:
        before = repository.tree_of(repository.first_parent(commit))
        return f"{before}..{repository.tree_of(commit)}"
    except GateError:
        return ""
