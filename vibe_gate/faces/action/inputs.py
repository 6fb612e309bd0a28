"""The Action's inputs: VIBE_GATE_INPUT_<NAME>, empty means the default."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from vibe_gate.domain import paths
from vibe_gate.errors import UsageError
from vibe_gate.gate.source import is_identifier
from vibe_gate.report.report import ArtifactContent

PREFIX = "VIBE_GATE_INPUT_"

MAX_REPLAYS = 200
"""Earlier runs that one job judges again."""

BlockMode = Literal["block", "warn"]
Drafts = Literal["skip", "checks", "review"]
Post = Literal["none", "check-run", "comment", "lines"]
"""What is posted, each with what stands before it."""


def _ids(text: str) -> tuple[str, ...]:
    words = filter(None, re.split(r"[,\s]+", text))
    ids = tuple(dict.fromkeys(words))
    if not all(map(is_identifier, ids)):
        raise ValueError
    return ids


def _id(text: str) -> str:
    if not is_identifier(text):
        raise ValueError
    return text


def _revision(text: str) -> str:
    if text.startswith("-") or ".." in text or not paths.is_plain(text) or len(text) > 255:
        raise ValueError
    return text


class Inputs(BaseModel):
    """What the workflow asks for."""

    model_config = ConfigDict(frozen=True)

    anthropic_api_key: str = Field("", repr=False)  # a traceback may show the others
    github_token: str = Field("", repr=False)
    base: Annotated[str, AfterValidator(_revision)] = ""
    head: Annotated[str, AfterValidator(_revision)] = ""
    rubrics: Annotated[tuple[str, ...], BeforeValidator(_ids)] = ()
    workflow: Annotated[str, AfterValidator(_id)] = "review"
    mode: BlockMode = "block"
    judge: bool = True
    ask_anyway: bool = False
    drafts: Drafts = "checks"
    max_cost_usd: float | None = Field(None, gt=0, allow_inf_nan=False)
    """None: the gate's own."""
    post: Post = "lines"
    artifact: ArtifactContent = "summary"
    replay: int = Field(0, ge=0, le=MAX_REPLAYS)
    replay_from: str = ""
    replay_max_cost_usd: float = Field(1.0, gt=0, allow_inf_nan=False)

    @property
    def name(self) -> str:
        """The rubrics that this job was narrowed to: its name among other jobs at the same pull
        request.
        """
        return ",".join(self.rubrics)

    @property
    def posts_check_run(self) -> bool:
        """Whether the commit gets a check run."""
        return self.post != "none"

    @property
    def posts_comment(self) -> bool:
        """Whether the pull request gets a summary comment."""
        return self.post in ("comment", "lines")

    @property
    def posts_lines(self) -> bool:
        """Whether lines of the diff get comments."""
        return self.post == "lines"


_REMEDIES = {
    "base": "write one branch, tag or commit",
    "head": "write one branch, tag or commit",
    "rubrics": "write ids of rubrics (lower-case letters, digits, '.', '_', '-'), by comma or space",
    "workflow": "write the id of a workflow (lower-case letters, digits, '.', '_', '-')",
    "mode": "write block or warn",
    "drafts": "write skip, checks or review",
    "max_cost_usd": "write a number of US dollars above zero, as 0.50",
    "post": "write lines, comment, check-run or none",
    "artifact": "write summary, full or none",
    "replay": f"write how many earlier runs, at most {MAX_REPLAYS}",
    "replay_max_cost_usd": "write a number of US dollars above zero, as 0.50",
}


def inputs_of(variables: Mapping[str, str]) -> Inputs:
    """The inputs. UsageError with one sentence for each that is wrong."""
    texts = _input_texts(variables)
    wrong_names = _wrong_names(texts)
    if wrong_names:
        raise UsageError("\n".join(_mistake(name, texts[name]) for name in wrong_names))
    return Inputs.model_validate(texts)


def right_inputs(variables: Mapping[str, str]) -> Inputs:
    """The inputs, with the default in place of what is wrong: where it can be said that an input
    is. In place of a wrong `post` the check run alone: the workflow may have wanted no comments.
    """
    texts = _input_texts(variables)
    wrong_names = _wrong_names(texts)
    for name in wrong_names:
        texts.pop(name, None)
    if "post" in wrong_names:
        texts["post"] = "check-run"
    return Inputs.model_validate(texts)


def _input_texts(variables: Mapping[str, str]) -> dict[str, str]:
    """By name, the inputs that are not empty, as the workflow wrote them."""
    texts = {}
    for name in Inputs.model_fields:
        text = variables.get(PREFIX + name.upper(), "").strip()
        if not text and name == "github_token":
            text = variables.get("GITHUB_TOKEN", "").strip()
        if text:
            texts[name] = text
    return texts


def _wrong_names(texts: Mapping[str, str]) -> list[str]:
    try:
        Inputs.model_validate(texts)
    except ValidationError as error:
        return [str(mistake["loc"][0]) for mistake in error.errors(include_url=False)]
    return []


def _mistake(name: str, text: str) -> str:
    remedy = _REMEDIES.get(name, "write true or false")
    return f"The input {name.replace('_', '-')} is {paths.quote(text[:80])}; {remedy}."
