"""The figures that arXiv 2604.22583 prints: parameter counts and the cost columns of its Table II."""

from __future__ import annotations

import pytest
import torch

from budgetformer import BudgetFormerConfig, BudgetFormerForSequenceClassification
from budgetformer.metering.carbon import GRAMS_PER_MAC, paper_grams
from budgetformer.metering.macs import paper_macs

# set, test rows, padded length, s_mean, MACs and grams of the Transformer, MACs and grams of the BudgetFormer
TABLE_II = [
    ("DBpedia", 70_000, 64, 0.085, "4.40e+13", "0.1468", "4.26e+13", "0.1420"),
    ("AG News", 7_600, 64, 0.212, "4.78e+12", "0.0159", "4.65e+12", "0.0155"),
    ("IMDB", 25_000, 512, 0.601, "1.61e+14", "0.5376", "1.45e+14", "0.4840"),
    ("SNLI", 9_824, 64, 0.364, "6.18e+12", "0.0206", "6.05e+12", "0.0202"),
    ("Yelp Full", 50_000, 512, 0.198, "3.23e+14", "1.0751", "2.58e+14", "0.8591"),
]


def parameters(config: BudgetFormerConfig) -> int:
    with torch.device("meta"):
        model = BudgetFormerForSequenceClassification(config)
    return sum(p.numel() for p in model.parameters())


def test_parameter_counts_of_the_paper() -> None:
    config = BudgetFormerConfig.preset("paper", num_labels=3)
    baseline, budgeted = parameters(config.dense_twin()), parameters(config)
    assert baseline == 51_794_691
    assert f"{baseline * 4 / 2**20:.2f}" == "197.58"
    assert f"{budgeted * 4 / 2**20:.2f}" == "206.70"


@pytest.mark.parametrize("row", TABLE_II, ids=lambda row: row[0])
def test_all_printed_costs_come_out(row: tuple[str, int, int, float, str, str, str, str]) -> None:
    name, rows, length, budget, dense_macs, dense_grams, macs, grams = row
    config = BudgetFormerConfig.preset("paper")
    dense, ours = (paper_macs(config, length=length, rows=rows, budget=s) for s in (None, budget))
    assert f"{dense:.2e}" == dense_macs
    assert f"{paper_grams(dense):.4f}" == dense_grams
    assert f"{ours:.2e}" == macs
    if name == "IMDB":  # the one figure that the printed s_mean misses; one that is rounded to it gives the figure
        assert f"{paper_grams(ours):.4f}" == "0.4839"
        unrounded = paper_macs(config, length=length, rows=rows, budget=0.6014)
        assert f"{paper_grams(unrounded):.4f}" == grams
    else:
        assert f"{paper_grams(ours):.4f}" == grams


def test_carbon_is_ten_teraflops_at_300_watts_and_400_grams_per_kilowatt_hour() -> None:
    joules = 300 / 10e12
    assert joules * 400 / 3.6e6 == pytest.approx(GRAMS_PER_MAC, rel=1e-4)
    assert paper_grams(0) == 0
