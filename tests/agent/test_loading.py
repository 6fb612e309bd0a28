"""The SDK is loaded without `mcp` in processes that are vibe-gate's alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

LOAD = "import sys\nfrom vibe_gate.agent import load_without_mcp\nload_without_mcp()\n"


def said(script: str, *path: Path) -> str:
    begin = "".join(f"import sys; sys.path.insert(0, {str(place)!r})\n" for place in path)
    done = subprocess.run([sys.executable, "-c", begin + script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_sdk_is_loaded_without_mcp_and_who_wants_mcp_gets_the_real_one() -> None:
    script = (
        "print('claude_agent_sdk' in sys.modules, 'mcp' in sys.modules)\n"
        "import mcp.types\nprint(mcp.types.Tool(name='a', inputSchema={'type': 'object'}).name)\n"
        "from vibe_gate.agent.conversation import converse\n"
    )
    assert said(LOAD + script) == "True False\na\n"


def test_an_sdk_that_is_loaded_already_stays_whole() -> None:
    whole = "import claude_agent_sdk as sdk\n"
    script = "print(sdk.tool('a', 'b', {})(print) is not None, sdk.create_sdk_mcp_server('x')['name'])\n"
    assert said(whole + LOAD + script) == "True x\n"


def test_an_sdk_that_a_stand_in_does_not_satisfy_is_loaded_whole(tmp_path: Path) -> None:
    package = tmp_path / "claude_agent_sdk"
    package.mkdir()
    (package / "__init__.py").write_text("from claude_agent_sdk import part\n")
    (package / "part.py").write_text("import mcp.types\nassert mcp.types.LATEST_PROTOCOL_VERSION > '2'\n")
    script = (
        "print([name for name in sys.modules if name.startswith(('claude_agent_sdk', 'mcp'))])\n"
        "import claude_agent_sdk\nprint('mcp.types' in sys.modules)\n"
    )
    assert said(LOAD + script, tmp_path) == "[]\nTrue\n"
