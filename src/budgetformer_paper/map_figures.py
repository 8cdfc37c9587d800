"""Figure 4 from its rows: the maps of the paper's pair, layer by layer, and the entropy of maps by relevance rank."""

from __future__ import annotations

import numpy as np

from budgetformer.reporting.figures import HeadMap, maps_of_a_layer
from budgetformer.reporting.picture import Picture
from budgetformer.reporting.tables import Table

from .summary import Summary

TITLE = "Figure 4: where the most relevant heads look"


def map_pictures(summary: Summary) -> list[Picture]:
    """The maps of every layer, of the first seed."""
    row = summary.rows[0]["attention_maps"]
    maps_LKNN = np.array(row["maps"])
    high = max(float(maps_LKNN.max(initial=0.0)), 1e-3)
    made = []
    for layer, maps_KNN in enumerate(maps_LKNN):
        heads = row["heads"][layer]
        drawn = [
            HeadMap(
                title=f"head {head}, p {row['relevance'][layer][head]:.0%}",
                subtitle=f"{row['entropy'][layer][head]:.2f} nats",
                kept=row["kept"][layer][head],
                map_NN=map_NN,
            )
            for head, map_NN in zip(heads, maps_KNN, strict=True)
        ]
        title = f"Layer {layer}: {sum(row['kept'][layer])} of {len(row['kept'][layer])} heads ran"
        caption = (
            f'{TITLE}, {summary.place}, layer {layer}. "{row["text"]}" and "{row["pair"]}". '
            "Row: the token that attends; column: the token it attends to. Below a head its attention entropy. Grey "
            "and dashed: the head did not run; its map was computed for the picture."
        )
        made.append(
            Picture(
                figure=maps_of_a_layer(drawn, row["tokens"], title=title, high=high),
                caption=caption,
                alt=f"Heat maps, tokens by tokens, of heads {', '.join(map(str, heads))} in layer {layer}.",
            )
        )
    return made


def map_tables(summary: Summary) -> list[Table]:
    """Entropy by relevance rank: of the paper's pair, and over test rows; of the first seed."""
    row = summary.rows[0]
    pair, entropy = row["attention_maps"], row["attention_entropy"]
    of_pair = f"of the paper's pair (even attention would have {pair['highest_entropy']:.2f})"
    of_rows = f"mean over {entropy['rows']} test rows"
    return [
        _by_rank(np.array(pair["entropy_by_rank"]), f"{_where(summary)}, {of_pair}"),
        _by_rank(np.array(entropy["by_rank"]), f"{_where(summary)}, {of_rows}"),
    ]


def _where(summary: Summary) -> str:
    return f"{TITLE}, {summary.place}. Attention entropy in nats by relevance rank"


def _by_rank(entropy_LH: np.ndarray, caption: str) -> Table:
    named = [(f"layer {layer}", values) for layer, values in enumerate(entropy_LH)]
    named.append(("mean", entropy_LH.mean(axis=0)))
    rows = [[name, *(f"{value:.3f}" for value in values)] for name, values in named]
    columns = ("", *(f"rank {rank}" for rank in range(entropy_LH.shape[1])))
    return Table(caption=f"{caption}; rank 0 is the most relevant head.", columns=columns, rows=rows)
