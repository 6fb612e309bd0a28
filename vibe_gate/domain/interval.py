"""A figure with its uncertainty."""

from msgspec import Struct


class Interval(Struct, frozen=True):
    """A figure with the ends of its 95 % interval."""

    value: float
    low: float
    high: float
