"""Multiply-adds and grams of CO2 of a model at a text length, by both accountings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options as o

if TYPE_CHECKING:
    from ..configuration import BudgetFormerConfig

NAME = "cost"
EXAMPLES = (
    "Examples:",
    "budgetformer cost --preset paper --length 512 --rows 25000 --budget 0.601 --accounting paper",
    "budgetformer cost --model runs/news --length 128 --rows 1000000 --json cost.json",
)
ACCOUNTINGS = ("executed", "paper")
LONGEST = 10_000_000  # tokens: their square times width and layers still fits into 64 bits
MEANING = {
    "executed": "executed: every matrix product that is computed, real tokens only, heads that are not kept skipped",
    "paper": "paper: arXiv 2604.22583, attention block only, padded length, all projections paid",
}


def run(
    length: Annotated[int, typer.Option("--length", metavar="N", help="Tokens of a text, special ones included.")],
    rows: Annotated[int, typer.Option("--rows", metavar="R", help="Number of texts.")],
    preset: Annotated[
        str | None, typer.Option("--preset", metavar="tiny|small|base|paper", help="A size by name, or:")
    ] = None,
    model: Annotated[Path | None, typer.Option("--model", metavar="DIR", help="A trained model folder.")] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget",
            metavar="S",
            parser=o.share,
            help="Share of the heads, in (0, 1]. Default: one row per head count.",
        ),
    ] = None,
    classes: Annotated[
        int | None,
        typer.Option("--classes", metavar="N", help="Of a preset; the classifier is part of executed. Default: 2."),
    ] = None,
    accounting: Annotated[str, typer.Option("--accounting", metavar="executed|paper|both")] = "both",
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the rows.")] = None,
) -> None:
    o.require_share(budget, None)
    for name, value in (("--length", length), ("--rows", rows), ("--classes", 2 if classes is None else classes)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if length > LONGEST:
        raise ValueError(f"--length must be at most {LONGEST:,}, beyond which the figures would be wrong, got {length}")
    if accounting not in (*ACCOUNTINGS, "both"):
        raise ValueError(f"--accounting must be one of {', '.join(ACCOUNTINGS)}, both, got {accounting!r}")
    if (preset is None) == (model is None):
        raise ValueError("give --preset or --model, one of them")
    if model is not None:
        o.refuse({"--classes": classes}, "with --model, which knows its classes")
    from ..model_folder import check_folder
    from .early import check_preset, model_files
    from .libraries import quiet_libraries
    from .writing import check_target, write_json

    if preset is not None:
        check_preset(preset)
    if model is not None:
        check_folder(model)

    if json_file is not None:
        check_target(json_file, inputs=[] if model is None else model_files(model))
    quiet_libraries()
    config = _config(preset, model, classes)
    if model is not None and length > config.text_limit:
        limit = config.text_limit
        raise ValueError(f"--length must be at most {limit}, to which the model in {model} cuts texts, got {length}")
    wanted = ACCOUNTINGS if accounting == "both" else (accounting,)
    results = [row for name in wanted for row in cost_rows(config, name, length=length, rows=rows, budget=budget)]
    described = {"preset": preset, "model": None if model is None else str(model), "length": length, "rows": rows}
    if json_file is not None:
        write_json(json_file, described | {"results": results})
    _report(results, wanted, length=length, rows=rows)


def _config(preset: str | None, model: Path | None, classes: int | None) -> BudgetFormerConfig:
    from ..configuration import BudgetFormerConfig
    from ..model_folder import load_config

    if preset is not None:
        return BudgetFormerConfig.preset(preset, num_labels=classes or 2)
    assert model is not None
    return load_config(model)


def cost_rows(
    config: BudgetFormerConfig, accounting: str, *, length: int, rows: int, budget: float | None
) -> list[dict[str, Any]]:
    """Full attention first, then the BudgetFormer at ``budget``, or at 1, 2, …, H heads of every layer."""
    import torch

    from ..metering.carbon import paper_grams
    from ..metering.macs import dense_macs, executed_macs, paper_macs
    from ..method import heads_kept

    all_heads = config.num_attention_heads
    shares = [budget] if budget is not None else [k / all_heads for k in range(1, all_heads + 1)]
    kept = heads_kept(torch.tensor(shares, dtype=torch.float64), all_heads, config.min_heads).tolist()
    if accounting == "paper":
        full = paper_macs(config, length=length, rows=rows)
        budgeted = [paper_macs(config, length=length, rows=rows, budget=share) for share in shares]
    else:
        full = float(rows * int(dense_macs(config.dense_twin(), length)[0]))
        budgeted = [float(rows * int(executed_macs(config, length, k)[0])) for k in kept]
    first = {"accounting": accounting, "attention": "full", "budget": None, "heads": all_heads, "macs": full}
    others = [
        {"accounting": accounting, "attention": "budgeted", "budget": share, "heads": k, "macs": macs}
        for share, k, macs in zip(shares, kept, budgeted, strict=True)
    ]
    chosen = [first, *others] if config.budgeted else [first]
    return [row | {"ratio": row["macs"] / full, "grams": paper_grams(row["macs"])} for row in chosen]


def _report(results: list[dict[str, Any]], accountings: tuple[str, ...], *, length: int, rows: int) -> None:
    from .tables import millions, show, table

    cells = [
        (
            row["accounting"],
            "full attention" if row["attention"] == "full" else "BudgetFormer",
            "" if row["budget"] is None else f"{row['budget']:.3f}",
            str(row["heads"]),
            millions(row["macs"]),
            f"{row['ratio']:.1%}",
            f"{row['grams']:.3g}",
        )
        for row in results
    ]
    names = ("accounting", "attention", "budget", "heads", "multiply-adds", "of full", "g CO2")
    show(table(f"{rows:,} texts of {length} tokens", names, cells))
    for name in accountings:
        print(MEANING[name])
    print("g CO2: multiply-adds times 3.3333e-15 g, a fit to the paper's figures and not a measurement")
