"""A template of a model of your own: copy it anywhere and change `build`.

    nodewise measure --model models/templates/own_model.py:build
    --dataset data/templates/own_data.py:load --strategy single --nodes 1 --batch 32

measures it. In a configuration it goes under an experiment's `own_models`. Modules beside this file
can be imported.
"""

import keras
from keras import layers


def build() -> keras.Model:
    """Return a new model; called without arguments, once for each replica.

    It is compiled, and trains by its own `train_step`, as in `fit`. Here it takes 8-bit images of
    12×12×1 and gives one number for each class.
    """
    model = keras.Sequential(
        [
            keras.Input((12, 12, 1), dtype="uint8"),
            layers.Rescaling(1 / 255),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(3),
        ]
    )
    # The learning rate is not scaled with the number of nodes.
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate=0.002),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model
