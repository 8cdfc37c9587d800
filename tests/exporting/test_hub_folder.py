"""A folder with its own code: loads where the package is not, with the same answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from budgetformer import BudgetFormerForSequenceClassification, Classifier, Pair, train
from budgetformer.exporting import export_hub
from budgetformer.exporting.hub_folder import EXPECTED

from ..model_folders import NAMES, make_folder, run_python

TEXTS = ["good film", "the table was bad and then it was ugly", "a", "very " * 20]
WITHOUT_THE_PACKAGE = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0].startswith("budgetformer"):
            raise ModuleNotFoundError(f"no {name} here")
sys.meta_path.insert(0, Absent())
try:
    import budgetformer
    raise SystemExit("the package can be imported")
except ModuleNotFoundError:
    pass
import json, torch
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoTokenizer, pipeline
from transformers.utils import logging
logging.disable_progress_bar()
"""


@pytest.mark.parametrize(
    "changes",
    [
        {"segments": True, "position_embedding_type": "learned"},
        pytest.param({"selection": "soft", "pooling": "first"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_it_answers_alike_in_a_process_without_the_package(tmp_path: Path, changes: dict) -> None:
    folder = make_folder(tmp_path / "model", **changes)
    done = export_hub(folder, tmp_path / "hub")
    assert done.inputs > 20
    first, second = ["good film", "bad"], ["bad door and a lamp", "table"]
    texts = {"text": "good film", "text_pair": "bad door"} if "segments" in changes else "good film"
    code = f"""{WITHOUT_THE_PACKAGE}
folder = {str(tmp_path / "hub")!r}
config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
model = AutoModelForSequenceClassification.from_pretrained(folder, trust_remote_code=True).eval()
encoder = AutoModel.from_pretrained(folder, trust_remote_code=True).eval()
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
batch = tokenizer({first}, {second}, padding=True, return_tensors="pt")
with torch.inference_mode():
    output = model(**batch, budget=0.5, output_budgets=True)
    free, hidden = model(**batch), encoder(**batch)
classify = pipeline("text-classification", model=folder, trust_remote_code=True, device="cpu", top_k=None)
print(json.dumps({{
    "names": [config.id2label[i] for i in range(config.num_labels)],
    "free": free.logits.tolist(),
    "half": output.logits.tolist(),
    "heads": output.heads.tolist(),
    "pooled": list(hidden.pooler_output.shape),
    "pipeline": classify({texts!r}),
    "modules": [name for name in sys.modules if name.split(".")[0] == "budgetformer"],
}}))
"""
    printed = run_python(code, HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path / "home"), PYTHONPATH="")
    got = json.loads(printed.splitlines()[-1])
    classifier = Classifier.from_pretrained(folder, device="cpu")
    batch = classifier.tokenizer(first, second, padding=True, return_tensors="pt")
    with torch.inference_mode():
        half = classifier.model(**batch, budget=0.5, output_budgets=True)
        free = classifier.model(**batch)
    assert got["names"] == list(NAMES)
    assert torch.equal(torch.tensor(got["free"]), free.logits)
    assert torch.equal(torch.tensor(got["half"]), half.logits)
    assert got["heads"] == half.heads.tolist()
    assert got["pooled"] == [2, 32]
    assert got["modules"] == []
    asked = Pair("good film", "bad door") if "segments" in changes else "good film"
    answers = got["pipeline"] if isinstance(got["pipeline"][0], dict) else got["pipeline"][0]
    assert {a["label"]: a["score"] for a in answers} == pytest.approx(classifier(asked).scores, abs=1e-5)


def test_the_folder_is_whole_and_says_what_it_is(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "model")
    (folder / "README.md").write_text("---\nlibrary_name: budgetformer\ntags:\n- a\n---\n# Card\n", encoding="utf-8")
    done = export_hub(folder, tmp_path / "hub")
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= set(done.files)
    assert {"configuration_budgetformer.py", "modeling_budgetformer.py", "README.md"} <= set(done.files)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["hub", "model"]
    card = (tmp_path / "hub" / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlibrary_name: transformers\ntags:\n- custom_code\n- a\n---\n# Card\n")
    assert "trust_remote_code=True" in card
    config = json.loads((tmp_path / "hub" / "config.json").read_text(encoding="utf-8"))
    assert set(EXPECTED) <= set(config)
    assert config["hidden_size"] == 32
    assert config["max_position_embeddings"] == 32
    assert config["pad_token_id"] == 0
    assert config["id2label"] == {str(i): name for i, name in enumerate(NAMES)}
    assert config["label2id"] == {name: i for i, name in enumerate(NAMES)}
    assert config["architectures"] == ["BudgetFormerForSequenceClassification"]
    assert config["auto_map"]["AutoModelForSequenceClassification"].startswith("modeling_budgetformer.")


def test_the_package_reads_the_folder_with_its_own_code(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "model")
    export_hub(folder, tmp_path / "hub")
    ours = Classifier.from_pretrained(tmp_path / "hub", device="cpu")
    assert type(ours.model) is BudgetFormerForSequenceClassification
    assert [a.scores for a in ours(TEXTS)] == [
        a.scores for a in Classifier.from_pretrained(folder, device="cpu")(TEXTS)
    ]
    export_hub(tmp_path / "hub", tmp_path / "again")
    for file in (tmp_path / "hub").iterdir():
        if file.name != "README.md":
            assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes()


def test_a_trained_folder_has_what_other_servers_read(small_csv: Path, tmp_path: Path, tiny_settings: dict) -> None:
    train(train=small_csv, output=tmp_path / "m", max_steps=1, **tiny_settings)
    config = json.loads((tmp_path / "m" / "config.json").read_text(encoding="utf-8"))
    assert set(EXPECTED) | {"architectures"} <= set(config)
    assert config["architectures"] == ["BudgetFormerForSequenceClassification"]


def test_a_place_in_use_is_left_alone(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "model")
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    (tmp_path / "file").write_text("mine")
    for place, said in ((folder, "holds something already"), (tmp_path / "file", "is a file")):
        with pytest.raises(ValueError, match=said):
            export_hub(folder, place)
    with pytest.raises(ValueError, match="make it first"):
        export_hub(folder, tmp_path / "no" / "hub")
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert (tmp_path / "file").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    export_hub(folder, tmp_path / "empty")


def test_code_that_answers_otherwise_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from budgetformer.exporting import hub_folder

    files = hub_folder.code_files()
    wrong = files["modeling_budgetformer.py"].replace("return ranks_BH < k_B.unsqueeze(-1)", "return ranks_BH < 1")
    assert wrong != files["modeling_budgetformer.py"]
    monkeypatch.setattr(hub_folder, "code_files", lambda: files | {"modeling_budgetformer.py": wrong})
    with pytest.raises(ValueError, match="gives other logits"):
        export_hub(make_folder(tmp_path / "model"), tmp_path / "hub")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model"]
