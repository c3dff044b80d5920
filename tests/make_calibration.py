"""Make synthetic, valid calibrations for tests. They are never used as data of the project."""

from datetime import timedelta
from typing import Any

import numpy as np

import make_records as make
from nodewise.cluster.kinds.emulated import Emulated, Link, Node
from nodewise.measure.calibrate import PAYLOADS
from nodewise.results.calibration import Calibration, Stream

SHARE, RATE_MBIT = 0.2, 100.0
SOFTWARE_S, LATENCY_S, SECONDS_PER_BYTE = 5e-3, 1.2e-3, 8.9e-8
LAW = (SOFTWARE_S, LATENCY_S, SECONDS_PER_BYTE)  # wall time
FRAMING = 400  # bytes a message
CLUSTER = Emulated(node=Node(cpu=SHARE), link=Link(rate_mbit=RATE_MBIT))


def calibration(
    nodes: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8),
    *,
    law: tuple[float, float, float] = LAW,
    repeats: int = 2,
    noise: float = 0.0,
    collectives: tuple[str, ...] = ("ring",),
) -> Calibration:
    """Return a calibration whose all-reduces follow a law.

    Args:
        nodes: the numbers of nodes that are launched.
        law: software overhead (s), latency (s) and seconds per byte, in wall time.
        repeats: the launches of each number of nodes.
        noise: the relative standard deviation of the times.
        collectives: the collectives that are timed.
    """
    chance = np.random.default_rng(0)
    software, latency, per_byte = law

    def launch(nodes: int, repeat: int) -> dict[str, Any]:
        summed = PAYLOADS if nodes > 1 else ()
        calls = software + 2 * (nodes - 1) * latency  # hidden behind the bytes, or longer
        seconds = [max(calls, 2 * (nodes - 1) / nodes * size * per_byte) for size in summed]
        return {
            "nodes": nodes,
            "repeat": repeat,
            "started_at": make.START,
            "seconds": 20.0,
            "busy": [{"cpu_s": SHARE * 2.0, "wall_s": 2.0}] * nodes,
            "transfer": transfer() if nodes == 2 else None,
            "all_reduces": [
                {
                    "collective": collective,
                    "payload_bytes": payload,
                    "repeats": 3,
                    "seconds": 3 * float(each * np.exp(noise * chance.standard_normal())),
                    "bytes_sent": [3 * _sent(nodes, payload)] * nodes,
                }
                for collective in collectives
                for payload, each in zip(summed, seconds, strict=True)
            ],
            "conditions": make.conditions(20.0),
            "discarded": [],
        }

    launches = [
        launch(n, repeat) for repeat in range(repeats) for n in chance.permutation(nodes).tolist()
    ]
    return _calibration(status="ok", launches=launches, failure=None)


def without_launches(status: str, reason: str) -> Calibration:
    """Return a calibration that was refused or that failed."""
    failure = {"reason": reason, "rank": 1, "log_tail": ["a line", "<b>another</b>"]}
    return _calibration(status=status, launches=[], failure=failure)


def _calibration(**values: Any) -> Calibration:
    about = {
        "study": "study",
        "cluster": CLUSTER,
        "kind": "emulated",
        "started_at": make.START,
        "finished_at": make.START + timedelta(minutes=5),
        "provenance": make.record(make.cell()).provenance,
    }
    return Calibration.model_validate(about | values)


def _sent(nodes: int, payload: int) -> int:
    return round(2 * (nodes - 1) / nodes * payload) + 2 * (nodes - 1) * FRAMING


def stream(sender: str, receiver: str, rate_mbit: float = RATE_MBIT) -> Stream:
    """Return a stream between two hosts over a link with the given rate."""
    return Stream(ends=[sender, receiver], **transfer(rate_mbit))


def transfer(rate_mbit: float = RATE_MBIT) -> dict[str, Any]:
    """Return the fields of a stream over a link with the given rate."""
    seconds = 30_000_000 * 8 / (rate_mbit * 1e6 * 1448 / 1514)
    sizes = {"payload_bytes": 30_000_000, "segment_bytes": 1448, "frame_bytes": 1514}
    return sizes | {"seconds": seconds}
