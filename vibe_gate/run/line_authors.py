"""Who is named for a line, once it is known which commit and which write it comes from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path

from vibe_gate.domain.agent_hint import AgentHint
from vibe_gate.domain.agent_trace import TraceClaim, is_model_id
from vibe_gate.domain.blame import Author, BlamedLine, LineOrigin
from vibe_gate.domain.document import iso
from vibe_gate.domain.escape import show_text
from vibe_gate.gate.authorship import Authorship
from vibe_gate.gate.traces import Traces
from vibe_gate.git import Repository
from vibe_gate.run.agent_writes import AgentWrites
from vibe_gate.run.line_sources import SAME_SECOND, AskedFile, LineSource
from vibe_gate.run.line_writes import AgentWrite
from vibe_gate.store.captured_heads import first_prompt_line
from vibe_gate.store.captured_turns import CapturedPrompt, prompts_of

CAPTURED = "captured"
"""`source` of a line that a captured write brought."""

APPLIED = "applied"
"""`source` of a line that an agent of our own wrote, in a run with `--apply`."""

MAX_CLAIMED_NAME = 80
"""Letters of the names that a record gives."""


class AuthorLookup:
    """Names the authors of lines of one file. `traces`: None if no Agent Trace record is asked."""

    def __init__(
        self,
        repository: Repository,
        roots: Sequence[Path],
        authorship: Authorship,
        traces: Traces | None,
        writes: AgentWrites,
        file: AskedFile,
    ) -> None:
        self._repository = repository
        self._roots = roots
        self._authorship = authorship
        self._traces = traces
        self._writes = writes
        self._file = file
        self._claims_of = lru_cache(None)(self._read_claims)
        self._authored_at = lru_cache(None)(repository.authored_at)
        self._date_of = lru_cache(None)(self._read_date)
        self._signs_of = lru_cache(None)(self._read_signs)
        self._prompts_of = lru_cache(None)(self._read_prompts)
        self._turn_at = lru_cache(None)(self._find_turn)

    def name_author(self, row: BlamedLine, source: LineSource) -> LineOrigin:
        """Who wrote the line: an agent by its write or by a record, a person, or nobody that is
        known.
        """
        commit = "" if self._file.is_uncommitted(row.commit) else row.commit
        if source.write is not None:
            return self._origin_of_write(row.line, commit, source.write)
        at = self._date_of(commit)
        claim = self._claim_of(row) if commit else None
        if claim is not None:
            return _origin_of_claim(row.line, commit, at, claim)
        author: Author = "unknown"
        reason = self._reason_for_doubt(source)
        if not reason and self._is_watched(source.commit):
            author = "person"
        return LineOrigin(line=row.line, commit=commit, by=author, at=at, why=reason)

    def _read_date(self, commit: str) -> str:
        """When the commit was written; "" if there is none, or if it does not tell."""
        authored_at = self._authored_at(commit) if commit else 0
        if not authored_at:
            return ""
        return iso(datetime.fromtimestamp(authored_at, UTC))

    def _reason_for_doubt(self, source: LineSource) -> str:
        """Why an agent may have written the line; "" if nothing speaks for that."""
        signs = self._signs_of(source.commit)
        if signs:
            return signs[0].sentence
        return source.doubt

    def _origin_of_write(self, line: int, commit: str, agent_write: AgentWrite) -> LineOrigin:
        write = agent_write.write
        turn, prompt_line = self._turn_at(agent_write.session, write.at)
        return LineOrigin(
            line=line,
            commit=commit,
            by="agent",
            agent=agent_write.agent,
            session=agent_write.session,
            turn=turn,
            asked=prompt_line,
            tool=write.tool,
            tool_use_id=write.tool_use_id,
            at=iso(write.at),
            source=APPLIED if agent_write.session in self._applied_sessions else CAPTURED,
        )

    @cached_property
    def _applied_sessions(self) -> frozenset[str]:
        """The sessions of our own agents."""
        return frozenset(session.session for session in self._writes.applied)

    def _find_turn(self, session: str, at: datetime) -> tuple[int, str]:
        """The turn within which that was, and the first line of its prompt."""
        earlier_prompts = [prompt for prompt in self._prompts_of(session) if prompt.at <= at]
        if not earlier_prompts:
            return 0, ""
        prompt = earlier_prompts[-1]
        return prompt.turn, first_prompt_line(prompt.text)

    def _read_prompts(self, session: str) -> tuple[CapturedPrompt, ...]:
        return prompts_of(self._roots, session)

    def _claim_of(self, row: BlamedLine) -> TraceClaim | None:
        """What a record says of the line as its commit has it: the first that names it."""
        for claim in self._claims_of(row.commit, row.path):
            if claim.first <= row.number <= claim.last:
                return claim
        return None

    def _read_claims(self, commit: str, path: str) -> tuple[TraceClaim, ...]:
        if self._traces is None:
            return ()
        return self._traces.claims(commit, path)

    def _read_signs(self, commit: str) -> tuple[AgentHint, ...]:
        if self._file.is_uncommitted(commit):
            return ()
        return self._authorship.signs_of(self._repository.commit(commit))

    def _is_watched(self, commit: str) -> bool:
        """Whether sessions were captured when the commit was made."""
        if self._file.is_uncommitted(commit):
            return self._captured_since < math.inf
        return self._captured_since <= self._authored_at(commit) + SAME_SECOND

    @cached_property
    def _captured_since(self) -> float:
        """When the first captured session began, in seconds since 1970."""
        started = (session.started_at.timestamp() for session in self._writes.sessions)
        return min(started, default=math.inf)


def _origin_of_claim(line: int, commit: str, at: str, claim: TraceClaim) -> LineOrigin:
    """The line as a record has it; what the record says is shown without control characters."""
    model = show_text(claim.model)[:MAX_CLAIMED_NAME]
    tool = show_text(claim.tool)[:MAX_CLAIMED_NAME]
    # A record cannot pass itself off as one of our own.
    source = tool if tool not in ("", CAPTURED, APPLIED) else "an unnamed tool"
    agent = model if is_model_id(model) else "an agent"
    return LineOrigin(line=line, commit=commit, by="agent", agent=agent, at=at, source=source)
