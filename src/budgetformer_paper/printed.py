"""The figures that the paper prints, as far as they are used here, and what its data sets are."""

from __future__ import annotations

from dataclasses import dataclass

from .recipe import Printed


@dataclass(frozen=True, kw_only=True)
class PaperData:
    """A data set of the paper: rows of its official splits, and the length N to which the paper pads."""

    train_rows: int
    test_rows: int
    length: int


DATA = {
    "dbpedia14": PaperData(train_rows=560_000, test_rows=70_000, length=64),
    "ag_news": PaperData(train_rows=120_000, test_rows=7_600, length=64),
    "imdb": PaperData(train_rows=25_000, test_rows=25_000, length=512),
    "snli": PaperData(train_rows=549_367, test_rows=9_824, length=64),
    "yelp_full": PaperData(train_rows=650_000, test_rows=50_000, length=512),
}
"""By the names of ``budgetformer.data.registry``, in the order of Table II; SNLI counts rows with a label."""

TABLE2_TRANSFORMER = {
    "dbpedia14": Printed(accuracy=0.9830, macs=4.40e13, grams=0.1468),
    "ag_news": Printed(accuracy=0.9099, macs=4.78e12, grams=0.0159),
    "imdb": Printed(accuracy=0.8354, macs=1.61e14, grams=0.5376),
    "snli": Printed(accuracy=0.7835, macs=6.18e12, grams=0.0206),
    "yelp_full": Printed(accuracy=0.5810, macs=3.23e14, grams=1.0751),
}
TABLE2_BUDGETFORMER = {
    "dbpedia14": Printed(accuracy=0.9859, mean_budget=0.085, macs=4.26e13, grams=0.1420),
    "ag_news": Printed(accuracy=0.9022, mean_budget=0.212, macs=4.65e12, grams=0.0155),
    "imdb": Printed(accuracy=0.8356, mean_budget=0.601, macs=1.45e14, grams=0.4840),
    "snli": Printed(accuracy=0.8106, mean_budget=0.364, macs=6.05e12, grams=0.0202),
    "yelp_full": Printed(accuracy=0.6190, mean_budget=0.198, macs=2.58e14, grams=0.8591),
}
TABLE3 = {
    ("dbpedia14", 1.0): Printed(accuracy=0.167),
    ("yelp_full", 1.0): Printed(accuracy=0.074),
}
"""By data set and fixed budget. Only the two collapses are known here."""
