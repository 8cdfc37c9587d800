"""An explanation for people: tables, pictures, one HTML page or one PNG."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from ..explanation import Explanation
from .figures import HeadMap, heads_of_a_text, maps_of_a_layer
from .figures.attention import MOST_TOKENS
from .figures.style import project_style, shortened
from .html import Section, render
from .picture import DOTS_PER_INCH, Picture, readable_anywhere
from .tables import NONE, Table

TOKENS_SHOWN = 24
"""Tokens in the pictures when nothing is said."""

LONGEST_TEXT = 2000
"""Letters of a text that the page repeats."""

GONE = "gone"
"""What stands in a table for a head that a layer does not have."""

TARGETS = 3
"""Tokens that the tables name as the ones a token attends to most."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The tokens in the pictures: ``places`` in the order of the text, out of ``total``.

    ``share`` of all attention of the maps that goes to them, from all tokens.
    """

    places: np.ndarray
    total: int
    share: float

    @property
    def words(self) -> str:
        """What is shown and what is left out."""
        if len(self.places) == self.total:
            return f"all {self.total} tokens of the text are shown" if self.total > 1 else "the text has one token"
        return (
            f"of {self.total} tokens the {len(self.places)} that receive the most attention are shown, in the order "
            f"of the text; {self.total - len(self.places)} are left out. Those shown receive {self.share:.0%} of the "
            "attention"
        )


def tokens_shown(explained: Explanation, most: int = TOKENS_SHOWN) -> Shown:
    """The ``most`` tokens that receive the most attention in the maps, ties to the earlier one.

    Raises ValueError when ``most`` is not between 1 and ``figures.attention.MOST_TOKENS``.
    """
    if not 1 <= most <= MOST_TOKENS:
        raise ValueError(f"tokens must lie between 1 and {MOST_TOKENS}, what a picture can label, got {most}")
    received_N = explained.maps_LKNN.sum(axis=(0, 1, 2), dtype=np.float64)
    received_N = received_N / (received_N.sum() or 1.0)
    places = np.sort(np.argsort(-received_N, kind="stable")[:most])
    return Shown(places=places, total=len(received_N), share=float(received_N[places].sum()))


def layers_table(explained: Explanation) -> Table:
    """One row a layer and one for all: budget, heads that ran, entropy of those and of the others."""
    own_L = explained.has_LH.sum(axis=1)
    rows = []
    for layer, heads in enumerate(own_L):
        ran = [int(head) for head in explained.order_LH[layer] if explained.kept_LH[layer, head]]
        rows.append(
            [
                str(layer),
                NONE if explained.budget_L is None else f"{explained.budget_L[layer]:.3f}",
                f"{len(ran)} of {heads}",
                ", ".join(map(str, ran)) or "none",
                _entropy(explained, explained.mean_entropy(kept=True, layer=layer)),
                _entropy(explained, explained.mean_entropy(kept=False, layer=layer)),
            ]
        )
    mean = NONE if explained.budget_L is None else f"{explained.budget_L.mean():.3f}"
    both = [_entropy(explained, explained.mean_entropy(kept=kept)) for kept in (True, False)]
    rows.append(["all", mean, f"{int(explained.kept_LH.sum())} of {own_L.sum()}", "", *both])
    relevant = "by index: full attention has no relevance" if explained.relevance_LH is None else "most relevant first"
    return Table(
        caption="Attention entropy in nats, mean over tokens and heads; in brackets its share of ln N, the entropy of "
        f"attention that is spread evenly over all {len(explained.tokens)} tokens.",
        columns=("Layer", "Budget s", "Heads that ran", f"Which ({relevant})", "Entropy of these", "Of the others"),
        rows=rows,
    )


def entropy_table(explained: Explanation) -> Table:
    """Entropy by relevance rank: layers × ranks, and the means over the layers in nats and as a share of ln N."""
    by_rank_LH = explained.entropy_by_rank_LH
    mean_H = explained.entropy_by_rank()
    named = [*((f"layer {layer}", row) for layer, row in enumerate(by_rank_LH)), ("mean", mean_H)]
    rows = [[name, *(NONE if math.isnan(v) else f"{v:.2f}" for v in row)] for name, row in named]
    rows.append(["share of ln N", *(NONE if math.isnan(v) else f"{v:.0%}" for v in explained.as_share(mean_H))])
    order = "index of the head" if explained.relevance_LH is None else "rank by relevance, 0 is the most relevant head"
    return Table(
        caption=f"Attention entropy in nats by {order}. A sharper map has a lower entropy.",
        columns=("", *(str(rank) for rank in range(len(mean_H)))),
        rows=rows,
    )


def relevance_table(explained: Explanation) -> Table:
    """Layers × heads: relevance in per cent, with a star where the head ran."""
    rows = []
    for layer, kept_H in enumerate(explained.kept_LH):
        stars = ["*" if kept else "" for kept in kept_H]
        if explained.relevance_LH is not None:
            stars = [f"{p:.1%} {star}".strip() for p, star in zip(explained.relevance_LH[layer], stars, strict=True)]
        stars = [star if has else GONE for star, has in zip(stars, explained.has_LH[layer], strict=True)]
        rows.append([f"layer {layer}", *stars])
    return Table(
        caption="Relevance of every head; * where the head ran."
        + ("" if explained.has_LH.all() else f" {GONE.capitalize()}: the layer lost this head for good."),
        columns=("", *(f"head {head}" for head in range(explained.kept_LH.shape[1]))),
        rows=rows,
    )


def map_tables(explained: Explanation, shown: Shown) -> list[Table]:
    """One table a layer: for each token in the pictures and each head, where most of the token's attention goes."""
    tables = []
    names = [isolated(shortened(token, 40)) for token in explained.tokens]
    for layer, maps_KNN in enumerate(explained.maps_LKNN):
        rows = []
        own = explained.has_LH[layer, explained.shown_LK[layer]]
        maps_KNN = maps_KNN[own]
        for place in shown.places:
            best_KN = np.argsort(-maps_KNN[:, place], axis=-1, kind="stable")[:, :TARGETS]
            cells = [
                ", ".join(f"{names[j]} {maps_KNN[k, place, j]:.0%}" for j in best_K) for k, best_K in enumerate(best_KN)
            ]
            rows.append([names[place], *cells])
        heads = [_head(explained, layer, int(head)) for head in explained.shown_LK[layer][own]]
        tables.append(
            Table(
                caption=f"Layer {layer}: the {TARGETS} tokens that each token attends to most.",
                columns=("token", *heads),
                rows=rows,
            )
        )
    return tables


