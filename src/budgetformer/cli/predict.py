"""Classify texts given here, or every record of a file in order."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options as o

if TYPE_CHECKING:
    from ..data.files import Reading
    from ..inference import Classifier, Prediction

NAME, SCALE = "predict", "Scale"
EXAMPLES = (
    "Examples:",
    "budgetformer predict runs/news 'Shares rose after the report.' --max-budget 0.5",
    "budgetformer predict runs/nli 'A man sleeps.' --pair 'Someone is awake.' --json",
    "budgetformer predict runs/news --input rows.csv --output answers.jsonl --keep-columns",
    "Each record gets one row, in order: id, label, score, scores, heads, macs, truncated, reason. With --keep-columns "
    "a jsonl row holds the record under 'input'; in csv and tsv its columns follow ours, and those with a name of ours "
    "are called input_NAME. A stopped run goes on with the same command and --resume. "
    "A text that begins with a dash comes after --.",
    "budgetformer predict runs/news --input rows.parquet --output answers --engine ray --workers 8",
    "--engine ray answers parquet or jsonl, a file or a folder of files, on Ray Data: --output is a folder of parts in "
    "the order of the records. --resume answers the parts that are missing.",
)


def run(
    folder: o.Folder,
    texts: Annotated[list[str] | None, typer.Argument(metavar="[TEXT]...", help="Texts to classify.")] = None,
    pair: Annotated[
        list[str] | None, typer.Option("--pair", metavar="TEXT", help="The second text (one for each TEXT).")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", metavar="", help="Print the answers to TEXT as JSON lines.")
    ] = False,
    input: Annotated[Path | None, typer.Option("--input", metavar="FILE", help="Classify every record of it.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help=".jsonl, .csv or .tsv. Default, and -: JSON lines on screen."),
    ] = None,
    keep_columns: Annotated[
        bool, typer.Option("--keep-columns", metavar="", help="Carry the input's columns over.")
    ] = False,
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id-column", metavar="NAME", rich_help_panel=o.COLUMNS, help="Default: the record's number from 0."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", metavar="", help="Go on with a stopped run of the same command.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", metavar="", help="Replace --output, or start a stopped run anew.")
    ] = False,
    text_column: o.TextColumn = None,
    pair_column: o.PairColumn = None,
    format: o.Format = None,
    no_header: o.NoHeader = False,
    encoding: o.Encoding = None,
    quoting: o.Quoting = None,
    delimiter: o.Delimiter = None,
    engine: Annotated[
        str,
        typer.Option("--engine", metavar="here|ray", rich_help_panel=SCALE, help="ray: many processes or machines."),
    ] = "here",
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", metavar="N", rich_help_panel=SCALE, help="Each has a model. Default: as many as fit."
        ),
    ] = None,
    cpus_per_worker: Annotated[
        int | None,
        typer.Option("--cpus-per-worker", metavar="N", rich_help_panel=SCALE, help="And as many threads. Default: 1."),
    ] = None,
    part_records: Annotated[
        int | None,
        typer.Option("--part-records", metavar="N", rich_help_panel=SCALE, help="Records in a part. Default: 8192."),
    ] = None,
    ray_address: Annotated[
        str | None,
        typer.Option(
            "--ray-address",
            metavar="HOST:PORT",
            rich_help_panel=SCALE,
            help="A cluster that is there. Default: one of this machine's own, for this command alone.",
        ),
    ] = None,
    budget: o.Budget = None,
    max_budget: o.MaxBudget = None,
    execution: o.Execution = "auto",
    precision: o.Precision = "float32",
    device: o.Device = "auto",
    batch_tokens: o.BatchTokens = None,
    threads: o.Threads = None,
) -> None:
    o.require_share(budget, max_budget)
    from .running import Running

    running = Running(batch_tokens=batch_tokens, threads=threads)
    if engine not in ("here", "ray"):
        raise ValueError(f"--engine must be here or ray, got {engine!r}")
    scale: dict[str, Any] = {"--workers": workers, "--cpus-per-worker": cpus_per_worker}
    scale |= {"--part-records": part_records, "--ray-address": ray_address}
    if engine == "here":
        o.refuse(scale, "without --engine ray")
    else:
        o.refuse({"--batch-tokens": batch_tokens}, "with --engine ray")
        o.refuse({"--threads": threads}, "with --engine ray, where --cpus-per-worker says it")
    to_file = output is not None and str(output) != "-"
    if input is None:
        from ..data.unicode import typed

        texts, pair = ([typed(text) for text in given or ()] for given in (texts, pair))
        if not texts:
            raise ValueError("give texts to classify, or --input FILE")
        file_options: dict[str, Any] = {"--output": output, "--keep-columns": keep_columns, "--id-column": id_column}
        file_options |= {"--resume": resume, "--overwrite": overwrite, "--text-column": text_column}
        file_options |= {"--pair-column": pair_column, "--format": format, "--no-header": no_header}
        file_options |= {"--encoding": encoding, "--quoting": quoting, "--delimiter": delimiter}
        o.refuse(file_options | {"--engine": engine == "ray"}, "without --input")
        _refuse_file_names(texts)
        if pair and len(pair) != len(texts):
            raise ValueError(f"--pair is given {len(pair)} times for {len(texts)} texts; each text has one")
    else:
        if texts:
            raise ValueError(f"give texts or --input, not both; the first text is {texts[0][:60]!r}")
        o.refuse({"--pair": pair}, "with --input, where --pair-column names the second text")
        o.refuse({"--json": as_json}, "with --input, whose answers are JSON lines or what --output says")
        if not to_file:
            o.refuse({"--resume": resume, "--overwrite": overwrite}, "without an --output file")
    from ..model_folder import check_folder

    check_folder(folder)
    reading = o.reading_of(format=format, no_header=no_header, encoding=encoding, quoting=quoting, delimiter=delimiter)
    if input is not None and engine == "ray":
        from ..data.columns import Columns
        from .scaled_prediction import ScaledJob, predict_on_ray

        predict_on_ray(
            ScaledJob(
                folder=folder,
                input=input,
                output=output if to_file else None,
                columns=Columns(text=tuple(text_column or ()), pair=pair_column, id=id_column),
                reading=reading,
                keep_columns=keep_columns,
                resume=resume,
                overwrite=overwrite,
                budget=budget,
                max_budget=max_budget,
                precision=precision,
                execution=execution,
                device=device,
                workers=workers,
                cpus_per_worker=cpus_per_worker,
                part_records=part_records,
                ray_address=ray_address,
            )
        )
        return
    if input is not None:
        _check_files(input, output if to_file else None, reading, resume=resume, overwrite=overwrite)
    from .models import effective_budgets, load_classifier

    if input is None:
        assert texts is not None
        classifier = load_classifier(folder, device=device, precision=precision, execution=execution, running=running)
        request = effective_budgets(classifier, budget=budget, max_budget=max_budget)
        _answer(classifier, texts, pair, request, as_json=as_json)
        return
    from ..data.columns import Columns
    from .prediction_job import PredictionJob, predict_file

    job = PredictionJob(
        input=input,
        output=output if to_file else None,
        columns=Columns(text=tuple(text_column or ()), pair=pair_column, id=id_column),
        reading=reading,
        keep_columns=keep_columns,
        resume=resume,
        overwrite=overwrite,
    )
    classifier = load_classifier(folder, device=device, precision=precision, execution=execution, running=running)
    request = effective_budgets(classifier, budget=budget, max_budget=max_budget)
    predict_file(job, classifier, folder=folder, request=request)


def _refuse_file_names(texts: list[str]) -> None:
    for text in texts:
        if os.path.isfile(text) and Path(text).suffix:
            name = text[:60]
            raise ValueError(f"{name} is a file: did you mean --input {name}? If it is the text, put a space after it")


def _check_files(input: Path, output: Path | None, reading: Reading, *, resume: bool, overwrite: bool) -> None:
    from .early import check_file
    from .resumable import ResumableFile
    from .rows import kind_of
    from .writing import check_target

    check_file(input, reading)
    if output is not None:
        kind_of(output)
        check_target(output, inputs=[input])
        ResumableFile.check(output, resume=resume, overwrite=overwrite)


def _answer(
    classifier: Classifier,
    texts: list[str],
    pairs: list[str] | None,
    request: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    from ..answering import answer_row
    from ..inference import Pair
    from .predictions import print_json

    takes_pairs = classifier.config.pair_column
    if takes_pairs and not pairs:
        raise ValueError("this model classifies pairs of texts: give the second text with --pair")
    if pairs and classifier.config.text_columns and not takes_pairs:
        raise ValueError("this model classifies single texts: leave --pair out")
    inputs = [Pair(a, b) for a, b in zip(texts, pairs, strict=True)] if pairs else list(texts)
    for number, (text, answer) in enumerate(zip(texts, classifier(inputs, **request), strict=True)):
        if as_json:
            print_json(answer_row(answer, id=number))
        else:
            print(_readable(answer, text, all_heads=classifier.config.num_attention_heads))


def _readable(answer: Prediction, text: str, *, all_heads: int) -> str:
    from .tables import millions

    notes = [f"heads {' '.join(map(str, answer.heads))} of {all_heads}", f"{millions(answer.macs)} multiply-adds"]
    notes += ["cut"] if answer.truncated else []
    notes += [answer.reason] if answer.reason else []
    shown = " ".join(text.split())
    shown = shown if len(shown) <= 60 else shown[:59] + "…"
    return f"{' '.join(answer.label.split())}  {answer.score:.3f}  {shown}  ({', '.join(notes)})"
