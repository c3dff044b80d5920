"""Importing TensorFlow and Keras without what they only might use: every cell waits for it."""

import functools
import gc
import sys
import typing
from importlib import import_module

# Both take values of these, too, and do without where they are not installed. Nothing here hands
# such over, and JAX, which the Bayesian fit brings along, takes half as long as TensorFlow itself.
_MIGHT_USE = ("jax", "pandas", "scipy")


def import_tensorflow() -> None:
    """Import TensorFlow and Keras; an `import` of them is free afterwards.

    What was hidden from them can be imported as ever when this returns.
    """
    hidden = [name for name in _MIGHT_USE if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type] # None: is not to be found
    collecting = gc.isenabled()
    gc.disable()  # it would walk through a growing heap in which nothing is garbage
    # its operations name types by 18,000 strings that are compiled one by one; 110 are different
    vars(typing)["compile"] = functools.cache(compile)
    try:
        import_module("tensorflow")
        import_module("keras")
    finally:
        del vars(typing)["compile"]
        for name in hidden:
            del sys.modules[name]
        if collecting:
            gc.enable()