def pictures(explained: Explanation, shown: Shown, *, everywhere: bool = False) -> list[Picture]:
    """The grid of the heads and the maps of each layer.

    ``everywhere``: letters that the picture's font lacks are written as code points, for a file without text.
    """
    ran = explained.kept_LH.sum(axis=1)
    names = [", ".join(map(str, np.flatnonzero(kept_H))) or "none" for kept_H in explained.kept_LH]
    listed = "; ".join(f"layer {layer}: {heads}" for layer, heads in enumerate(names))
    grid = Picture(
        figure=heads_of_a_text(explained.relevance_LH, explained.kept_LH, explained.budget_L, explained.there_LH),
        caption=(_GRID if explained.relevance_LH is not None else _GRID_DENSE)
        + ("" if explained.has_LH.all() else _GAPS),
        alt=f"Heat map, layers by heads: relevance, with a frame around the heads that ran. {listed}.",
    )
    tokens = [explained.tokens[place] for place in shown.places]
    if everywhere:
        tokens = [readable_anywhere(token) for token in tokens]
    maps_LKNN = explained.maps_LKNN[:, :, shown.places][:, :, :, shown.places]
    high = max(float(maps_LKNN.max(initial=0.0)), 1e-3)
    found = [grid]
    for layer, maps_KNN in enumerate(maps_LKNN):
        own = explained.has_LH[layer, explained.shown_LK[layer]]
        if not own.any():
            continue
        heads, maps_KNN = [int(head) for head in explained.shown_LK[layer][own]], maps_KNN[own]
        drawn = [
            HeadMap(
                title=_head(explained, layer, head),
                subtitle=_entropy(explained, explained.entropy_LH[layer, head], unit=" nats"),
                kept=bool(explained.kept_LH[layer, head]),
                map_NN=map_NN,
            )
            for head, map_NN in zip(heads, maps_KNN, strict=True)
        ]
        title = f"Layer {layer}: {ran[layer]} of {explained.has_LH[layer].sum()} heads ran"
        left = shown.total - len(shown.places)
        title += f"; {left} of {shown.total} tokens are left out" if left else ""
        found.append(
            Picture(
                figure=maps_of_a_layer(drawn, tokens, title=title, high=high),
                caption=f"{_MAPS} Here {shown.words}.",
                alt=f"Heat maps, tokens by tokens, of heads {', '.join(map(str, heads))} in layer {layer}; "
                "the table of this layer below has their largest values.",
            )
        )
    return found


