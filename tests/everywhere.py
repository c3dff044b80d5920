"""Run the ranks of a job on threads of one process, connected as they would be across nodes."""

import threading
from collections.abc import Callable
from typing import Any

from nodewise.cluster import namespace
from nodewise.strategies.transport import Peers


def addresses(count: int) -> list[str]:
    return [f"127.0.0.1:{port}" for port in namespace.free_ports(count)]


def everywhere(count: int, work: Callable[[Peers], Any]) -> list[Any]:
    """Call `work(peers)` on one thread per rank, and return the results by rank.

    Raises:
        Exception: the first error that any rank raised.
    """
    where, results, errors = addresses(count), [None] * count, []

    def run(rank: int) -> None:
        try:
            results[rank] = work(Peers(rank, where))
        except Exception as error:  # raised again on the thread of the test
            errors.append(error)

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), "a place hangs"
    return results
