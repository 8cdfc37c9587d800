"""Bench: every candidate answers the same texts, and the figures follow from what was executed."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from budgetformer import Classifier, Pair, Prediction
from budgetformer.answers import Request
from budgetformer.bench import BenchResult, BenchSettings, bench
from budgetformer.bench.candidates import ours, peers
from budgetformer.bench.peak import ROWS, peak_job
from budgetformer.bench.peers import dense_bert, onnx_answer, onnx_files, pipeline_answer
from budgetformer.bench.report import bench_figure, bench_table, short_table
from budgetformer.data.encoding import Encoded
from budgetformer.metering.macs import dense_macs, executed_macs

from ..conftest import WORDS, sentences
from ..model_folders import make_folder

TEXTS = [text for text, _ in sentences(20, labels=list(WORDS), seed=2)] + ["", "good " * 60]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def result(folder: Path) -> BenchResult:
    classifiers = {p: Classifier.from_pretrained(folder, device="cpu", precision=p) for p in ("float32", "int8")}
    settings = BenchSettings(against=("dense", "hf"), heads=(1, 4), rounds=3, batch_size=8, latency_texts=2)
    return bench(classifiers, TEXTS, settings)


def test_every_candidate_has_a_row_with_its_spread(result: BenchResult) -> None:
    assert [row.name for row in result.rows] == [
        "own budgets",
        "1 of 4 heads",
        "4 of 4 heads",
        "own budgets, int8",
        "1 of 4 heads, int8",
        "4 of 4 heads, int8",
        "all heads computed (reference)",
        "dense BERT, transformers pipeline, batch 8",
        "dense BERT, transformers, batch 8",
    ]
    for row in result.rows:
        assert len(row.seconds) == 3
        assert row.quartiles[0] <= row.texts_per_second <= row.quartiles[1]
        assert row.p50 is not None
        assert row.p95 is not None
        assert row.p50 <= row.p95


def test_multiply_adds_are_those_of_the_heads_that_ran(result: BenchResult, folder: Path) -> None:
    clf = Classifier.from_pretrained(folder, device="cpu")
    lengths = [len(ids) for ids in clf.encode(TEXTS).input_ids]
    by_name = {row.name: row for row in result.rows}
    assert by_name["1 of 4 heads"].heads == 1
    assert by_name["1 of 4 heads"].macs == pytest.approx(executed_macs(clf.config, lengths, 1).mean())
    assert by_name["4 of 4 heads"].macs == pytest.approx(dense_macs(clf.config, lengths).mean())
    reference = Classifier.from_pretrained(folder, device="cpu", execution="reference")
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        reference(TEXTS)
    counted = counter.get_total_flops() / 2 / len(TEXTS)
    assert by_name["all heads computed (reference)"].macs == pytest.approx(counted, rel=0.01)  # padding included
    padded = np.concatenate([np.full(len(part), max(part)) for part in (lengths[:8], lengths[8:16], lengths[16:])])
    dense = dense_macs(clf.config.dense_twin(), padded).mean()
    assert by_name["dense BERT, transformers, batch 8"].macs == pytest.approx(dense)


def test_labels_are_held_against_the_reference_at_the_same_heads(result: BenchResult, folder: Path) -> None:
    float32 = Classifier.from_pretrained(folder, device="cpu")
    by_name = {row.name: row for row in result.rows}
    for row in result.rows:
        if row.kind == "ours" and row.precision == "float32":
            assert row.labels_equal == 1.0, row.name  # also at 1 head, where the labels are others than at 4
    labels = {k: [p.label for p in float32(TEXTS, budget=k / 4)] for k in (1, 4)}
    assert labels[1] != labels[4]
    assert by_name["own budgets, int8"].labels_equal is not None
    assert by_name["own budgets, int8"].labels_equal >= 0.8
    assert by_name["dense BERT, transformers, batch 8"].labels_equal is None


def test_memory_of_a_device_is_none_on_a_cpu_and_has_a_column_elsewhere(result: BenchResult) -> None:
    assert {row.device_memory for row in result.rows} == {None}
    assert "device MiB" not in bench_table(result).columns
    table = bench_table(replace(result, rows=[replace(result.rows[0], device_memory=3 * 2**20), *result.rows[1:]]))
    assert [row[table.columns.index("device MiB")] for row in table.rows] == ["3", *["–"] * (len(result.rows) - 1)]


@pytest.mark.gpu
def test_memory_of_a_device_is_measured(folder: Path) -> None:
    classifiers = {"float32": Classifier.from_pretrained(folder, device="cuda")}
    rows = bench(classifiers, TEXTS, BenchSettings(against=("hf",), heads=(1,), rounds=1, latency_texts=0)).rows
    assert all(row.device_memory is not None and row.device_memory > 0 for row in rows)


def test_speed_is_the_ratio_of_paired_rounds_to_the_first_peer(result: BenchResult) -> None:
    peer = next(row for row in result.rows if "pipeline" in row.name)
    assert peer.speed == (1.0, 1.0, 1.0)
    row = result.rows[0]
    assert row.speed is not None
    assert row.speed[0] == pytest.approx(np.median(np.array(peer.seconds) / np.array(row.seconds)))


def test_the_share_of_the_peak_follows_from_the_row(result: BenchResult) -> None:
    for row in result.rows:
        speeds = row.macs * len(TEXTS) / np.array(row.seconds)
        assert row.peak_share == pytest.approx(np.median(speeds / np.array(result.peak_rounds[row.precision])))


def test_table_and_picture_show_every_row(result: BenchResult) -> None:
    table = bench_table(result)
    assert len(table.rows) == len(result.rows)
    assert "GFLOP/s" in table.caption
    words = " ".join(text.get_text() for text in bench_figure(result).findobj(lambda a: hasattr(a, "get_text")))
    for shown in ("float32", "int8", "dense BERT, transformers pipeline, batch 8", "texts per second"):
        assert shown in words


def test_the_short_table_fits_80_columns_and_has_every_row(result: BenchResult) -> None:
    peer = "dense BERT, ONNX Runtime float32, batch 128 sorted"
    longest = replace(result.rows[-1], name=peer, texts_per_second=12_345.6, kind="peer")
    for some in (result, replace(result, rows=[*result.rows, longest])):
        table = short_table(some)
        assert Console(width=200).measure(table.to_rich()).maximum <= 80
        assert len({row[0] for row in table.rows}) == len(some.rows)
    assert "BERT, transformers pipeline" in short_table(result).caption


def test_the_reference_computes_all_heads_however_many_it_keeps(result: BenchResult) -> None:
    for table in (bench_table(result), short_table(result)):
        heads = {row[0]: row[table.columns.index("heads")] for row in table.rows}
        assert [heads[name] for name in heads if name.startswith("all heads computed")] == ["all"]


def test_progress_names_every_stage_and_reaches_its_end(folder: Path) -> None:
    said: list[tuple[str, int, int]] = []
    classifiers = {"float32": Classifier.from_pretrained(folder, device="cpu")}
    settings = BenchSettings(against=("dense",), heads=(1,), rounds=2, latency_texts=3)
    bench(classifiers, TEXTS[:4], settings, progress=lambda *told: said.append(told))
    stages = dict.fromkeys(stage.partition(":")[0] for stage, _, _ in said)
    assert list(stages) == ["Preparing", "First answers", "Memory", "Rounds", "Texts one by one"]
    assert ("First answers: 1 of 4 heads", 1, 3) in said
    assert [told for told in said if told[0] == "Rounds"] == [("Rounds", i, 12) for i in range(1, 13)]
    assert said[-1] == ("Texts one by one", 12, 12)


def test_what_is_slower_is_named(folder: Path) -> None:
    """A text alone on a tiny model: computing one head or eight is the same within the noise, or the note is absent."""
    classifiers = {"float32": Classifier.from_pretrained(folder, device="cpu")}
    found = bench(classifiers, ["good"], BenchSettings(against=("hf",), heads=(1, 4), rounds=5, latency_texts=0))
    one, all_ = (next(row for row in found.rows if row.asked == k) for k in (1, 4))
    assert any("not clearly faster" in note for note in found.notes) == (one.quartiles[0] <= all_.quartiles[1])
    slower = [row.name for row in found.rows if row.kind == "ours" and row.speed is not None and row.speed[1] <= 1]
    assert all(any(name in note for note in found.notes) for name in slower)


def test_pairs_and_a_full_attention_model(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, segments=True, budgeted=False)
    pairs = [Pair(a, b) for a, b in zip(TEXTS[:4], TEXTS[4:8], strict=True)]
    classifiers = {"float32": Classifier.from_pretrained(folder, device="cpu")}
    found = bench(classifiers, pairs, BenchSettings(against=("hf",), rounds=1, latency_texts=0))
    assert [row.name for row in found.rows][:1] == ["full attention"]
    with pytest.raises(ValueError, match="at least one text"):
        bench(classifiers, [], BenchSettings())
    with pytest.raises(ValueError, match="heads must lie between 1 and 4, got 9"):
        bench(classifiers, pairs, BenchSettings(heads=(1, 9)))


def test_the_dense_bert_answers_alike_in_every_runtime(folder: Path, tmp_path: Path) -> None:
    """The same weights in transformers and ONNX Runtime, at other lengths and batch sizes than were exported."""
    pytest.importorskip("onnxruntime")
    clf = Classifier.from_pretrained(folder, device="cpu")
    torch.manual_seed(0)
    bert = dense_bert(clf.config)
    with torch.no_grad():
        for name, parameter in bert.named_parameters():  # spread out, so that texts get different labels
            parameter.mul_(50 if "word_embeddings" in name else 10 if parameter.dim() > 1 else 1)
    files = onnx_files(bert, tmp_path)
    labels = [bert.config.label2id[a["label"]] for a in pipeline_answer(bert, clf.tokenizer, batch_size=8)(TEXTS)]
    assert len(set(labels)) > 1
    for sort in (False, True):
        options = {"batch_size": 5, "max_length": clf.config.max_position_embeddings, "sort": sort}
        assert onnx_answer(files["float32"], clf.tokenizer, **options)(TEXTS) == labels
        small = onnx_answer(files["int8"], clf.tokenizer, **options)(TEXTS)
        assert np.mean(np.array(small) == labels) > 0.6


@pytest.mark.parametrize("precision", ["float32", "bf16", "int8"])
def test_the_peak_is_a_speed_of_whole_products(precision: str) -> None:
    job = peak_job(width=64, intermediate=128, device=torch.device("cpu"), precision=precision)
    assert job.macs % (ROWS * 64 * 128) == 0
    started = time.perf_counter()
    job.run()
    assert 1e6 < job.macs / (time.perf_counter() - started) < 1e15


def test_no_other_format_passes_for_float32() -> None:
    with pytest.raises(ValueError, match="precision must be float32, bf16 or int8, got 'float16'"):
        peak_job(width=8, intermediate=8, device=torch.device("cpu"), precision="float16")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"against": ("tgi",)}, "against must name some of"),
        ({"latency_texts": -5}, "latency_texts must be 0 or above, got -5"),
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BenchSettings(**wrong)  # type: ignore[arg-type]


def test_float32_may_be_there_for_the_reference_alone(folder: Path) -> None:
    classifiers = {p: Classifier.from_pretrained(folder, device="cpu", precision=p) for p in ("int8", "float32")}
    settings = BenchSettings(precisions=("int8",), heads=(4, 1), against=("dense",), rounds=1, latency_texts=0)
    found = bench(classifiers, TEXTS, settings)
    names = ["own budgets, int8", "4 of 4 heads, int8", "1 of 4 heads, int8", "all heads computed (reference)"]
    assert [row.name for row in found.rows] == names
    assert all(note.startswith("In int8, 1 of 4 heads") for note in found.notes)


def test_only_numbers_of_heads_that_can_be_kept_are_measured(tmp_path: Path) -> None:
    classifiers = {"float32": Classifier.from_pretrained(make_folder(tmp_path, min_heads=3), device="cpu")}
    settings = BenchSettings(against=(), rounds=1, latency_texts=0)
    rows = bench(classifiers, TEXTS[:3], settings).rows
    assert [(row.asked, row.heads) for row in rows[1:]] == [(3, 3.0), (4, 4.0)]
    with pytest.raises(ValueError, match="heads must lie between 3 and 4, got 1"):
        bench(classifiers, TEXTS[:3], replace(settings, heads=(1,)))


def test_the_reference_takes_the_batches_of_the_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = Classifier.from_pretrained(folder, device="cpu", batch_tokens=40, window=7)
    settings = BenchSettings(against=("dense",))
    reference = ours({"float32": exact}, settings)[-1]
    seen: list[int] = []
    original = Classifier._window

    def watched(self: Classifier, encoded: Encoded, asked: Request, *, start: int) -> list[Prediction]:
        seen.append(len(encoded.input_ids))
        return original(self, encoded, asked, start=start)

    monkeypatch.setattr(Classifier, "_window", watched)
    reference.answer(TEXTS)
    assert max(seen) == 7
    assert exact.model.execution_path.NAME == "packed"


def test_peers_leave_the_random_state_alone_and_a_failed_export_is_said(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no such operator")

    monkeypatch.setattr("budgetformer.bench.candidates.onnx_files", broken)
    classifier = Classifier.from_pretrained(folder, device="cpu")
    before = torch.get_rng_state()
    found, skipped = peers(classifier, TEXTS, BenchSettings(against=("hf", "onnxruntime")), tmp_path)
    assert torch.equal(torch.get_rng_state(), before)
    assert len(found) == 2
    assert skipped == {"onnxruntime": "the export failed: RuntimeError: no such operator"}
