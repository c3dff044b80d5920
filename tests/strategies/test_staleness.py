"""What a server counts of its workers; test_server_steps.py has what that comes to."""

import numpy as np

from nodewise.strategies.async_sgd.staleness import Ledger

NOTHING = np.zeros(0, np.float32)


def test_who_has_done_all_its_steps_holds_nobody_back():
    ledger = Ledger(3, bound=1)
    assert ledger.came(2, NOTHING) is None
    for _ in range(5):
        ledger.pushed(0)
        ledger.pushed(1)
    assert not ledger.must_wait(0)
    ledger.pushed(0)
    ledger.pushed(0)
    assert ledger.must_wait(0)
    assert ledger.came(1, NOTHING) is None
    assert not ledger.must_wait(0)


def test_the_mean_is_the_same_to_the_bit_in_any_order_of_coming():
    values = np.random.default_rng(0).normal(size=(5, 1000)).astype(np.float32)
    means = []
    for order in (range(5), (3, 1, 4, 0, 2)):
        ledger = Ledger(5)
        *_, mean = (ledger.came(worker, values[worker]) for worker in order)
        means.append(mean)
    assert means[0].tobytes() == means[1].tobytes()
