"""A classifier of KerasHub: a functional backbone with masks, and a head."""

import keras
import keras_hub

from kinds import integers


def build():
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=20,
        num_layers=1,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        dropout=0.0,
        max_sequence_length=6,
    )
    model = keras_hub.models.BertTextClassifier(backbone, num_classes=3, dropout=0.0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss)
    return model


def load():
    # as a preprocessor makes them
    words = integers(20, 6).astype("int32")
    there = words > 4
    there[:, 0] = True
    inputs = {"token_ids": words, "padding_mask": there, "segment_ids": 0 * words}
    return (inputs, integers(3)), None
