"""A whole model in half precision chooses the heads that the reference chooses, but for near-ties; and on a GPU."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from budgetformer.execution import cuda, packed

from .test_choice import make_batch, make_model

INPUTS = 1000
TOLERANCE = {torch.bfloat16: 0.02, torch.float16: 0.004}
"""Root mean square of the difference from the reference in the same dtype, as a share of that of its values."""
MARGIN = 0.02
"""A near-tie: head scores closer than this share of their range, or s·H closer than this share of H to a whole
number. Half precision upstream of a choice may decide it either way."""


def scores_gap(scores_BH: Tensor, kept_BH: Tensor, other_BH: Tensor) -> Tensor:
    """By how much the scores of heads that only one of two choices kept differ, over their range, per input."""
    disputed_BH = kept_BH ^ other_BH
    high_B = scores_BH.masked_fill(~disputed_BH, -math.inf).amax(dim=-1)
    low_B = scores_BH.masked_fill(~disputed_BH, math.inf).amin(dim=-1)
    return (high_B - low_B) / (scores_BH.amax(dim=-1) - scores_BH.amin(dim=-1))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("packed", "cpu"),
        pytest.param("packed", "cuda", marks=pytest.mark.gpu),
        pytest.param("cuda", "cuda", marks=pytest.mark.gpu),
    ],
)
@pytest.mark.parametrize("selection", ["soft", "straight_through"])
def test_head_choices_are_those_of_the_reference_but_for_near_ties(
    name: str, where: str, dtype: torch.dtype, selection: str
) -> None:
    """Compared layer by layer; an input is left out after the first layer that chose otherwise."""
    fields = {"hidden_size": 64, "num_attention_heads": 8, "min_heads": 0, "selection": selection}
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(0, 30, (INPUTS,), generator=generator).tolist()
    batch = {name: tensor.to(where) for name, tensor in make_batch(lengths).items()}
    runs = []
    for execution in (name, "reference"):
        model = make_model("auto", dtype, **fields).to(where)
        for key, parameter in model.named_parameters():
            if "budget_net" in key or "relevance_net" in key:
                parameter.data *= 8
        model.set_execution(execution)
        with torch.inference_mode():
            runs.append(model.budgetformer.encode(batch["input_ids"], batch["attention_mask"]))
    same_B = torch.ones(INPUTS, dtype=torch.bool, device=where)
    compared = near_ties = 0
    for fast, slow in zip(runs[0].decisions, runs[1].decisions, strict=True):
        differs_B = same_B & (fast.kept_BH != slow.kept_BH).any(dim=-1)
        product_B = slow.share_B * 8
        near_whole_B = (product_B - product_B.round()).abs() / 8 < MARGIN
        near_rank_B = scores_gap(slow.scores_BH, fast.kept_BH, slow.kept_BH) < MARGIN
        count_moved_B = fast.heads_B != slow.heads_B
        assert (torch.where(count_moved_B, near_whole_B, near_rank_B) | ~differs_B).all()
        compared += int(same_B.sum())
        near_ties += int(differs_B.sum())
        same_B &= ~differs_B
    print(f"{near_ties} of {compared} choices were near-ties and came out otherwise")
    assert len({h for d in runs[1].decisions for h in d.heads_B.tolist()}) > 3
    assert near_ties <= 0.05 * compared
    ours, theirs = (run.pooled_BD[same_B].float() for run in runs)
    assert (ours - theirs).square().mean().sqrt() <= TOLERANCE[dtype] * theirs.square().mean().sqrt()


@pytest.mark.gpu
def test_auto_on_a_gpu_is_cuda_in_half_precision_and_packed_in_float32() -> None:
    batch = {k: v.to("cuda") for k, v in make_batch([5, 1, 0, 40, 17, 63]).items()}
    want = {"output_attentions": True, "output_hidden_states": True, "output_budgets": True}
    model = make_model("auto", hidden_size=64, min_heads=0).to("cuda")
    assert model.execution_path is packed
    assert make_model("auto", torch.bfloat16, hidden_size=64).to("cuda").execution_path is cuda
    with torch.inference_mode():
        fast = model(**batch, **want)
        model.set_execution("reference")
        slow = model(**batch, **want)
    assert torch.equal(fast.kept, slow.kept)
    pairs = zip(
        (fast.logits, *fast.hidden_states, *fast.attentions),
        (slow.logits, *slow.hidden_states, *slow.attentions),
        strict=True,
    )
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)
