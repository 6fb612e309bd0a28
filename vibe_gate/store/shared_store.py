"""A store that a team shares: a bucket, or a folder that all can reach. Docs:
docs/guides/shared-store.md.

    answers/<code>        what a model answered, under a code of its question
    claims/<code>/<n>     who asks a question now, and until when; n + 1 takes over from one whose time is up
    runs/...              sealed runs (`shared_runs`)
    labels/...            what people say of findings

Nothing is believed because it is there, but for its code (`object_codes`). Everything is written by
create-if-absent. A review waits PATIENCE_S in all; if the store cannot be used, the review goes on
without it, and `take_remarks` has one sentence.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from vibe_gate.domain.bundles import Provenance, RunEntry
from vibe_gate.domain.document import Timestamp, decode_document, to_json
from vibe_gate.domain.escape import counted
from vibe_gate.domain.label import Label, newest
from vibe_gate.domain.store_access import STORE_KEY, StoreAccess
from vibe_gate.domain.summary import Summary
from vibe_gate.errors import GateError, StorageError
from vibe_gate.store.bundle_listing import entry_of_summary
from vibe_gate.store.object_codes import LEAST_SECRET, Codes
from vibe_gate.store.shared_runs import SharedRuns, StoreUnusable

if TYPE_CHECKING:
    from vibe_gate.store.object_storage import ObjectStorage

T = TypeVar("T")

"""The variable with the team's secret."""

CALL_S = 5.0
"""Of one request of a review."""

PATIENCE_S = 15.0
"""That a review waits for the store in all."""

UPLOAD_S = 10.0
"""That the upload of a run may take at the end of a review; later `bundles push` has
LONG_CALL_S.
"""

MAX_AT_ONCE = 32 << 20
"""Bytes of a run that is packed and uploaded while somebody waits; packing takes a second for 20
MB.
"""

OFF_S = 60.0
"""That a process with many reviews goes without a store that failed."""

LONG_CALL_S = 300.0
POLL_S = 1.0
"""Between two looks whether a claim of another machine has ended."""

MAX_CLAIM = timedelta(days=1)
"""A claim is for the rest of a review's deadline, a day at most; one for longer is of a clock that
is wrong.
"""

MAX_TAKEN_OVER = 20
"""Claims that end while one is made."""

MAX_NUMBER = 999_999
_NUMBER = re.compile("/[0-9]{6}")

MAX_ANSWER_BYTES = 4 << 20
MAX_ANSWER_AGE_S = 90 * 86_400
"""As of answers in state.db."""

NO_OBSTORE = "obstore is not installed (pip install 'vibe-gate[store]')"
NO_KEY = "The shared store {url} is not used: " + STORE_KEY + " is not set."
SHORT_KEY = (
    "The shared store {url} is not used: "
    + STORE_KEY
    + f" has fewer than {LEAST_SECRET} characters."
)


class SharedAnswer(Struct, frozen=True, kw_only=True):
    """An answer as it lies there."""

    key: str
    """The digest of its question."""
    created_at: float
    """When it was given, in seconds since 1970."""
    answer: dict[str, Any]


class QuestionClaim(Struct, frozen=True, kw_only=True):
    """That somebody asks a question now."""

    who: str
    """A random name of the process."""
    until: Timestamp
    """When the claim ends at the latest."""


