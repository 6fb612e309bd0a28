"""JSON Schemas of the definition files, made from the models that read them, for editors."""

from __future__ import annotations

import json

from msgspec import Struct

from vibe_gate.checks import CHECKS
from vibe_gate.domain.agent import Agent
from vibe_gate.domain.calibration import Baseline
from vibe_gate.domain.document import schema_of
from vibe_gate.domain.gate import GateFile, SuppressionsFile
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.workflow import WorkflowFile
from vibe_gate.gate.cases import CaseFile

DIALECT = "https://json-schema.org/draft/2020-12/schema"

MODELS: dict[str, type[Struct]] = {
    "gate": GateFile,
    "rubric": Rubric,
    "agent": Agent,
    "workflow": WorkflowFile,
    "suppressions": SuppressionsFile,
    "case": CaseFile,
    "baseline": Baseline,
}


def json_schema(name: str) -> str:
    """The schema of one of MODELS, as JSON text. Editors see keys, types and names; `config check`
    sees more.
    """
    schema = schema_of(MODELS[name])
    if name == "rubric":
        check = schema["$defs"]["Criterion"]["properties"]["check"]
        check |= {"anyOf": [{"type": "string", "enum": sorted(CHECKS.keys() - {"command"})}]}
    if name in ("agent", "rubric"):  # in Python it may be left out
        schema["required"].append("schema")
    return json.dumps({"$schema": DIALECT, **schema}, indent=2) + "\n"
