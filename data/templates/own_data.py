"""A template of data of your own: copy it anywhere and change `load`.

    nodewise prepare data/templates/own_data.py:load

prepares it; `nodewise measure --dataset …` and the workflow do that by themselves. Modules beside
this file can be imported. Give the path of a data file so that it holds in any folder:
`Path(__file__).parent / "my_file.npz"`. When such a file has changed,
`snakemake --cores all --forcerun prepare_own_dataset` reads it again.
"""

import numpy as np

SIZE, CLASSES = 12, 3


def load() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return `(train, test)`, each of them what `fit` takes. `test` may be None.

    Here they are `(x, y)` of arrays. `(x, y, sample_weight)` will do too, and in place of an array
    a dict or tuple of arrays; or a finite `tf.data.Dataset`, or a `keras.utils.PyDataset`. All
    examples have one shape; batches are made anew. Everything random needs a fixed seed: the data
    must be the same each time.
    """
    random = np.random.default_rng(1)
    return drawn(3000, random), drawn(600, random)


def drawn(examples: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw bars that lie, stand or cross, at random places on noise."""
    y = random.integers(0, CLASSES, examples)
    x = random.integers(0, 100, (examples, SIZE, SIZE, 1), dtype=np.uint8)
    for image, kind, (row, column) in zip(
        x, y, random.integers(1, SIZE - 1, (examples, 2)), strict=True
    ):
        if kind != 1:
            image[row] |= 128
        if kind != 0:
            image[:, column] |= 128
    return x, y
