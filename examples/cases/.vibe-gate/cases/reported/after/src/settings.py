import json
from pathlib import Path


def load(path: Path) -> dict:
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise SystemExit(f"{path} is not JSON: {error}") from error
