"""Run workers on the nodes of a Slurm allocation, which share the project's folder, with srun."""

import math
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from nodewise.cluster.hosts import Hosts
from nodewise.cluster.worker_state import WorkerError, ending
from nodewise.core.errors import RefusedError, UserError

_ERROR = re.compile(r"(?:srun|slurmstepd): error: (.*)")  # Slurm's own lines in a worker's output


class Allocation(Hosts):
    """The first nodes of this process's Slurm allocation, as many as `size` workers need."""

    cpu_limit = "none: a node is what the allocation has of a host"
    setup = "make setup"

    @contextmanager
    def open(self) -> Iterator[None]:
        """Look up the nodes of the allocation.

        Raises:
            UserError: there is no allocation, or it has ended. No record is written in this case,
                because the cell can be measured in another allocation.
            RefusedError: the allocation has too few nodes.
        """
        nodes, wanted = self._nodes(), math.ceil(self.size / self.per_host)
        if wanted > len(nodes):
            reason = f"{wanted} nodes need as many in the allocation, not {len(nodes)}"
            raise RefusedError(reason, f"salloc --nodes={wanted}")
        self._names = [list(nodes)[rank // self.per_host] for rank in range(self.size)]
        self._hosts = [nodes[name] for name in self._names]
        try:
            yield
        except (WorkerError, RefusedError):
            self._nodes()  # raises if the allocation has ended, which is then the cause
            raise

    def _nodes(self) -> dict[str, str]:
        """Return the NodeAddr of each node of the allocation, by its name.

        Raises:
            UserError: see `open`.
        """
        job = os.environ.get("SLURM_JOB_ID")
        if not job:
            raise UserError(
                "cluster: kind slurm measures inside an allocation only: "
                f"salloc --nodes={self.size} COMMAND, or sbatch profiles/slurm/study.sh CONFIG"
            )
        shown = _scontrol("--oneliner", "show", "job", job)
        # of an array, Slurm shows all jobs if one has the number of the array
        own, *_ = re.findall(rf"^JobId={job} .*", shown, re.MULTILINE) or [shown]
        facts: dict[str, str] = dict(re.findall(r" (JobState|EndTime|NodeList)=(\S+)", own))
        state, ends = facts["JobState"], facts["EndTime"]
        # Slurm may end a job up to half a minute after its time limit
        if ends != "Unknown" and datetime.fromisoformat(ends) < datetime.now():
            state = "TIMEOUT" if state == "RUNNING" else state
        if state != "RUNNING":
            raise UserError(
                f"the Slurm job {job} has ended ({state}): start the study again in another, "
                "it continues with the cells that are not measured yet"
            )
        nodes = _scontrol("--oneliner", "show", "node", facts["NodeList"])
        return dict(re.findall(r"^NodeName=(\S+) .*? NodeAddr=(\S+)", nodes, re.MULTILINE))

    def label(self, rank: int) -> str:
        return f"node{rank // self.per_host + 1}"

    def names(self, rank: int) -> set[str]:
        return {self._names[rank], self._hosts[rank]}

    def prefixed(self, rank: int, words: Sequence[str]) -> list[str]:
        """Return the command of a job step with one task and all resources of the job on the node.

        Steps may overlap, because those of the previous cell may still be ending.
        """
        step = ["--nodes=1", "--ntasks=1", f"--nodelist={self._names[rank]}", "--overlap"]
        step += ["--mem=0", "--cpu-bind=none", "--mpi=none", "--kill-on-bad-exit=0"]
        return ["srun", *step, *words]

    def end_of(self, code: int, output: list[str]) -> str:
        errors = [found[1] for line in output if (found := _ERROR.match(line))]
        return errors[0] if errors else ending(code)


def _scontrol(*arguments: str) -> str:
    """Run scontrol and return its output.

    Raises:
        UserError: scontrol is missing or failed.
    """
    command, environment = ["scontrol", *arguments], os.environ | {"SLURM_TIME_FORMAT": "standard"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise UserError("cluster: kind slurm needs Slurm's commands (slurm-client)") from None
    if done.returncode:
        raise UserError(f"scontrol: {(done.stderr.strip().splitlines() or ['failed'])[0]}")
    return done.stdout
