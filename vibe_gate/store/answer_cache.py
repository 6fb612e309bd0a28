"""Answers of models that were paid for, by the digest of their question (hex): of this clone, and
of the team.

Whoever can write the git directory can write answers, which is why a verdict that must bind is
decided in CI.
"""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vibe_gate.domain.leaving import may_leave
from vibe_gate.store.database.answer_table import AnswerRow, AnswerTable
from vibe_gate.store.database.state_file import FOLDER, StateFile
from vibe_gate.store.folder import Folder
from vibe_gate.store.ndjson_log import Lock

if TYPE_CHECKING:
    from vibe_gate.store.shared_store import SharedStore

CLAIMS = "asking"
"""Folder of the questions that are being asked just now, a locked file each."""

MAX_ANSWER_AGE_S = 90 * 86_400
"""An older answer is asked for again: models change behind their names."""

MAX_ANSWERS = 5_000
"""Answers beyond this go, oldest first; at a few KB each, some tens of MB at most."""

MAX_PACKED = 2_000
"""Answers that travel: many rounds of a pull request, and of replays before it; some MB."""


class AnswerCache:
    """The answers that this clone keeps, shared with the team's store if there is one."""

    def __init__(self, file: StateFile) -> None:
        self._table = AnswerTable(file)
        self._folder = file.folder
        self._claims: dict[str, Lock] = {}
        self.shared: SharedStore | None = None
        """The store of the team, if the run shares answers."""
        self._recalled: dict[str, dict[str, Any]] = {}

    def fetch(self, keys: Iterable[str], now: datetime) -> None:
        """Keep here what the shared store, if there is one, has and this clone does not."""
        if self.shared is None:
            return
        missing_keys = [key for key in dict.fromkeys(keys) if self.get(key, now) is None]
        answers = self.shared.answers(missing_keys).values()
        rows = [(answer.key, answer.created_at, json.dumps(answer.answer)) for answer in answers]
        if rows:
            self._table.put(rows)

    def recall(self, answers: Mapping[str, dict[str, Any]]) -> None:
        """Give these, too, for keys without an answer, as long as this is open. Nothing of them is
        written: they come from a bundle, which somebody else may have made.
        """
        self._recalled |= answers

    def get(self, key: str, now: datetime) -> dict[str, Any] | None:
        """The answer kept under `key`; None if there is none, or it is too old."""
        text = self._table.get(key, now.timestamp() - MAX_ANSWER_AGE_S)
        if not text:
            return self._recalled.get(key)
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            return None
        return answer if isinstance(answer, dict) else None

    def put(
        self,
        key: str,
        answer: Mapping[str, Any],
        now: datetime,
        prompts: Mapping[str, str] | None = None,
    ) -> str:
        """Keep an answer, and share it if there is a shared store and it may leave.

        `prompts`: what the model was shown, as `leaving.may_leave` takes it. "", or why it could not
        be kept.
        """
        if key in self._recalled:
            return ""
        is_private = not may_leave(prompts)
        problem = self._table.mark_private(key) if is_private else ""
        if problem:
            return problem
        problem = self._table.put([(key, now.timestamp(), json.dumps(answer))])
        if self.shared is not None and not is_private:
            is_shared = self.shared.put(key, answer, now.timestamp())
            if not is_shared:
                self._table.mark_unshared(key)
        return problem

    def writing_problem(self) -> str:
        """Why this clone cannot keep answers just now; "" if it can."""
        return self._table.writing_problem()

    def push(self, shared: SharedStore) -> tuple[int, int]:
        """Share the answers that could not be shared when they were given; how many were, and how
        many are left.
        """
        rows = self._table.unshared()
        shared_keys = [key for key, at, answer in rows if shared.put(key, json.loads(answer), at)]
        self._table.mark_shared(shared_keys)
        return len(shared_keys), len(rows) - len(shared_keys)

    def pack(self, secret: str) -> bytes:
        """The newest answers that may leave the clone, for another machine, behind a code that
        nobody makes without `secret`; b"" if none.
        """
        rows = self._table.newest_public(MAX_PACKED)
        if not rows:
            return b""
        body = json.dumps(rows).encode()
        return _code(body, secret) + body

    def unpack(self, packed: bytes, secret: str) -> bool:
        """Begin anew with packed answers; False, and with none, if their code is not of
        `secret`.
        """
        size = len(_code(b"", secret))
        code, body = packed[:size], packed[size:]
        is_genuine = hmac.compare_digest(code, _code(body, secret))
        rows: list[AnswerRow] = []
        if is_genuine:
            rows = json.loads(body)
        self._table.replace_all(rows)
        return is_genuine

    def claim(
        self, keys: Iterable[str], seconds: float = 0.0, private: Collection[str] = ()
    ) -> bool:
        """Be the only one who asks these questions until `release`; False if another run asks one
        just now.

        A claim is a locked file, so it ends with the process; in a shared store it ends after
        `seconds` at the latest. Nothing of `private` keys goes there. Does not wait. True also if
        no claim can be made: then a question may be paid for twice.
        """
        keys = sorted(set(keys))
        claimed_keys: list[str] = []
        try:
            folder = (
                Folder.at(Path(self._folder).parent)
                .folder(FOLDER, create=True)
                .folder(CLAIMS, create=True)
            )
            for key in keys:
                self._claims[key] = Lock(folder, key)
                claimed_keys.append(key)
        except BlockingIOError:
            self.release(claimed_keys)
            return False
        except OSError:
            pass
        if self.shared is None or self.shared.claim(
            [key for key in keys if key not in private], seconds
        ):
            return True
        self.release(keys)
        return False

    def release(self, keys: Iterable[str]) -> None:
        """Give up this run's claims."""
        keys = list(keys)
        if self.shared is not None:
            self.shared.release(keys)
        for key in keys:
            if lock := self._claims.pop(key, None):
                with suppress(OSError):
                    os.unlink(os.path.join(self._folder, CLAIMS, key))
                lock.release()

    def prune(self, now: datetime) -> None:
        """Delete answers that are too old or too many."""
        self._table.delete_old(now.timestamp() - MAX_ANSWER_AGE_S, MAX_ANSWERS)


def _code(body: bytes, secret: str) -> bytes:
    return hmac.digest(f"vibe-gate answers 1\0{secret}".encode(), body, "sha256").hex().encode()
