"""Regular expressions that are compiled when they are first asked.

The house has some two hundred, and a commit asks about thirty of them. Compiling all
while modules are loaded would be a tenth of what the gate costs at a commit.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Later:
    """Stands for a `re.Pattern`; its methods are the pattern's own from the first use of each on."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self._wanted = pattern, flags
        self._made: re.Pattern[Any] | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever a pattern has)
        if self._made is None:
            self._made = re.compile(*self._wanted)
        found = self.__dict__[name] = getattr(self._made, name)
        return found


def expression(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """`re.compile`, later: a mistake in the pattern shows at its first use, so it needs a test that uses it."""
    return cast("re.Pattern[AnyStr]", _Later(pattern, flags))
