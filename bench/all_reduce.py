"""All-reduces of 5 MB on links of 100 Mbit/s, in units of what their bytes take of the link.

Target: at most 1.08, on 2, 3 and 8 nodes with 0.2 of a core each. In `direct`, every worker
sends directly to every other; `ring` is TensorFlow's, which strategies use. Both run in turns in
the same workers, in launches like those of a calibration. `sent` is the TCP payload that left a
node, in units of what a ring sends. The results are one JSON file
(`nodewise.results.peers.Exchanges`). The site shows `data/bench/all_reduce.json`.

    python bench/all_reduce.py [NODES]... [--out FILE]
"""

import argparse
import random
import statistics
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from nodewise.cluster.kinds.emulated import Emulated, Link, Node
from nodewise.core.files import check_writable, write_text
from nodewise.measure.calibrate import NoResultError, launched
from nodewise.measure.calibrate.plan import Block, Plan
from nodewise.measure.environment import settle_environment
from nodewise.measure.provenance import provenance
from nodewise.results.calibration import Launch

NODES, ROUNDS = (2, 3, 8), 31
WAYS = ("direct", "ring")
PAYLOAD_BYTES = 5_000_000
CLUSTER = Emulated(node=Node(cpu=0.2), link=Link(rate_mbit=100))
TIME_LIMIT_S = 600
BUSY_S = 0.1  # time for which a launch computes before it exchanges


def main() -> None:
    """Launch each number of nodes; write and print the results."""
    parser = argparse.ArgumentParser(
        prog="bench/all_reduce.py", description=__doc__.splitlines()[0]
    )
    parser.add_argument("nodes", nargs="*", type=int, default=NODES)
    parser.add_argument("--out", type=Path, default=Path("build/bench/all_reduce.json"))
    asked = parser.parse_args()
    check_writable(asked.out)
    settle_environment()  # before NumPy: a process with threads cannot enter namespaces
    started, about = datetime.now(UTC), {}
    made = provenance(
        config=None, lock=Path("requirements.lock"), command="python bench/all_reduce.py"
    )
    launches = [launch(count, about) for count in asked.nodes]

    from nodewise.results.peers import Exchanges

    results = Exchanges(
        kind=about.pop("kind"),
        started_at=started,
        finished_at=datetime.now(UTC),
        cluster=CLUSTER,
        provenance=made.model_copy(update=about),
        found=[exchange_of(one, way) for one in launches for way in WAYS],
    )
    write_text(asked.out, results.model_dump_json(indent=1) + "\n")
    for one in results.found:
        where = f"{one.nodes} nodes, {one.collective}"
        print(f"{where}: {one.ratio} of wire, sent {one.sent:.3f}")


def launch(nodes: int, about: dict[str, str]) -> Launch:
    """Time both all-reduces, one of each per round; fill in `about` with facts about the nodes."""
    blocks = [
        Block(collective=way, payload_bytes=PAYLOAD_BYTES, repeats=1, expected_s=1)
        for turn in range(ROUNDS)
        for way in random.Random(turn).sample(WAYS, len(WAYS))
    ]
    plan = Plan(
        cluster=CLUSTER,
        nodes=nodes,
        repeat=0,
        busy_s=BUSY_S,
        blocks=blocks,
        time_limit_s=TIME_LIMIT_S,
    )
    with tempfile.TemporaryDirectory() as logs:
        try:
            found = launched(plan, Path(logs), about, lambda message: None)
        except NoResultError as error:
            raise SystemExit(f"{nodes} nodes: {error}") from error
    for said in found.conditions.outside:
        print(f"{nodes} nodes: {said}", flush=True)
    return found


def exchange_of(launch: Launch, way: str):
    """Return the time and bytes of one all-reduce on the nodes of a launch."""
    from nodewise.results.peers import Exchange, interval, wire_seconds

    wire_s = wire_seconds(launch.nodes, PAYLOAD_BYTES, CLUSTER.link.rate_mbit)
    wire_bytes = 2 * (launch.nodes - 1) / launch.nodes * PAYLOAD_BYTES
    rounds = [one for one in launch.all_reduces if one.collective == way]
    sent = statistics.median(size for one in rounds for size in one.bytes_sent)
    return Exchange(
        collective=way,
        nodes=launch.nodes,
        payload_bytes=PAYLOAD_BYTES,
        wire_s=wire_s,
        ratio=interval([one.seconds / wire_s for one in rounds]),
        sent=sent / wire_bytes,
    )


if __name__ == "__main__":
    main()
