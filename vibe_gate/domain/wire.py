"""What the gateway says to an agent's session through the model's wire.

The gateway answers a request that it will not forward with HTTP 403, the one
status that the agent's program never retries, and puts one of these marks into
the message; the session reads it back from its result. Neither adapter knows the
other: these words are all that they share.
"""

from __future__ import annotations

REFUSED_STATUS = 403
"""Agents retry 400 (with other headers), 429 and 5xx; 401 sends people to their key. 403 ends the session."""

BUDGET_REACHED = "[vibe-gate: budget reached]"
"""What is left of the run's budget does not pay for a useful answer."""

UNMATCHED = "[vibe-gate: no recorded answer]"
"""The cassette holds no answer to this request."""

CONVERSATION_ENDED = "[vibe-gate: conversation ended]"
"""The model's last answer was a refusal or was cut at its token limit; asking on would only cost."""
