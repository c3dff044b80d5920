"""Import TensorFlow without the lines that its libraries print meanwhile.

They come on every machine without a GPU, and its log level does not hold for them.
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
