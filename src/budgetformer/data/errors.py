"""The one error of the data layer."""

from __future__ import annotations


class DataError(ValueError):
    """A mistake in the user's data or options: one line that names the file, the place and what to do."""


def first_line(problem: Exception) -> str:
    """What a library said, on one line; the kind of error when it said nothing."""
    text = str(problem).strip()
    return text.splitlines()[0] if text else type(problem).__name__
