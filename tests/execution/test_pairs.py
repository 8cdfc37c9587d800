"""The rows of (head, input) pairs lie where plain loops put them."""

from __future__ import annotations

import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from budgetformer.execution import TokenLayout
from budgetformer.execution.pairs import arrange_pairs, count_pairs


def plain_loops(kept: Tensor, lengths: list[int]) -> dict[str, list[int]]:
    """The same lists as ``PairRows``, and the counts, written down row by row."""
    starts = [sum(lengths[:b]) for b in range(len(lengths))]
    token, head, ends, bounds, rows_per_head = [], [], [], [], []
    for h in range(kept.shape[1]):
        before = len(token)
        for b, length in enumerate(lengths):
            if kept[b, h] and length:
                bounds.append(len(token))
                token += range(starts[b], starts[b] + length)
                head += [h] * length
        ends.append(len(token))
        rows_per_head.append(len(token) - before)
    order, token_starts = [], []
    for t in range(sum(lengths)):
        token_starts.append(len(order))
        order += [row for row, of in enumerate(token) if of == t]
    return {
        "token_R": token,
        "head_R": head,
        "ends_H": ends,
        "bounds_Q": [*bounds, len(token)],
        "order_R": order,
        "starts_T": token_starts,
        "rows_H": rows_per_head,
        "pairs": len(bounds),
    }


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[list[bool]], list[list[bool]]]:
    """Which heads each input keeps, and its mask with real tokens anywhere."""
    batch, heads, length = draw(st.integers(1, 6)), draw(st.integers(1, 5)), draw(st.integers(1, 7))

    def bits(columns: int) -> list[list[bool]]:
        row = st.lists(st.booleans(), min_size=columns, max_size=columns)
        return draw(st.lists(row, min_size=batch, max_size=batch))

    return bits(heads), bits(length)


@settings(max_examples=200, deadline=None)
@given(batch=batches())
@example(batch=([[True, False], [True, True]], [[False, False], [True, True]]))
@example(batch=([[False, False]], [[True, True]]))
@example(batch=([[True, True]], [[False, False]]))
def test_rows_lie_where_plain_loops_put_them(batch: tuple[list[list[bool]], list[list[bool]]]) -> None:
    kept, mask = (torch.tensor(bits) for bits in batch)
    expected = plain_loops(kept, mask.sum(dim=-1).tolist())
    layout = TokenLayout(mask, packed=True)
    counts = count_pairs(kept, layout)
    assert (counts.rows_H, counts.pairs) == (expected["rows_H"], expected["pairs"])
    assert counts.rows == len(expected["token_R"])
    rows = arrange_pairs(kept, layout, counts)
    for name in ("token_R", "head_R", "ends_H", "bounds_Q", "order_R", "starts_T"):
        assert getattr(rows, name).tolist() == expected[name], name
    assert rows.ends_H.dtype == rows.bounds_Q.dtype == torch.int32  # what the kernels take
