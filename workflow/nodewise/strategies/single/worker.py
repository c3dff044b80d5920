"""One process, no communication: the same loop as everywhere, and the base of every speed-up."""

from nodewise.strategies import replica


class Strategy(replica.Strategy):
    """Train on one worker."""

    def barrier(self) -> None:
        """One worker waits for nobody."""

    def agree(self) -> None:
        """One worker agrees with itself."""
