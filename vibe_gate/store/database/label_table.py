"""What people say of findings: right or wrong."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence

from vibe_gate.domain.document import decode_document, to_json
from vibe_gate.domain.label import ON_FORGE, Label, newest
from vibe_gate.errors import StorageError
from vibe_gate.store.database.state_table import StateTable, parse_rows

_DELETE_OF_FINDING = "DELETE FROM labels WHERE json_extract(line, '$.finding') = ?"
_DELETE_OF_FORGE = (
    "DELETE FROM labels WHERE json_extract(line, '$.source') IN (SELECT value FROM json_each(?))"
)


class LabelTable(StateTable):
    """Labels; the newest of each finding and rubric counts."""

    def append(self, *labels: Label) -> None:
        """Add labels in one transaction. StorageError."""
        self._change_rows((), labels)

    def remove(self, finding: str) -> None:
        """Take back every label of a finding. StorageError."""
        self._change_rows((_DELETE_OF_FINDING, finding), ())

    def put_from_forge(self, labels: Sequence[Label]) -> None:
        """Have these labels of the forge, and no earlier ones: what was taken back there is gone.
        StorageError.
        """
        if not labels and not self.from_forge():
            return
        self._change_rows((_DELETE_OF_FORGE, json.dumps(ON_FORGE)), labels)

    def all(self) -> tuple[Label, ...]:
        """The newest label of each finding and rubric, oldest first; damaged ones are skipped."""
        return newest(self._read_all())

    def from_forge(self) -> tuple[Label, ...]:
        """As `all`, of those that stand on the forge."""
        return newest(label for label in self._read_all() if label.source in ON_FORGE)

    def _read_all(self) -> Iterator[Label]:
        rows = self._file.read("SELECT line FROM labels ORDER BY id")
        return parse_rows(lambda line: decode_document(Label, line), rows)

    def _change_rows(self, delete: tuple[str, ...], labels: Sequence[Label]) -> None:
        """Execute `delete`, a statement and its values, if there is one, and add the labels.
        StorageError.
        """
        rows = [(to_json(label),) for label in labels]

        def action(connection: sqlite3.Connection) -> None:
            if delete:
                connection.execute(delete[0], delete[1:])
            connection.executemany("INSERT INTO labels (line) VALUES (?)", rows)

        if not self._file.change(action):
            raise StorageError(f"The label was not recorded: {self._file.problem}")