class SharedStore:
    """The store as a review uses it: nothing here raises but `runs`, and what fails is said once.

    Ask `unusable` first.
    """

    @staticmethod
    def unusable(url: str, access: StoreAccess) -> str:
        """The sentence why no store can be used with this access; "" if one can be tried."""
        if len(access.key) < LEAST_SECRET:
            return (SHORT_KEY if access.key else NO_KEY).format(url=url)
        return ""

    def __init__(
        self,
        url: str,
        access: StoreAccess,
        clock: Callable[[], datetime],
        seconds: Callable[[], float] = monotonic,
    ) -> None:
        self.url = url
        self._access = access
        self._clock = clock
        self._seconds = seconds
        self._codes = Codes(url, access.key)
        self._who = secrets.token_hex(8)
        self._claim_names: dict[str, list[str]] = {}
        """By key, the names of its claims up to ours."""
        self._refused_at = -POLL_S
        self._patience_left_s = PATIENCE_S
        self._off_until = 0.0
        self._is_read_only = False
        self._has_reported_failure = False
        self._remarks: list[str] = []
        self._altered_names: set[str] = set()

    def take_remarks(self) -> tuple[str, ...]:
        """Sentences about the store that nobody was told yet."""
        remarks = tuple(self._remarks)
        altered_names = sorted(self._altered_names)
        self._remarks.clear()
        self._altered_names.clear()
        if not altered_names:
            return remarks
        objects = (
            f"{counted(len(altered_names), 'object')} in {self.url} (first {altered_names[0]})"
        )
        return (*remarks, f"{objects}: altered, or not written with this {STORE_KEY}; not used.")

    def runs(self, root: Path, provenance: Provenance, seconds: float = LONG_CALL_S) -> SharedRuns:
        """The runs there, for who waits for them; `root` as of SharedRuns. StorageError."""
        try:
            return SharedRuns(root, provenance, self.url, self._codes, self._opened(seconds))
        except StorageError as error:
            raise StoreUnusable(self.url, error) from error

    def begin(self) -> None:
        """Have the whole patience again, for another review of this process."""
        self._patience_left_s = PATIENCE_S

    def probe(self) -> None:
        """Find out whether it can be read; `take_remarks` has why not."""
        self._attempt(lambda: self._objects.list_objects("claims"), None)

    def patient(self) -> None:
        """Wait as long as it takes, as for a command that does nothing else."""
        self._patience_left_s = float("inf")

    # Answers

    def answers(self, keys: Iterable[str]) -> dict[str, SharedAnswer]:
        """The answers to these questions that lie there and count, by key."""
        key_by_name = {self._codes.name("answers", key): key for key in keys}
        if not key_by_name:
            return {}
        objects = self._attempt(
            lambda: self._objects.get_all(key_by_name, MAX_ANSWER_BYTES), dict[str, bytes]()
        )
        answers: dict[str, SharedAnswer] = {}
        for name, data in objects.items():
            answer = self._answer(name, key_by_name[name], data)
            if answer is not None:
                answers[answer.key] = answer
        return answers

    def _answer(self, name: str, key: str, data: bytes) -> SharedAnswer | None:
        """The answer that the object holds; None if it is too old, or does not count, which `take_remarks`
        says.
        """
        body = self._codes.body(name, data)
        try:
            answer = None if body is None else decode_document(SharedAnswer, body)
        except ValueError:  # of a later version
            return None
        if answer is None or answer.key != key:
            self._altered_names.add(name)
            return None
        age_s = self._clock().timestamp() - answer.created_at
        return answer if age_s < MAX_ANSWER_AGE_S else None

    def put(self, key: str, answer: Mapping[str, Any], created_at: float) -> bool:
        """Share an answer; whether it is there now. One that is there and does not count, or
        differs, is replaced.
        """
        name = self._codes.name("answers", key)
        new_answer = SharedAnswer(key=key, created_at=created_at, answer=dict(answer))
        new_data = self._codes.coded(name, to_json(new_answer).encode())

        def put() -> bool:
            if self._objects.create(name, new_data):
                return True
            data = self._objects.get(name, MAX_ANSWER_BYTES)
            shared_answer = None if data is None else self._answer(name, key, data)
            as_read_back = json.loads(json.dumps(new_answer.answer))
            if shared_answer is None or shared_answer.answer != as_read_back:
                self._objects.replace(name, new_data)
            return True

        return self._attempt(put, False, writing=True)

    # Claims

    def claim(self, keys: Iterable[str], seconds: float) -> bool:
        """Be the only machine that asks these questions for so long, or until `release`; False if
        another one asks.

        True also if the store cannot be used: then a question may be paid for twice.
        """
        if self._seconds() - self._refused_at < POLL_S:
            return False
        until = self._clock() + timedelta(seconds=seconds)
        claimed_keys: list[str] = []
        for key in keys:
            if not self._attempt(partial(self._claim_question, key, until), True, writing=True):
                self.release(claimed_keys)
                self._refused_at = self._seconds()
                return False
            claimed_keys.append(key)
        return True

    def _claim_question(self, key: str, until: datetime) -> bool:
        folder = self._codes.name("claims", key)
        number = 0
        body = to_json(QuestionClaim(who=self._who, until=until)).encode()
        for _ in range(MAX_TAKEN_OVER):
            if number > MAX_NUMBER:
                break
            name = f"{folder}/{number:06}"
            is_created = self._objects.create(name, self._codes.coded(name, body))
            if is_created or self._is_ours(name):
                self._claim_names[key] = [f"{folder}/{earlier:06}" for earlier in range(number + 1)]
                return True
            latest_name = self._latest_claim(folder)
            if not latest_name:
                number = 0
            elif self._is_live(latest_name):
                return False
            else:
                number = int(latest_name[-6:]) + 1
        return True  # somebody fills the folder

    def _latest_claim(self, folder: str) -> str:
        """The name of the last claim in the folder; "" if there is none."""
        latest_name = ""
        for stored in self._objects.list_objects(folder):
            if _NUMBER.fullmatch(stored.name, len(folder)):
                latest_name = stored.name
        return latest_name

    def _claim(self, name: str) -> QuestionClaim | None:
        data = self._objects.get(name, MAX_ANSWER_BYTES)
        body = None if data is None else self._read_body(name, data)
        try:
            if body is None:
                return None
            return decode_document(QuestionClaim, body)
        except ValueError:
            return None

    def _read_body(self, name: str, data: bytes) -> bytes | None:
        """What was written under the name; None, and the name is noted, if it is not genuine."""
        body = self._codes.body(name, data)
        if body is None:
            self._altered_names.add(name)
        return body

    def _is_ours(self, name: str) -> bool:
        """Whether a request that was sent again found what it had written."""
        claim = self._claim(name)
        return claim is not None and claim.who == self._who

    def _is_live(self, name: str) -> bool:
        claim = self._claim(name)
        now = self._clock()
        return claim is not None and now < claim.until < now + MAX_CLAIM

    def release(self, keys: Iterable[str]) -> None:
        """Give up claims; of each the oldest first, so that a new one begins only when ours is
        going.
        """
        for key in keys:
            for name in self._claim_names.pop(key, ()):
                self._attempt(partial(self._delete, name), None, writing=True)

    def _delete(self, name: str) -> None:
        """Delete a claim; who may not leaves it, and it ends by itself."""
        try:
            self._objects.delete(name)
        except StorageError as error:
            if not getattr(error, "denied", False):
                raise

    # Labels

    def put_label(self, label: Label) -> bool:
        """Share what a person says of a finding; whether it is there now."""
        body = to_json(label).encode()
        name = f"{self._labels_of(label.finding)}/{self._codes.code('label', body)[:40]}"

        def put() -> bool:
            self._objects.create(name, self._codes.coded(name, body))
            return True

        return self._attempt(put, False, writing=True)

    def remove_labels(self, finding: str) -> None:
        """Take back what was said of a finding."""

        def remove() -> None:
            for stored in self._objects.list_objects(self._labels_of(finding)):
                self._objects.delete(stored.name)

        self._attempt(remove, None, writing=True)

    def labels(self) -> tuple[Label, ...]:
        """The newest label of each finding and rubric that lies there and counts, oldest first."""

        def read() -> dict[str, bytes]:
            names = [stored.name for stored in self._objects.list_objects("labels")]
            return self._objects.get_all(names, MAX_ANSWER_BYTES)

        labels = []
        for name, data in self._attempt(read, dict[str, bytes]()).items():
            label = self._label(name, data)
            if label is not None:
                labels.append(label)
        return newest(labels)

    def _label(self, name: str, data: bytes) -> Label | None:
        body = self._read_body(name, data)
        try:
            if body is None:
                return None
            return decode_document(Label, body)
        except ValueError:  # of a later version
            return None

    def _labels_of(self, finding: str) -> str:
        return self._codes.name("labels", finding)

    # Runs

    def upload(self, root: Path, tracked: Collection[str], summary: Summary) -> bool:
        """Upload a run that was just sealed; whether it is there now. `tracked` as of
        `Provenance`.
        """
        self._patience_left_s = UPLOAD_S
        provenance, run = (
            Provenance(self._clock(), tracked),
            entry_of_summary(RunEntry(summary.run_id, summary.key), summary),
        )
        size = sum(path.stat().st_size for path in (root / run.bundle).rglob("*") if path.is_file())
        if size > MAX_AT_ONCE:
            problem = (
                f"Run {run.run_id} has {size // 1_000_000} MB: too much to upload while you wait"
            )
            self._remarks.append(f"{problem}; `vibe-gate bundles push` uploads it.")
            return False

        def upload() -> bool:
            self.runs(root, provenance, UPLOAD_S).upload(run)
            return True

        return self._attempt(upload, False, writing=True)

    # What fails

    @cached_property
    def _objects(self) -> ObjectStorage:
        return self._opened(CALL_S)

    def _opened(self, seconds: float) -> ObjectStorage:
        """The objects, a request at most so long. StorageError."""
        try:
            from vibe_gate.store.object_storage import ObjectStorage
        except ImportError:
            raise StorageError(NO_OBSTORE) from None
        return ObjectStorage(self.url, self._access, seconds)

    def _attempt(self, action: Callable[[], T], otherwise: T, *, writing: bool = False) -> T:
        """What `action` gives; `otherwise` if the store cannot be used, or `writing` there is not
        allowed.
        """
        began_at = self._seconds()
        if began_at < self._off_until or (writing and self._is_read_only):
            return otherwise
        try:
            if self._patience_left_s <= 0:
                raise StorageError("it answers too slowly")
            return action()
        except GateError as error:
            self._note_failure(error, writing=writing)
            return otherwise
        finally:
            self._patience_left_s -= self._seconds() - began_at

    def _note_failure(self, error: GateError, *, writing: bool) -> None:
        """Go on without writing, or for a while without the store, and say so the first time."""
        if writing and getattr(error, "denied", False):
            self._is_read_only = True
            limitation = "may not be written"
        else:
            self._off_until = self._seconds() + OFF_S
            limitation = "is not used"
        if self._has_reported_failure:
            return
        self._has_reported_failure = True
        reason = getattr(error, "reason", str(error).rstrip("."))
        remedy = "What it lacks is kept here; `vibe-gate bundles push` uploads it."
        self._remarks.append(f"The shared store {self.url} {limitation}: {reason}. {remedy}")
