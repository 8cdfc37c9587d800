"""What does the server do when things go wrong? Each part alone or all of them, against real processes of the command.

    python benchmarks/reliability.py load memory refusals kill term swap disk
    python benchmarks/reliability.py kill --shape tiny --times 5
    python benchmarks/reliability.py table                                    writes the tables of docs/reliability.md

    load      requests per second, p50 and p99 with more and more clients; lost, wrong and refused requests
    memory    resident memory after request 100, 500 and 2,000, of 1 to 400 words
    refusals  bad requests of many kinds, among good ones
    kill      kill -9 under load, and a start on the same port
    term      SIGTERM under load
    swap      two versions behind a switch, swapped under load
    disk      the disk is full while ``predict`` writes; then --resume

The models have random weights. Each answer is compared with the one that ``Classifier`` gives to the text alone, and
no two texts have the same. Rows are appended to results/reliability.jsonl.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tqdm.auto import tqdm

from budgetformer.reporting.results import append_row, environment
from reliability_disk import disk
from reliability_parts import Row, Setting, kill, load, memory, swap, term
from reliability_refusals import refusals
from reliability_servers import apart, write_model
from reliability_tables import DOCUMENT, RESULTS, write_tables
from serving import SHAPES, generated_texts

PARTS: dict[str, Callable[[Setting], Iterator[Row]]] = {
    part.__name__: part for part in (load, memory, refusals, kill, term, swap, disk)
}


def main() -> None:
    """Run the parts that were asked for, append their rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*PARTS, "table"]
    parser.add_argument("parts", nargs="+", choices=names, metavar="PART", help=", ".join(names))
    parser.add_argument("--shape", choices=SHAPES, default="minilm")
    parser.add_argument("--threads", type=int, default=1, help="of each server")
    parser.add_argument("--clients", type=int, action="append", help="levels of load; default 1, 8, 32, 64")
    parser.add_argument("--seconds", type=float, default=15.0, help="of load at each level; the other parts take less")
    parser.add_argument("--requests", type=int, default=2000, help="of memory; records of disk")
    parser.add_argument("--texts", type=int, default=256, help="different ones")
    parser.add_argument("--times", type=int, default=3, help="kills, swaps, ends, and each bad request")
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args()
    asked = [part for part in given.parts if part != "table"]
    with tempfile.TemporaryDirectory() as place:
        if asked:
            setting = prepared(Path(place), given)
        for part in tqdm(asked, desc="reliability"):
            for row in PARTS[part](setting):
                settings = {"benchmark": "reliability", "part": part, "shape": given.shape}
                settings |= {"server_threads": given.threads, "texts": len(setting.texts)}
                append_row(given.output, settings | row | environment())
                tqdm.write(f"{part}: " + ", ".join(f"{name} {value}" for name, value in row.items()))
    if "table" in given.parts:
        write_tables(DOCUMENT, given.output)


def prepared(place: Path, given: argparse.Namespace) -> Setting:
    """The models and texts."""
    texts = generated_texts(given.texts)
    first = write_model(place / "first", shape=given.shape, seed=0, texts=texts)
    second = write_model(place / "second", shape=given.shape, seed=1, texts=texts)
    return Setting(
        models=(first, second),
        texts=apart(texts, first, second),
        place=place,
        threads=given.threads,
        seconds=given.seconds,
        clients=given.clients or [1, 8, 32, 64],
        requests=given.requests,
        times=given.times,
    )


if __name__ == "__main__":
    main()
