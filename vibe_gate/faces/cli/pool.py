"""Who carries out many tasks: this machine, or with `--cluster` the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from vibe_gate.domain.bundles import STORE
from vibe_gate.domain.context import WireMode
from vibe_gate.errors import UsageError
from vibe_gate.faces import workers
from vibe_gate.faces.cli.output import complain, now
from vibe_gate.git import Repository
from vibe_gate.run.batch import Workers, local_workers
from vibe_gate.store import open_state

LOCAL = "local"


@contextmanager
def pool_of(
    cluster: str | None,
    jobs: int,
    repository: Repository,
    environ: Mapping[str, str],
    *,
    asks: bool,
    wire: WireMode,
    files: bool = False,
) -> Iterator[Workers]:
    """The workers; `jobs` of them on this machine. `asks`: the tasks may ask a model; `files`: they need the files of
    the working tree. UsageError: what a cluster cannot do. InfrastructureError: there is none.
    """
    if not cluster:
        with local_workers(jobs) as local:
            yield local
        return
    try:
        from vibe_gate.run import cluster as dask
        from vibe_gate.run.parcel import Delivery, parcel_of, take_in
    except ModuleNotFoundError as error:
        raise UsageError("--cluster needs Dask; install it: pip install 'vibe-gate[cluster]'") from error
    if cluster != LOCAL and wire != "live":
        raise UsageError(f"--wire {wire} uses files of this machine; use --cluster local.")
    tracked = repository.tracked(STORE)
    with open_state(repository.common_dir) as state:
        parcel = None if cluster == LOCAL else parcel_of(repository, files=files)
        unfit = partial(workers.unfit, asks=asks and wire != "replay")

        def taken_in(delivery: Delivery[Any]) -> object:
            return take_in(delivery, repository.root, tracked, state, now())

        outfit = dask.Outfit(parcel, workers.unpacked, unfit)
        with dask.cluster_workers(cluster, jobs, outfit, taken_in, complain) as remote:
            yield remote
