"""The options of the strategies: typed, checked when a configuration is parsed.

This module is read where configurations are checked, so it must not import TensorFlow.
"""

from nodewise.cells import Frozen


class Options(Frozen):
    """What can be chosen about a strategy: nothing, unless a subclass has fields."""

    @property
    def servers(self) -> int:
        """Nodes that hold parameters, beside those that train."""
        return 0

    def check(self, nodes: int) -> None:
        """See that the options make sense on `nodes` nodes.

        Raises:
            ValueError: they do not; the text names the option and what is allowed.
        """


NO_OPTIONS = Options()
