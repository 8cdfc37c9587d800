"""A finished model folder is whole, or it cannot be loaded; there is nothing between."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from budgetformer import Classifier, train


class Killed(BaseException):
    """As by SIGKILL."""


@pytest.mark.parametrize("moved", [0, 1, 3, 5])
def test_a_folder_that_was_half_replaced_cannot_be_loaded_and_can_be_made_anew(
    small_csv: Path, tmp_path: Path, tiny_settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, moved: int
) -> None:
    output = tmp_path / "m"
    settings = tiny_settings | {"train": small_csv, "output": output, "max_steps": 1}
    train(**settings)
    names: list[str] = []

    def replace(source: Path, target: Path) -> None:
        if Path(target).parent == output:
            names.append(Path(target).name)
            if len(names) > moved:
                raise Killed
        original(source, target)

    original = os.replace
    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(Killed):
        train(**settings | {"overwrite": True, "seed": 1})
    assert "config.json" not in names[:moved]
    with pytest.raises(ValueError, match=r"no config\.json"):
        Classifier.from_pretrained(output)
    names.clear()
    monkeypatch.setattr(os, "replace", original)
    train(**settings | {"overwrite": True, "seed": 1})
    assert Classifier.from_pretrained(output, device="cpu")("good").label
