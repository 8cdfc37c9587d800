"""The one error of the data layer."""


class DataError(ValueError):
    """A mistake in the user's data or options: one line that names the file, the place and what to do."""
