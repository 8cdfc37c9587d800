"""``bench --curve``: the same checkpoint at every budget, and the smallest one that is good enough."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data.errors import DataError
from ..data.names import is_named
from ..model_folder import read_card
from .outcome import warn
from .writing import write_bytes, write_figure, write_json, written_aside

if TYPE_CHECKING:
    from ..curve import BudgetChoice
    from ..data.columns import Columns
    from ..data.files import Reading
    from ..reporting.picture import Picture
    from .running import Running


@dataclass(frozen=True, kw_only=True)
class CurveOptions:
    """What the command was told: rows, how the model runs, what to choose, and what to write."""

    folder: Path
    data: str
    split: str | None
    data_folder: Path | None
    columns: Columns
    reading: Reading
    unlabelled: Any
    rows: int | None
    device: str
    precision: str
    running: Running
    target: float | None
    card: bool
    set_default: bool
    json_file: Path | None
    figure: Path | None


def check_writes(folder: Path, *, card: bool, set_default: bool) -> None:
    """Refuse to change a folder that cannot be written, or a card that cannot be read, before any work."""
    option = "--card" if card else "--set-default" if set_default else None
    if option is not None and not os.access(folder, os.W_OK):
        raise ValueError(f"{option}: no permission to write in {folder}; copy the folder, or leave {option} out")
    if card:
        read_card(folder)


def split_of(data: str, split: str | None, *, target: float | None) -> str | None:
    """The split of a named set; a budget is chosen on validation rows, never on test rows."""
    if target is None or not is_named(data):
        return split
    if split == "test":
        raise DataError(
            f"--target-accuracy-drop: a budget that is chosen on {data} test would flatter the figures on these rows; "
            "give --split validation, or other rows"
        )
    return split or "validation"


def run_curve(options: CurveOptions) -> None:
    """Measure, print, choose and write."""
    from ..curve import measure_curve, require_budgets, smallest_budget
    from ..reporting.curve_card import curve_table, has_section
    from ..reporting.gallery import measured_curve_picture
    from ..reporting.results import environment
    from .models import load_classifier
    from .seen import seen_in_training
    from .sources import labelled_rows
    from .tables import show

    folder, data = options.folder, options.data
    split = split_of(data, options.split, target=options.target)
    classifier = load_classifier(
        folder, device=options.device, precision=options.precision, execution="auto", running=options.running
    )
    require_budgets(classifier)
    found = labelled_rows(
        data,
        config=classifier.config,
        asked=options.columns,
        reading=options.reading,
        split=split,
        unlabelled=options.unlabelled,
        data_folder=options.data_folder,
    )
    rows, count = found.dataset, len(found.dataset)
    if options.rows is not None and options.rows < count:
        rows = rows.select([place * count // options.rows for place in range(options.rows)])
    curve = measure_curve(classifier, rows, progress=True)
    heads, points = classifier.config.num_attention_heads, curve.rows()
    choice = None if options.target is None else smallest_budget(curve, target=options.target)
    notes = notes_of(choice, default=classifier.config.default_budget, sets=options.set_default)
    seen = seen_in_training(folder, data, split=split)
    if seen is not None:
        notes.append(f"Note: {seen}.")
    used = f"{classifier.precision.name}, {classifier.model.execution_path.NAME}"
    show(curve_table(points, heads=heads, caption=f"{found.source}: {points[0]['rows']:,} rows ({used})").to_rich())
    for note in notes:
        print(note)
    picture = measured_curve_picture(points, heads=heads)
    if options.json_file is not None:
        told = {"model": str(folder), "data": found.source, "seen_in_training": seen}
        chosen = {"choice": None if choice is None else choice.row()}
        write_json(options.json_file, told | {"curve": points} | chosen | environment())
        print(f"figures: {options.json_file}")
    if options.figure is not None:
        write_figure(options.figure, picture.figure)
        print(f"picture: {options.figure}")
    if options.set_default and choice is not None:
        set_default(folder, choice)
        print(f"default: {folder / 'config.json'}")
        if not options.card and has_section(read_card(folder)):
            warn(f"{folder / 'README.md'} still shows an earlier curve and default; --card replaces them")
    if options.card:
        card = keep_in_card(folder, points, heads=heads, data=found.source, picture=picture, notes=notes)
        print(f"card: {card}")


def notes_of(choice: BudgetChoice | None, *, default: float | None, sets: bool) -> list[str]:
    """What was chosen and what the folder does when a call names no budget."""
    from ..curve import default_sentence

    if choice is None:
        return [] if default is None else [f"When a call names no budget, the folder takes {default:.7g}."]
    if sets:
        return [*choice.sentences(), default_sentence(choice)]
    way = "Its own budgets are what a call without a budget gets"
    if choice.budget is not None:
        way = f"Ask for it with --budget {choice.budget:.7g}"
    return [*choice.sentences(), f"{way}; --set-default makes it the folder's own choice."]


def keep_in_card(
    folder: Path,
    points: Sequence[dict[str, Any]],
    *,
    heads: int,
    data: str,
    picture: Picture,
    notes: Sequence[str],
) -> Path:
    """Put the curve into the folder's card, in place of an earlier one, and its picture beside it."""
    from ..model_folder import CURVE_PICTURE
    from ..reporting.curve_card import curve_section, with_section
    from ..reporting.picture import png

    file = folder / "README.md"
    name = Path(data).name if Path(data).exists() else data  # a path of this machine means nothing to others
    section = curve_section(points, heads=heads, data=name, picture=picture, notes=notes)
    write_bytes(folder / CURVE_PICTURE, png(picture.figure))
    with written_aside(file) as card_file:
        card_file.write(with_section(read_card(folder), section))
    return file


def set_default(folder: Path, choice: BudgetChoice) -> None:
    """Write the chosen budget into ``config.json``; its own budgets are the absence of a default."""
    file = folder / "config.json"
    config = json.loads(file.read_text(encoding="utf-8")) | {"default_budget": choice.budget}
    if choice.budget is None:
        del config["default_budget"]
    with written_aside(file) as config_file:
        config_file.write(json.dumps(config, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
