"""One function for each row of the paper's tables, and for the rows that we add. Each returns a complete recipe.

All are at the paper's scale (L 4, H 8, D 768, feed-forward 3072, 10 epochs, AdamW at 2e-5, batch 16); ``scales`` makes
them smaller. A variant changes one thing with ``dataclasses.replace``. Times are for the paper's scale on one
data-centre GPU, guessed from multiply-adds and never measured; ``--dry-run`` says them for every scale and row.

For which data sets the paper has Tables III to VI is not known here, so these take any of the five.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from budgetformer.training import TrainingSettings

from ..printed import DATA, TABLE2_BUDGETFORMER, TABLE2_TRANSFORMER, TABLE3
from ..recipe import Ask, DataPart, Printed, Recipe

TOKENIZER = "google-bert/bert-base-uncased@86b5e0934494bd15c9632b12f734a8a67f723594"
BUDGETS = (0.1, 0.25, 0.5, 0.75, 1.0)
SHAPES = ((4, 8), (4, 12), (6, 12), (12, 12))
SHARES = (0.1, 0.25, 0.5, 1.0)
SHAPE = {"num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 768, "intermediate_size": 3072}


def table2_budgetformer(data: str) -> Recipe:
    """Table II, the BudgetFormer. The last state is kept, because the temperature is lowest there.

    Command: ``budgetformer reproduce table2 --data DATA --scale paper``.
    Paper: accuracy DBpedia .9859, AG News .9022, IMDB .8356, SNLI .8106, Yelp .6190; mean budget .085, .212, .601,
    .364, .198; grams .1420, .0155, .4840, .0202, .8591.
    Time: about 40 minutes for AG News, half an hour for IMDB, 3 hours for DBpedia and SNLI, 11 for Yelp.
    """
    training = TrainingSettings(
        train=data,
        output="",
        preset="paper",
        tokenizer=TOKENIZER,
        max_length=DATA[data].length,
        epochs=10,
        batch_size=16,
        learning_rate=2e-5,
        warmup=0.0,
        weight_decay=0.01,
        keep_best=False,
        config=dict(SHAPE),
    )
    return Recipe(
        experiment="table2",
        name=f"{data}/budgetformer",
        what="BudgetFormer",
        data=DataPart(name=data),
        training=training,
        printed=TABLE2_BUDGETFORMER[data],
    )


def table2_transformer(data: str) -> Recipe:
    """Table II, the Transformer: the same model with full attention.

    Command: ``budgetformer reproduce table2 --data DATA --scale paper``.
    Paper: accuracy DBpedia .9830, AG News .9099, IMDB .8354, SNLI .7835, Yelp .5810; grams .1468, .0159, .5376,
    .0206, 1.0751.
    Time: as the BudgetFormer.
    """
    changed = with_config(table2_budgetformer(data), budgeted=False)
    return replace(
        changed, name=f"{data}/transformer", what="Transformer (full attention)", printed=TABLE2_TRANSFORMER[data]
    )


def table2_tfidf(data: str) -> Recipe:
    """Beside Table II, ours: TF-IDF of words and word pairs with logistic regression. The paper has no such row.

    Command: ``budgetformer reproduce table2 --data DATA``. Time: minutes.
    """
    return replace(
        table2_budgetformer(data), name=f"{data}/tfidf", what="TF-IDF (ours)", training=None, printed=Printed()
    )


def table2_straight_through(data: str) -> Recipe:
    """Beside Table II, ours: 0/1 gates that train as they run, interval [0.1, 0.3], alpha_max 5.

    Command: ``budgetformer reproduce table2 --data DATA``. Time: as the BudgetFormer.
    """
    changed = with_config(table2_budgetformer(data), selection="straight_through", s_min=0.1, s_max=0.3, alpha_max=5.0)
    return replace(changed, name=f"{data}/straight-through", what="straight-through (ours)", printed=Printed())


def table2_no_attention(data: str) -> Recipe:
    """Beside Table II, ours: the same model with no head at all, which tells what attention is worth on this data.

    Command: ``budgetformer reproduce table2 --data DATA``. Time: less than the BudgetFormer.
    """
    changed = with_config(table2_budgetformer(data), fixed_budget=0.0, min_heads=0)
    return replace(changed, name=f"{data}/no-attention", what="no attention (ours)", printed=Printed())


def table3_fixed(data: str, budget: float, *, min_heads: int = 1) -> Recipe:
    """Table III: a fixed budget s, f removed, g trained.

    Command: ``budgetformer reproduce table3 --data DATA``.
    Paper, as far as it is known here: at s = 1 DBpedia .167 and Yelp .074, which is below chance.
    Time: as the BudgetFormer of Table II, for each budget.
    ``min_heads=0`` is the literal floor: at s = 0.1 no layer of 8 heads keeps one.
    """
    changed = with_config(table2_budgetformer(data), fixed_budget=budget, min_heads=min_heads)
    literal = ", min_heads 0" if min_heads == 0 else ""
    return replace(
        changed,
        experiment="table3",
        name=f"{data}/fixed-{budget:g}" + ("-min0" if min_heads == 0 else ""),
        what=f"trained at s = {budget:g}{literal}",
        printed=TABLE3.get((data, budget), Printed()) if min_heads else Printed(),
    )


def table3_adaptive(data: str) -> Recipe:
    """Table III, the adaptive model to compare with: the BudgetFormer of Table II, which is trained once for both.

    Command: ``budgetformer reproduce table3 --data DATA``. Paper and time: see Table II.
    """
    return replace(table2_budgetformer(data), experiment="table3", name=f"{data}/adaptive", what="adaptive")


def table3_asked(data: str, budget: float, *, rescale_gates: bool = False, min_heads: int = 1) -> Recipe:
    """Beside Table III: the adaptive model, trained with its own budgets, evaluated at a fixed one.

    With ``rescale_gates`` the asked budget goes into the gates as well, so that a layer grows with s. If accuracy
    falls at s = 1 there and not without it, the paper's collapse may come from this.
    Command: ``budgetformer reproduce table3 --data DATA``. Paper: no such row. Time: an evaluation.
    """
    adaptive = table3_adaptive(data)
    marks = (["rescaled"] if rescale_gates else []) + (["min0"] if min_heads == 0 else [])
    words = (["gates rescaled"] if rescale_gates else []) + (["min_heads 0"] if min_heads == 0 else [])
    return replace(
        adaptive,
        name="-".join([f"{data}/asked-{budget:g}", *marks]),
        what=", ".join([f"adaptive, evaluated at s = {budget:g}", *words]),
        ask=Ask(budget=budget, rescale_gates=rescale_gates, min_heads=0 if min_heads == 0 else None),
        printed=Printed(),
    )


def table4_learned(data: str) -> Recipe:
    """Table IV, the learned choice of heads: the BudgetFormer of Table II.

    Command: ``budgetformer reproduce table4 --data DATA``. Paper and time: see Table II.
    """
    return replace(table2_budgetformer(data), experiment="table4", name=f"{data}/learned", what="learned heads")


def table4_random(data: str) -> Recipe:
    """Table IV: random heads at the learned budget of each input, put in at evaluation.

    Command: ``budgetformer reproduce table4 --data DATA``. Paper: it says that random heads collapse; its figures are
    not known here. Time: an evaluation.
    """
    return replace(
        table4_learned(data),
        name=f"{data}/random",
        what="random heads at evaluation",
        ask=Ask(heads="random"),
        printed=Printed(),
    )


def table4_random_trained(data: str) -> Recipe:
    """Table IV: random heads at the learned budget, in training as well. An input always gets the same ones.

    Command: ``budgetformer reproduce table4 --data DATA``. Paper: as ``table4_random``; which of the two it did is not
    known here. Time: as the BudgetFormer of Table II.
    """
    changed = with_config(table4_learned(data), head_choice="random")
    return replace(changed, name=f"{data}/random-trained", what="random heads in training too", printed=Printed())


def table4_static(data: str) -> Recipe:
    """Beside Table IV, ours: static pruning, one ranking and one number of heads for all inputs of a layer.

    Command: ``budgetformer reproduce table4 --data DATA``. Paper: no such row. Time: two evaluations.
    """
    return replace(
        table4_learned(data),
        name=f"{data}/static",
        what="static pruning (ours)",
        ask=Ask(heads="static"),
        printed=Printed(),
    )


def table5(data: str, layers: int, heads: int) -> Recipe:
    """Table V: models of 4 layers and 8 or 12 heads, 6 and 12 layers of 12 heads, at the same width.

    Command: ``budgetformer reproduce table5 --data DATA``. Paper: it says that larger models use smaller budgets; its
    figures are not known here. Time: in proportion to the layers.
    """
    changed = with_config(table2_budgetformer(data), num_hidden_layers=layers, num_attention_heads=heads)
    return replace(
        changed,
        experiment="table5",
        name=f"{data}/{layers}L-{heads}H",
        what=f"{layers} layers, {heads} heads",
        printed=TABLE2_BUDGETFORMER[data] if (layers, heads) == (4, 8) else Printed(),
        width_multiple=24,
    )


def table6(data: str, share: float) -> Recipe:
    """Table VI: a part of the training data, the same number of epochs.

    Command: ``budgetformer reproduce table6 --data DATA``. Paper: it says that less data leads to larger budgets; its
    figures are not known here. Time: in proportion to the share.
    """
    whole = table2_budgetformer(data)
    return replace(
        whole,
        experiment="table6",
        name=f"{data}/{share:.0%}",
        what=f"{share:.0%} of the training rows",
        data=replace(whole.data, train_share=share),
        printed=whole.printed if share == 1.0 else Printed(),
    )


def with_config(recipe: Recipe, **changes: Any) -> Recipe:
    """The recipe with other fields of the model's configuration."""
    assert recipe.training is not None
    return replace(recipe, training=replace(recipe.training, config=recipe.training.config | changes))
