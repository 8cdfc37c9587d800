"""Word dropout hides tokens of training batches alone, and never special ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from budgetformer.training import train
from budgetformer.training.word_dropout import WordDropout

IDS = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, **{f"w{i}": i for i in range(4, 50)}}


def tokenizer(**special: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel(IDS, unk_token="[UNK]")), **special)


SPECIAL = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}


def test_the_share_is_hidden_and_special_tokens_stay() -> None:
    torch.manual_seed(0)
    ids = torch.randint(4, 50, (50, 202))
    ids[:, 0], ids[:, -1], ids[:25, 150:201] = 2, 3, 0
    hidden = WordDropout(tokenizer(unk_token="[UNK]", **SPECIAL), share=0.2)(ids)
    words = ids >= 4
    assert torch.equal(hidden[~words], ids[~words])
    changed = hidden != ids
    assert set(hidden[changed].tolist()) == {1}
    assert 0.18 < float(changed[words].float().mean()) < 0.22
    assert int(ids.min()) == 0  # the batch itself is as it was
    assert not torch.equal(hidden, WordDropout(tokenizer(unk_token="[UNK]", **SPECIAL), share=0.2)(ids))


def test_the_mask_serves_where_no_word_is_unknown_and_without_both_it_is_refused() -> None:
    ids = torch.randint(4, 50, (4, 100))
    hidden = WordDropout(tokenizer(mask_token="[UNK]", **SPECIAL), share=0.5)(ids)
    assert 1 in hidden
    with pytest.raises(ValueError, match="token for unknown words or a mask"):
        WordDropout(tokenizer(**SPECIAL), share=0.5)


def test_training_sees_fewer_words_and_evaluation_all(
    small_csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    drop: Callable[[WordDropout, torch.Tensor], torch.Tensor] = WordDropout.__call__

    def watched(self: WordDropout, ids: torch.Tensor) -> torch.Tensor:
        hidden = drop(self, ids)
        seen.append(torch.equal(hidden, ids))
        return hidden

    monkeypatch.setattr(WordDropout, "__call__", watched)
    options = {"preset": "tiny", "vocab_size": 120, "max_steps": 3, "eval_steps": 1, "quiet": True}
    train(train=small_csv, output=tmp_path / "m", word_dropout=0.5, **options)
    assert seen == [False] * 3  # three updates; the evaluations after them hide nothing
