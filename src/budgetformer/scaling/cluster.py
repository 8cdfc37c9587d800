"""A Ray cluster to work on: one that is there, or one of this machine's own that nobody else can reach.

The own cluster listens on 127.0.0.1 alone, has no dashboard, reports no usage, and leaves no files. Texts do not travel
through its object store, so that is kept small.
"""

from __future__ import annotations

import gc
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from ..extras import how_to_install
from .reaching import settings_for

OBJECT_STORE = 100 * 2**20
"""Bytes. Ray's least is 75 MiB; a row that names a part has some hundred bytes."""
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_AUTO_CONNECT": "0",  # else what still asks Ray after its end starts a second cluster, open to others
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # else Ray announces that it will be
}

PATIENCE = {
    "RAY_health_check_failure_threshold": "60",
    "RAY_health_check_timeout_ms": "30000",
    "RAY_agent_register_timeout_ms": "600000",
    "RAY_worker_register_timeout_seconds": "600",
}
"""An own cluster has one machine, which is not lost because it was busy or asleep for some minutes."""


def require_ray() -> None:
    """Raise ValueError with what to install when Ray is not there."""
    if find_spec("ray") is None:
        raise ValueError(f"--engine ray needs Ray, which is not installed; {how_to_install('scale')}")


@contextmanager
def cluster(*, address: str | None, cpus: int) -> Iterator[int]:
    """Connected to Ray for the block; gives the processors that the cluster has.

    Args:
        address: of a cluster that is there, such as 10.0.0.1:6379 or auto; None starts one on this machine.
        cpus: processors of the own cluster.

    Raises ValueError when there is no cluster at the address.
    """
    os.environ.update(_SETTINGS | (settings_for(address) if address else PATIENCE))
    with _quiet():
        import ray
        import ray.data

        folder = None if address else _folder()
        try:
            _connect(ray, address=address, cpus=cpus, folder=folder)
            logging.getLogger("ray.data").setLevel(logging.ERROR)
            yield int(ray.cluster_resources().get("CPU", 0))
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                ray.shutdown()
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)


def _connect(ray: Any, *, address: str | None, cpus: int, folder: str | None) -> None:
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is not None:
        try:
            ray.init(address=address, **quiet)
        except (ConnectionError, ValueError, RuntimeError) as problem:
            raise ValueError(f"--ray-address {address}: no cluster answers there ({problem})") from problem
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # Ray opens /dev/null for its processes and lets it go
        ray.init(
            address="local",
            num_cpus=cpus,
            num_gpus=0,
            include_dashboard=False,
            object_store_memory=OBJECT_STORE,
            _node_ip_address="127.0.0.1",
            _temp_dir=folder,
            **quiet,
        )
        gc.collect()  # and Python speaks of that where it finds it


def _folder() -> str | None:
    """A folder for Ray's sockets and logs; None, Ray's own, where its path is too long for a socket."""
    folder = tempfile.mkdtemp(prefix="ray-")
    if len(folder) <= 40:
        return folder
    os.rmdir(folder)
    return None


@contextmanager
def _quiet() -> Iterator[None]:
    """Ray warns of its own old names at every import."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"ray(\.|$)")
        yield
