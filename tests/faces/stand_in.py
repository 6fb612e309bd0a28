"""What the stand-ins for GitHub's actions do (acting.py says which); run by path, with the standard
library only.
"""

from __future__ import annotations

import fnmatch
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path


def main(name: str) -> int:
    """Do the work of one action."""
    inputs = {key: str(value) for key, value in json.loads(os.environ["GIVEN"]).items()}
    shelf = Path(os.environ["STAND_INS"]) / "artifacts"
    saved = Path(os.environ["STAND_INS"]) / "saved"
    folder = saved.with_name("saved-folder")
    if name == "save" and Path(inputs["path"]).is_file():
        shutil.copyfile(inputs["path"], saved)
    elif name == "save" and Path(inputs["path"]).is_dir():
        shutil.copytree(inputs["path"], folder, dirs_exist_ok=True)
    elif name == "restore" and inputs.get("restore-keys"):
        if saved.exists():
            shutil.copyfile(saved, inputs["path"])
    elif name == "restore" and folder.exists():
        shutil.copytree(folder, inputs["path"])
    elif name == "restore" and os.environ.get("BUILT"):
        place = Path(inputs["path"]).parent
        place.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["cp", "-al", f"{os.environ['BUILT']}/{place.name}/venv", str(place)], check=True
        )
    elif name == "upload-artifact":
        return _upload(Path(inputs["path"]), shelf / inputs["name"], inputs)
    elif name == "download-artifact":
        for artifact in sorted(shelf.glob("*")):
            if fnmatch.fnmatchcase(artifact.name, inputs["pattern"]):
                shutil.copytree(artifact, Path(inputs["path"]) / artifact.name, symlinks=True)
    return 0


def _upload(source: Path, target: Path, inputs: dict[str, str]) -> int:
    """As the real one: a name is taken once, nothing found is an error if so asked, hidden files on
    demand only.
    """
    assert not target.exists(), f"an artifact {target.name} is there already"
    hidden = inputs["include-hidden-files"] == "true"
    files = [path for path in sorted(source.rglob("*")) if path.is_file()]
    files = [
        path
        for path in files
        if hidden or not any(p.startswith(".") for p in path.relative_to(source).parts)
    ]
    if not files:
        print("No files were found with the provided path:", source)
        return int(inputs["if-no-files-found"] == "error")
    for path in files:
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
