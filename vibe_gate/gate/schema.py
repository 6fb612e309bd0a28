"""JSON Schemas of the definition files, made from the models that read them, for editors."""

from __future__ import annotations

import json

from pydantic.json_schema import GenerateJsonSchema

from vibe_gate.checks import CHECKS
from vibe_gate.domain.agent import Agent
from vibe_gate.domain.gate import GateFile, SuppressionsFile
from vibe_gate.domain.model import Model
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.workflow import WorkflowFile
from vibe_gate.gate.cases import CaseFile

MODELS: dict[str, type[Model]] = {
    "gate": GateFile,
    "rubric": Rubric,
    "agent": Agent,
    "workflow": WorkflowFile,
    "suppressions": SuppressionsFile,
    "case": CaseFile,
}


def json_schema(name: str) -> str:
    """The schema of one of MODELS, as JSON text. Editors see keys, types and names; `config check` sees more."""
    schema = MODELS[name].model_json_schema()
    if name == "rubric":
        check = schema["$defs"]["Criterion"]["properties"]["check"]
        check |= {"anyOf": [{"type": "string", "enum": sorted(CHECKS.keys() - {"command"})}]}
    if name == "agent":  # in Python it may be left out
        schema["required"].append("schema")
    return json.dumps({"$schema": GenerateJsonSchema.schema_dialect, **schema}, indent=2) + "\n"
