import json
from pathlib import Path


def load(path: Path) -> dict:
    return json.loads(path.read_text())