_GRID = (
    "Relevance p is what the layer gives each of its heads (a row sums to 100%); the framed heads ran. At the right: "
    "the learned budget s, and the number of heads that ran. The others were not computed for the answer."
)
_GRID_DENSE = "This model has full attention: every head runs for every text, and none has a relevance."
_GAPS = " Crossed out: the layer lost this head for good."
_MAPS = (
    "Row: the token that attends; column: the token it attends to. Below a head's number its attention entropy. Orange "
    "frame: the head ran. Grey and dashed: it did not; its map was computed for this picture only and is no part of "
    "the answer. One colour scale for all layers."
)


def page(explained: Explanation, shown: Shown, *, model: str) -> str:
    """The HTML page: the answer, tables, pictures, and the pictures as tables; it loads nothing."""
    answer = explained.prediction
    intro = [f"Text: {_repeated(explained.text)}"]
    intro += [] if explained.pair is None else [f"Second text: {_repeated(explained.pair)}"]
    intro.append(
        f"Answer of {isolated(shortened(model, 200))}: {isolated(shortened(answer.label, 200))}, with a score of "
        f"{answer.score:.3f}, for {answer.macs:,} multiply-adds."
    )
    if answer.truncated:
        intro.append(f"The text is longer than the model reads: it was cut to {answer.tokens:,} tokens.")
    if answer.reason:
        intro.append(f"Note: {answer.reason}.")
    notes = [
        "What a head attends to is not by itself the reason of an answer: what it adds to the output counts too, and "
        "so do the feed-forward layers.",
        "One text shows one text. Means over many are in the report of an evaluation.",
        "Tokens are named as in the model's vocabulary: a word that it lacks comes in parts (those inside a word begin "
        "with ## in a WordPiece vocabulary) or as its sign for what is unknown.",
    ]
    return render(
        title="Heads and attention of one text",
        intro=intro,
        sections=[
            Section(title="Figures measured", tables=[layers_table(explained), entropy_table(explained)]),
            Section(title="Pictures", pictures=pictures(explained, shown)),
            Section(title="The pictures as tables", tables=[relevance_table(explained), *map_tables(explained, shown)]),
            Section(title="Notes", notes=notes),
        ],
    )


def png(explained: Explanation, shown: Shown) -> bytes:
    """All pictures below each other in one PNG."""
    images = [_image(picture.figure) for picture in pictures(explained, shown, everywhere=True)]
    whole = Image.new("RGB", (max(i.width for i in images), sum(i.height for i in images)), "white")
    top = 0
    for image in images:
        whole.paste(image, (0, top))
        top += image.height
    sink = io.BytesIO()
    whole.save(sink, "PNG", dpi=(DOTS_PER_INCH, DOTS_PER_INCH))
    return sink.getvalue()


def isolated(text: str) -> str:
    """A text from outside between marks that keep its direction of writing from moving what stands around it."""
    return text if text.isascii() else f"\u2068{text}\u2069"


def _image(figure: Figure) -> Image.Image:
    sink = io.BytesIO()
    with project_style():
        figure.savefig(sink, format="png", dpi=DOTS_PER_INCH)
    return Image.open(sink).convert("RGB")


def _repeated(text: str) -> str:
    clean = " ".join("".join(c if c.isprintable() else " " for c in text[:LONGEST_TEXT]).split())
    more = len(text) - LONGEST_TEXT
    return isolated(clean or "(nothing that can be seen)") + (f" … ({more:,} more characters)" if more > 0 else "")


def _head(explained: Explanation, layer: int, head: int) -> str:
    relevance = "" if explained.relevance_LH is None else f", p {explained.relevance_LH[layer, head]:.0%}"
    return f"head {head}{relevance}" + ("" if explained.kept_LH[layer, head] else ", not run")


def _entropy(explained: Explanation, nats: float, *, unit: str = "") -> str:
    if math.isnan(nats):
        return NONE
    share = float(explained.as_share(nats))
    return f"{nats:.2f}{unit}" + ("" if math.isnan(share) else f" ({share:.0%})")
