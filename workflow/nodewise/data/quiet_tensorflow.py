"""Import TensorFlow without the messages that its libraries print during the import.

They appear on every machine without a GPU, and TensorFlow's log level does not suppress them.
"""

import os

_STDERR = 2

_kept, _nothing = os.dup(_STDERR), os.open(os.devnull, os.O_WRONLY)
try:
    os.dup2(_nothing, _STDERR)
    import tensorflow  # noqa: F401
finally:
    os.dup2(_kept, _STDERR)
    os.close(_kept)
    os.close(_nothing)
