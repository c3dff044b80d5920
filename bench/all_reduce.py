"""All-reduces of 5 MB on links of 100 Mbit/s, in units of what their bytes take of the link.

Level: at most 1.08, on 2, 3 and 8 nodes of 0.2 of a core. `direct` is what the workers of
`split_dense` send each other, `ring` TensorFlow's, of the other strategies; both by turns in the
same workers. `sent` is the TCP payload that left a node, in units of what a ring sends.

    python bench/all_reduce.py [NODES]...
"""

import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nodewise import cells
from nodewise.clusters import machine, processes
from nodewise.clusters.emulated import Emulated
from nodewise.runner import settle_environment

NODES, ROUNDS = (2, 3, 8), 15
PAYLOAD_BYTES, RATE_MBIT = 5_000_000, 100
CLUSTER = cells.Emulated.model_validate(
    {"node": {"cpu": 0.2}, "link": {"rate_mbit": RATE_MBIT}, "kind": "emulated"}
)
ORDER = [random.Random(turn).sample(["direct", "ring"], 2) for turn in range(ROUNDS)]


def main() -> None:
    """Time both ways on every number of nodes, each in a process that can enter its network."""
    counts = [int(word) for word in sys.argv[1:]] or NODES
    if len(counts) > 1:
        for nodes in counts:
            subprocess.run([sys.executable, __file__, str(nodes)], check=True)
    else:
        settle_environment()  # before NumPy is imported: its threads would bar the way
        report(counts[0], launched(counts[0]))


def report(nodes: int, parts: list[dict[str, list[tuple[float, float, int]]]]) -> None:
    """Print what each way took."""
    wire_bytes = 2 * (nodes - 1) / nodes * PAYLOAD_BYTES
    wire_s = 8 * wire_bytes / (RATE_MBIT * 1e6)
    for way in sorted(ORDER[0]):
        times = [together(turn) / wire_s for turn in zip(*(p[way] for p in parts), strict=True)]
        sent = statistics.median(b / wire_bytes for p in parts for _, _, b in p[way])
        low, _, high = statistics.quantiles(times)
        print(
            f"{nodes} nodes, {way}: {statistics.median(times):.3f} of the wire time "
            f"({low:.3f} to {high:.3f} in the middle half of {ROUNDS}), sent {sent:.3f}"
        )


def together(turn: tuple[tuple[float, float, int], ...]) -> float:
    """Return the seconds from when the last worker begins until the last has its sum."""
    return max(ended for _, ended, _ in turn) - max(began for began, _, _ in turn)


def launched(nodes: int) -> list[dict[str, list[tuple[float, float, int]]]]:
    """Return, of each worker: way -> when each all-reduce began and ended, and bytes sent."""
    cluster = Emulated(nodes, CLUSTER)

    def met(name: str, pids: list[int]) -> bool:
        if name == "placed":
            cluster.connect(pids)
        elif name == "warm":
            cluster.throttle()
        elif name == "timed":
            cluster.unleash()
        return False

    with (
        machine.to_itself(lambda: print("waiting for another measurement")),
        cluster.open(),
        tempfile.TemporaryDirectory() as logs,
    ):
        import tensorflow  # noqa: F401 (once, for all workers)

        return processes.run(
            nodes,
            lambda rank, channel: worker(cluster, nodes, rank, channel),
            logs=Path(logs),
            time_limit_s=600,
            on_meeting=met,
            on_poll=cluster.check,
        )


def worker(cluster: Emulated, nodes: int, rank: int, channel: processes.Channel) -> dict:
    """Sum the same values in both ways, in the order that all workers have."""
    import numpy as np
    import tensorflow as tf

    from nodewise import places
    from nodewise.measure.traffic import traffic
    from nodewise.strategies.direct import Direct
    from nodewise.strategies.multi_worker_mirrored import Ring
    from nodewise.strategies.peers import Peers

    places.join(cluster, rank, channel, nodes)
    direct = Direct(Peers(rank, cluster.addresses()[:nodes], timeout_s=60))
    ring = Ring()
    values = np.ones(PAYLOAD_BYTES // 4, np.float32)
    tensor = tf.constant(values)
    in_ring = tf.function(ring.all_reduce, autograph=False)
    ways = {"direct": lambda: direct.all_reduce(values), "ring": lambda: in_ring(tensor).numpy()}
    for run in ways.values():
        run()
    cluster.limit_link(rank)
    channel.meet("warm")
    for run in ways.values():
        run()
    found: dict[str, list[tuple[float, float, int]]] = {way: [] for way in ways}
    for order in ORDER:
        for way in order:
            ring.barrier()
            sent, began = traffic().sent, time.monotonic()
            total = ways[way]()
            ended = time.monotonic()
            ring.barrier()  # before it the last bytes may not have left
            found[way].append((began, ended, traffic().sent - sent))
            if not (total == nodes).all():
                raise ArithmeticError(f"{way}: the sum over {nodes} nodes is wrong")
    channel.meet("timed")
    return found


if __name__ == "__main__":
    main()
