"""Names of the data sets, known without the libraries that load them."""

from __future__ import annotations

from pathlib import Path

NAMES = ("ag_news", "dbpedia14", "imdb", "snli", "yelp_full")
DEMO = "bbc_news"


def is_named(name: str) -> bool:
    """Whether ``name`` is one of the sets (and not a file of that name)."""
    return (name in NAMES or name == DEMO) and not Path(name).is_file()
