"""Documents whose values pydantic checks also when code makes them; what no plain review at a commit loads."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class PydanticModel(BaseModel):
    """Immutable; an unknown key is an error, never ignored. What validates it is built at its first use."""

    # With a limit of its length pydantic reads a text as UTF-8, so that half a surrogate pair is an error.
    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True, str_max_length=1 << 30
    )
