"""Run workers on the nodes of a Slurm allocation, which share the project's folder, with srun."""

import math
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from nodewise.cluster import api, lock
from nodewise.cluster.hosts import Hosts
from nodewise.cluster.kinds.slurm import Slurm
from nodewise.cluster.worker_state import WorkerError
from nodewise.core.errors import RefusedError, UserError

_ERROR = re.compile(r"(?:srun|slurmstepd): error: (.*)")  # Slurm's own lines in a worker's output


class Allocation(Hosts):
    """As many nodes of this process's Slurm allocation as `size` workers need.

    Cells that are measured at the same time have different nodes.
    """

    cpu_limit = "none: a node is what the allocation has of a host"
    setup = "make setup"

    def __init__(self, size: int, settings: Slurm) -> None:
        super().__init__(size, settings.python, settings.ports, settings.devices_per_node)
        self._wanted = math.ceil(size / self.per_host)
        self._taken: list[str] = []  # nodes locked by `to_itself`

    @contextmanager
    def to_itself(self, on_wait: Callable[[], None]) -> Iterator[float]:
        """Wait for enough free nodes and lock them; yield the seconds waited.

        Raises:
            UserError, NotPermittedError: see `open`.
        """
        started = time.monotonic()
        with lock.some(self._names(), self._wanted, on_wait) as self._taken:
            yield time.monotonic() - started

    @contextmanager
    def open(self) -> Iterator[None]:
        """Look up the nodes of the allocation and choose those of each rank.

        Raises:
            UserError: there is no allocation, or it has ended. No record is written in this case,
                because the cell can be measured in another allocation.
            NotPermittedError: the allocation has too few nodes.
        """
        names = self._names()
        taken = self._taken or names[: self._wanted]
        self._hosts = [taken[rank // self.per_host] for rank in range(self.size)]
        self._places = [names.index(host) + 1 for host in self._hosts]
        try:
            yield
        except (WorkerError, RefusedError):
            self._names()
            raise

    def _names(self) -> list[str]:
        """Return the names of all nodes of the allocation.

        Raises:
            UserError, NotPermittedError: see `open`.
        """
        job = os.environ.get("SLURM_JOB_ID")
        if not job:
            raise UserError(
                "cluster: kind slurm measures inside an allocation only: "
                f"salloc --nodes={self.size} COMMAND, or sbatch profiles/slurm/study.sh CONFIG"
            )
        names = _scontrol("show", "hostnames", _nodes_of(job)).split()
        if self._wanted > len(names):
            raise api.NotPermittedError(
                f"{self._wanted} nodes need as many in the allocation, not {len(names)}",
                f"salloc --nodes={self._wanted}",
            )
        return names

    def label(self, rank: int) -> str:
        return f"node{self._places[rank]}"

    def names(self, rank: int) -> set[str]:
        return {self._hosts[rank]}

    def prefixed(self, rank: int, words: Sequence[str]) -> list[str]:
        """Return the command of a job step with one task and all resources of the job on the node.

        Steps may overlap, because those of the previous cell may still be ending.
        """
        step = ["--nodes=1", "--ntasks=1", f"--nodelist={self._hosts[rank]}", "--overlap"]
        step += ["--mem=0", "--cpu-bind=none", "--mpi=none", "--kill-on-bad-exit=0"]
        return ["srun", *step, *words]

    def end_of(self, code: int, output: list[str]) -> str:
        errors = [found[1] for line in output if (found := _ERROR.match(line))]
        return errors[0] if errors else f"exit code {code}"


def _nodes_of(job: str) -> str:
    """Return the nodes of a running job in Slurm's notation, such as `node[1-3]`.

    Raises:
        UserError: the job has ended.
    """
    shown = _scontrol("--oneliner", "show", "job", job)
    facts: dict[str, str] = dict(re.findall(r" (JobState|EndTime|NodeList)=(\S+)", shown))
    state, ends = facts["JobState"], facts["EndTime"]
    # Slurm may end a job up to half a minute after its time limit
    if ends != "Unknown" and datetime.fromisoformat(ends) < datetime.now():
        state = "TIMEOUT" if state == "RUNNING" else state
    if state != "RUNNING":
        raise UserError(
            f"the Slurm job {job} has ended ({state}): start the study again in another, "
            "it continues with the cells that are not measured yet"
        )
    return facts["NodeList"]


def _scontrol(*arguments: str) -> str:
    """Run scontrol and return its output.

    Raises:
        UserError: scontrol is missing or failed.
    """
    try:
        done = subprocess.run(["scontrol", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise UserError("cluster: kind slurm needs Slurm's commands (slurm-client)") from None
    if done.returncode:
        raise UserError(f"scontrol: {(done.stderr.strip().splitlines() or ['failed'])[0]}")
    return done.stdout
