"""Records the demo's conversation anew: `python tests/faces/record_demo.py`, after a change of the
brief or the demo.

There is no model behind it: the answers stand here, in the form a model gives them.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from answers import answers, fails
from clean_environ import clean_environ
from scripted_messages_api import MessagesRequest, Text, ToolUse, Turn, Usage
from walks import run_review
from wire import answering

from vibe_gate.domain.model_wire import Wire
from vibe_gate.faces.cli import demo

CASSETTE = Path(demo.__file__).parent / "demo_data" / "cassette"


def at(line: int, quote: str) -> dict[str, object]:
    return {"path": "src/ledger.py", "line": line, "quote": quote, "side": "after"}


ANSWERS = answers(
    fails(
        at(25, "        except Exception:"),
        criterion="errors-not-swallowed",
        reason="The new handler catches every exception, logs nothing and goes on; the caller gets None.",
        counterexample="the bank rejects the account -> send() sleeps, returns None, and no trace is left",
    ),
    fails(
        at(22, "            receipt = bank.transfer(account, cents)"),
        criterion="money-moves-once",
        reason="A time-out after the bank has booked the transfer leads to a second transfer.",
        counterexample="transfer() books and then times out -> the next attempt books the same payment again",
    ),
    fails(
        at(30, "def do_it(bank):"),
        criterion="names-say-what-they-are",
        reason="A helper is called do_it.",
        counterexample="a reader looks for what do_it does",
    ),
    changes="send makes a transfer that raised up to three times, and returns None when the bank refuses.",
)


STANDS = {
    "errors-not-swallowed": "The handler only sleeps, so send returns None after the third error.",
    "money-moves-once": "Nothing between two attempts asks the bank whether the first transfer was booked.",
}
"""What the second look at each fail that would block says."""


def look_again(request: MessagesRequest) -> Turn:
    (reason,) = (text for name, text in STANDS.items() if f"[{name}]" in request.all_text)
    trace = "send -> bank.transfer raises -> the handler sleeps -> the next attempt."
    look = {"finding": 1, "trace": trace, "outcome": "stands", "stops": True, "reason": reason}
    answer = {"answers": [look]}
    return Turn(ToolUse("StructuredOutput", answer), usage=Usage(1_840, 203))


def main() -> None:
    """Walk once with a scripted model behind the real CLI, and keep what went over the wire."""
    shutil.rmtree(CASSETTE, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir()
        os.environ.update(clean_environ(home))
        demo.make_demo(Path(folder) / "repo")
        looks = Turn(
            Text("I look at how the ledger is used."),
            ToolUse("Grep", {"pattern": "send\\(", "output_mode": "content"}),
            usage=Usage(2_913, 84),
        )
        verdict = Turn(ToolUse("StructuredOutput", ANSWERS), usage=Usage(3_120, 412))
        with answering(looks, verdict, look_again, look_again) as model:
            environ = clean_environ(home) | model.environ
            wire = Wire("record", CASSETTE)
            review = run_review(Path(folder) / "repo", environ, wire=wire, definitions="HEAD~1")
    print(review.summary.to_json())


if __name__ == "__main__":
    main()
