"""All-reduces of 5 MB on links of 100 Mbit/s, in units of what their bytes take of the link.

Level: at most 1.08, on 2, 3 and 8 nodes of 0.2 of a core. `direct` is what the workers of
`split_dense` send each other, `ring` TensorFlow's, of the other strategies; both by turns in the
same workers. `sent` is the TCP payload that left a node, in units of what a ring sends. What was
found is one JSON file (`nodewise.peers.Exchanges`); as `data/bench/all_reduce.json` it is what the
site shows.

    python bench/all_reduce.py [NODES]... [--out FILE]
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from nodewise import cells
from nodewise.clusters import machine, processes
from nodewise.clusters.emulated import Emulated
from nodewise.files import check_writable, write_json, write_text
from nodewise.runner import settle_environment

NODES, ROUNDS = (2, 3, 8), 31
PAYLOAD_BYTES, RATE_MBIT = 5_000_000, 100
CLUSTER = cells.Emulated.model_validate(
    {"node": {"cpu": 0.2}, "link": {"rate_mbit": RATE_MBIT}, "kind": "emulated"}
)
ORDER = [random.Random(turn).sample(["direct", "ring"], 2) for turn in range(ROUNDS)]

# of a worker: way -> of each round when it began and ended, and the bytes it sent
Rounds = dict[str, list[tuple[float, float, int]]]


def main() -> None:
    """Time both ways on every number of nodes, each in a process that can enter its network."""
    parser = argparse.ArgumentParser(
        prog="bench/all_reduce.py", description=__doc__.splitlines()[0]
    )
    parser.add_argument("nodes", nargs="*", type=int, default=NODES)
    parser.add_argument("--out", type=Path, default=Path("build/bench/all_reduce.json"))
    parser.add_argument("--rounds-of", type=int, metavar="NODES", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    check_writable(asked.out)
    if asked.rounds_of:
        settle_environment()  # before NumPy is imported: its threads would bar the way
        write_json(asked.out, launched(asked.rounds_of))
    else:
        measure(asked.nodes, asked.out)


def measure(counts: list[int], out: Path) -> None:
    """Write what was found on each number of nodes, and print it."""
    from nodewise.measure.provenance import provenance
    from nodewise.peers import Exchanges

    started = datetime.now(UTC)
    about = provenance(
        config=None, lock=Path("requirements.lock"), command="python bench/all_reduce.py"
    )
    nodes = {"network": "a namespace per node on one bridge", "cpu_limit": "a quota per node"}
    found = []
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            rounds = Path(folder) / "rounds.json"
            words = [sys.executable, __file__, "--rounds-of", str(count), "--out", str(rounds)]
            subprocess.run(words, check=True)
            exchanges = exchanges_of(count, json.loads(rounds.read_text()))
        print(*(one.line() for one in exchanges), sep="\n", flush=True)
        found += exchanges
    results = Exchanges(
        started_at=started,
        finished_at=datetime.now(UTC),
        cluster=CLUSTER,
        provenance=about.model_copy(update=nodes),
        found=found,
    )
    write_text(out, results.model_dump_json(indent=1) + "\n")


def exchanges_of(nodes: int, workers: list[Rounds]) -> list:
    """Return what each way took, of the rounds of every worker."""
    from nodewise.peers import Exchange, interval, wire_seconds

    wire_s = wire_seconds(nodes, PAYLOAD_BYTES, RATE_MBIT)
    wire_bytes = 2 * (nodes - 1) / nodes * PAYLOAD_BYTES
    return [
        Exchange(
            collective=way,
            nodes=nodes,
            payload_bytes=PAYLOAD_BYTES,
            wire_s=wire_s,
            ratio=interval(
                [
                    together(turn) / wire_s
                    for turn in zip(*(rounds[way] for rounds in workers), strict=True)
                ]
            ),
            sent=statistics.median(b for rounds in workers for _, _, b in rounds[way]) / wire_bytes,
        )
        for way in sorted(ORDER[0])
    ]


def together(turn: tuple[tuple[float, float, int], ...]) -> float:
    """Return the seconds from when the last worker begins until the last has its sum."""
    return max(ended for _, ended, _ in turn) - max(began for began, _, _ in turn)


def launched(nodes: int) -> list[Rounds]:
    """Return the rounds of each worker."""
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


def worker(cluster: Emulated, nodes: int, rank: int, channel: processes.Channel) -> Rounds:
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
    found: Rounds = {way: [] for way in ways}
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
