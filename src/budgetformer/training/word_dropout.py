"""Word dropout: in training, some tokens of every text are hidden, so that no single word is relied on."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase


class WordDropout:
    """Replaces a share of the tokens by the one for unknown words; special tokens and padding stay.

    From Iyyer et al. 2015, "Deep Unordered Composition Rivals Syntactic Methods for Text Classification", which
    leaves the words out; here their places stay, so that lengths and positions are those of the text. Every token is
    drawn for itself, anew in each step, from torch's random numbers on the CPU.

    Raises ValueError for a tokenizer with neither a token for unknown words nor one for hidden ones.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, share: float) -> None:
        hidden = tokenizer.unk_token_id if tokenizer.unk_token_id is not None else tokenizer.mask_token_id
        if hidden is None:
            raise ValueError("word_dropout needs a tokenizer with a token for unknown words or a mask; leave it at 0")
        self.share, self.hidden = share, hidden
        self._special = torch.tensor(sorted(tokenizer.all_special_ids))

    def __call__(self, ids_BN: Tensor) -> Tensor:
        """A copy of the token ids (B inputs, N tokens) with some of them hidden."""
        drawn_BN = torch.rand(ids_BN.shape).to(ids_BN.device) < self.share
        own_BN = torch.isin(ids_BN, self._special.to(ids_BN.device), invert=True)
        return torch.where(drawn_BN & own_BN, self.hidden, ids_BN)
