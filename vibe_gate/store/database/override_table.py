"""What people let pass in this clone. It does not travel, and CI has none."""

from __future__ import annotations

from vibe_gate.domain.document import decode_document, to_json
from vibe_gate.domain.gate import Override
from vibe_gate.store.database.state_table import StateTable, parse_rows


class OverrideTable(StateTable):
    """Overrides, oldest first."""

    def append(self, override: Override) -> None:
        """Add an override. StorageError."""
        self._write("The override", "INSERT INTO overrides (line) VALUES (?)", to_json(override))

    def remove(self, finding: str) -> None:
        """Take back every override of a finding. StorageError."""
        sql = "DELETE FROM overrides WHERE json_extract(line, '$.finding') = ?"
        self._write("The override", sql, finding)

    def all(self) -> tuple[Override, ...]:
        """Every override; damaged ones are skipped: nothing passes by them."""
        rows = self._file.read("SELECT line FROM overrides ORDER BY id")
        return tuple(parse_rows(lambda line: decode_document(Override, line), rows))
