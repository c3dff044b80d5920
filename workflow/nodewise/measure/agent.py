"""The agent that runs on each host of a cluster: `python -m nodewise.measure.agent`.

It reads a job and then heartbeats from its standard input, and starts the worker. If the input ends
or falls silent, it kills the worker and all processes that the worker started. In this way all
processes on all hosts end if anything dies where the cell was started, or if the network is cut.
"""

import json
import os
import shutil
import signal
import socket
import time
from contextlib import suppress
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path

import psutil

from nodewise.cluster.api import NO_GPU, parsed
from nodewise.cluster.channel import Channel, Message, receive, send
from nodewise.cluster.guard import guarded
from nodewise.cluster.hosts import GREETING, SILENT_S, OneHost, versions
from nodewise.cluster.process import START_WITHIN_S
from nodewise.cluster.worker import be_worker
from nodewise.cluster.worker_state import ending
from nodewise.core.cell import Cell
from nodewise.core.errors import RefusedError, Terminated
from nodewise.measure.devices import gpu_of_worker, gpus_of_host, threads_of_worker
from nodewise.measure.task import Task


def main() -> None:
    """Run one job."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, Terminated.by)
    launcher = Connection(os.dup(0), writable=False)
    answers = Connection(os.dup(1), readable=False)
    os.dup2(2, 1)  # printed text goes to the log
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.write(answers.fileno(), GREETING)
    send(answers, _facts())
    with suppress(ConnectionError):  # the launcher is gone
        job = receive(launcher)
        send(answers, {"now": time.monotonic()})
        to_worker, of_worker = Pipe()
        worker = os.fork()  # before the guard, whose pipe the worker must not hold open
        if worker == 0:
            to_worker.close()
            be_worker(job["rank"], partial(_work, job=job), of_worker, None)
        of_worker.close()
        with guarded(START_WITHIN_S + job["time_limit_s"]) as guard:
            guard(worker)
            send(to_worker, {})
            _pass_on(worker, to_worker, launcher, answers)


def _facts() -> Message:
    """Return what the launcher must know about this host."""
    return {
        "versions": versions(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "memory_bytes": psutil.virtual_memory().available,
        "disk_bytes": shutil.disk_usage(".").free,
    }


def _pass_on(worker: int, to_worker: Connection, launcher: Connection, answers: Connection) -> None:
    """Pass messages between worker and launcher until one of them ends or the launcher is silent.

    Raises:
        ConnectionError: the launcher has ended.
    """
    heard_at = time.monotonic() + START_WITHIN_S  # the launcher waits for the other hosts first
    failed = False
    while time.monotonic() - heard_at < SILENT_S:
        ready = wait([launcher, to_worker], 1.0)
        if to_worker in ready:
            try:
                message = receive(to_worker)
            except ConnectionError:
                if not failed:
                    send(answers, {"failure": _end_of(worker), "at": time.monotonic()})
                return
            failed = failed or "failure" in message
            send(answers, message)
        if launcher in ready:
            message, heard_at = receive(launcher), time.monotonic()
            send(answers if "heartbeat" in message else to_worker, message)


def _end_of(worker: int) -> Message:
    """Return the failure of a worker that ended without giving a reason."""
    _, status = os.waitpid(worker, 0)
    text = ending(os.waitstatus_to_exitcode(status))
    return {"text": text, "peer": False, "refused": False}


def _work(rank: int, channel: Channel, *, job: Message) -> Message:
    """Do the part of worker `rank` in a job: of a cell or of a calibration."""
    from nodewise.measure.environment import settle_environment

    settle_environment()
    addresses = [_resolved(address) for address in job["addresses"]]
    _check_address(addresses, rank)
    if "plan" in job:
        return _calibrate(rank, channel, job, addresses)
    return _train(rank, channel, job, addresses)


def _calibrate(rank: int, channel: Channel, job: Message, addresses: list[str]) -> Message:
    from nodewise.measure.calibrate import Plan, measure_node

    plan = Plan.model_validate(job["plan"])
    cluster = OneHost(addresses, gpus=NO_GPU, threads=threads_of_worker(job["workers_here"]))
    return measure_node(rank, channel, plan=plan, cluster=cluster)


def _train(rank: int, channel: Channel, job: Message, addresses: list[str]) -> Message:
    from nodewise import data  # imports NumPy, which reads the environment set above
    from nodewise.measure.cell import run_process
    from nodewise.measure.environment import settle_environment
    from nodewise.strategies import STRATEGIES
    from nodewise.study.memory_fit import misfit

    workers = job["workers_here"]
    gpu = gpu_of_worker(gpus_of_host(), job["place"], workers)
    manifest = Path(job["manifest"])
    data.check_arrays(manifest)
    cell = Cell.model_validate_json(json.dumps(job["cell"]))
    STRATEGIES[cell.strategy].check_available()
    settle_environment(backend=STRATEGIES[cell.strategy].backend)
    if reason := misfit(cell, psutil.virtual_memory().available, workers):
        raise RefusedError(reason)
    cluster = OneHost(addresses, gpus=gpu, threads=threads_of_worker(workers))
    weights = Path(job["weights"]) if job["weights"] else None
    return run_process(rank, channel, task=Task(cell, cluster, manifest, weights, job["token"]))


def _check_address(addresses: list[str], rank: int) -> None:
    """Check that other hosts can reach this one, and that its port is free.

    Raises:
        RefusedError: they cannot, or it is not.
    """
    host, port = parsed(addresses[rank])
    if host.startswith("127.") and len({parsed(address)[0] for address in addresses}) > 1:
        raise RefusedError(f"its own name means {host} to it, which the others cannot reach")
    with socket.socket() as test:
        test.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        try:
            test.bind(("", port))
        except OSError:
            raise RefusedError(f"port {port} is taken; cluster.ports sets others") from None


def _resolved(address: str) -> str:
    """Return `host:port` with the host's IP address, which MPI and Horovod require.

    Raises:
        RefusedError: the host's name is not known here.
    """
    host, port = parsed(address)
    try:
        return f"{socket.gethostbyname(host)}:{port}"
    except OSError:
        raise RefusedError("does not know the name of another host") from None


if __name__ == "__main__":
    main()
