"""Kinds of models that consist of parts of Keras; a builder has the name of its kind."""

import keras
import keras_hub
from keras import layers, ops, optimizers

from kinds import data
from kinds.custom import compiled, network

SGD = optimizers.SGD


def classifier(model, optimizer=None, **options):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return compiled(model, optimizer, loss, **options)


# --- losses and labels ---


def regression():
    """Regression with an L2 regularizer, and clipping of all gradients together."""
    model = network(units=16, kernel_regularizer=keras.regularizers.L2(0.01))
    return compiled(model, SGD(0.1, momentum=0.9, global_clipnorm=0.5), metrics=["mae"])


def one_hot():
    """One-hot labels, and an optimizer with weight decay and exclusions from it."""
    optimizer = optimizers.AdamW(0.01, weight_decay=0.1)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    loss = keras.losses.CategoricalCrossentropy(from_logits=True)
    return compiled(network(units=16, out=3), optimizer, loss)


def class_weight():
    """Class weights, for labels of a column, and a class that has none."""
    model = classifier(network(units=16, out=3), optimizers.Adam(0.01), metrics=["accuracy"])
    return model, {"class_weight": {0: 0.5, 2: 5.0}}


def sample_weights():
    """Examples that count more or less: Keras divides by their number, not by their weights."""
    return classifier(network(out=3), weighted_metrics=["accuracy"])


def mean_of_weights():
    """A loss that is divided by the weights of the examples."""
    loss = keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")
    return compiled(network(), loss=loss)


def summed():
    """A loss that is a sum over the examples."""
    return compiled(network(), SGD(0.01), keras.losses.MeanSquaredError(reduction="sum"))


def own_sum():
    """A loss function that returns one number for a batch, which is a sum over the examples."""
    return compiled(network(), SGD(0.01), lambda y, predicted: ops.sum(ops.square(y - predicted)))


def own_mean():
    """A loss function that returns one number for a batch, which is a mean over the examples."""
    return compiled(network(), loss=lambda y, predicted: ops.mean(ops.square(y - predicted)))


# --- optimizers ---


def averaged():
    """Gradients of three steps are added up before an update; weights are averaged."""
    return compiled(network(), optimizers.Adam(0.01, gradient_accumulation_steps=3, use_ema=True))


def ema():
    """Averages of the weights, which become the weights in the end."""
    return compiled(network(), SGD(0.1, use_ema=True, ema_momentum=0.5))


def ema_scaled():
    """Averages of the weights that overwrite them every second step, behind a scaled loss."""
    inner = SGD(0.1, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=2)
    return compiled(network(), optimizers.LossScaleOptimizer(inner, initial_scale=8.0))


def two_optimizers():
    """An optimizer that consists of two: one of them clips the gradients of its layer."""
    clipping = optimizers.Adam(0.01, epsilon=1e-4, global_clipnorm=0.1)
    by_path = optimizers.OptimizerMap(SGD(0.1), {".*hidden.*": clipping})
    return compiled(network(name="hidden"), optimizers.MultiOptimizer(by_path))


# --- types of numbers ---


def bfloat16_weights():
    """Weights in bfloat16, of 8 bits."""
    return compiled(network(units=16, dtype="bfloat16", out=layers.Dense(1, dtype="bfloat16")))


def half():
    """mixed_float16 for the whole model: Keras itself scales the loss."""
    policy = keras.DTypePolicy("mixed_float16")
    model = network(units=16, dtype=policy, out=layers.Dense(1, dtype=policy))
    model.dtype_policy = policy
    return compiled(model, SGD(0.01))


# --- layers ---


def pictures(*inside):
    pooled = layers.GlobalAveragePooling2D(), layers.Dense(3)
    return keras.Sequential([keras.Input((8, 8, 1)), *inside, *pooled])


def batch_normalization():
    """Batch normalization: each worker's by its own examples."""
    model = pictures(layers.Conv2D(4, 3), layers.BatchNormalization(), layers.ReLU())
    return classifier(model, SGD(0.1, momentum=0.9))


def synchronized():
    """Batch normalization over the examples of all replicas."""
    normalized = layers.BatchNormalization(synchronized=True)
    return classifier(network(normalized, layers.ReLU(), out=3, activation=None))


def spectral():
    """Spectral normalization: a layer that changes its weights itself, before they are used."""
    hidden = layers.SpectralNormalization(layers.Dense(8, activation="tanh"))
    return compiled(keras.Sequential([keras.Input((8,)), hidden, layers.Dense(1)]))


def dropout():
    """Dropout: each worker drops other units."""
    between = layers.Dropout(0.5), layers.GaussianNoise(0.1)
    return classifier(network(*between, units=16, out=3, activation="relu"))


def augmented():
    """Pictures that the model itself changes at random."""
    changed = layers.RandomFlip("horizontal"), layers.RandomTranslation(0.2, 0.2)
    return classifier(pictures(*changed, layers.Conv2D(4, 3, activation="relu")))


def frozen():
    """A frozen layer, weights that nothing depends on, and a schedule of learning rates."""
    x = keras.Input((8,))
    still, unused = layers.Dense(8, activation="tanh"), layers.Dense(4)
    still.trainable = False
    hidden = still(x)
    model = keras.Model(x, {"size": layers.Dense(1)(hidden), "unused": unused(hidden)})
    rates = optimizers.schedules.CosineDecay(0.1, 10)
    return compiled(model, SGD(rates, momentum=0.9), {"size": "mse"})


def stateful(batch):
    """A recurrent layer that goes on in the next batch: its batch size is fixed."""
    x, recurrent = keras.Input(batch_shape=(batch, 5, 3)), layers.LSTM(6, stateful=True)
    return compiled(keras.Sequential([x, recurrent, layers.Dense(1)]))


# --- words ---


def sequence(*inside, mask_zero=True):
    words = layers.Embedding(20, 4, mask_zero=mask_zero)
    return keras.Sequential([keras.Input((6,), dtype="int32"), words, *inside, layers.Dense(3)])


def embedding():
    """An embedding of few words, whose gradient has only some rows, with Adam."""
    return classifier(sequence(layers.Flatten(), mask_zero=False), optimizers.Adam(0.01))


def masked():
    """Sentences of several lengths: a mask goes through an LSTM up to one label per word."""
    return classifier(sequence(layers.LSTM(5, return_sequences=True)))


def hub():
    """A classifier of KerasHub: a functional backbone with masks, and a head."""
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
    backbone = keras_hub.models.BertBackbone(20, dropout=0.0, max_sequence_length=6, **sizes)
    return classifier(keras_hub.models.BertTextClassifier(backbone, num_classes=3, dropout=0.0))


def text():
    """Strings as input: a layer that was adapted to them makes them numbers."""
    words = layers.TextVectorization(output_sequence_length=4, output_mode="int")
    words.adapt(data.sentences())
    inside = layers.Embedding(8, 4), layers.GlobalAveragePooling1D(), layers.Dense(2)
    return classifier(keras.Sequential([keras.Input((), dtype="string"), words, *inside]))


# --- several inputs ---


def two_inputs():
    """A dict of inputs, a dict of outputs, weighted losses."""
    left, right = keras.Input((8,), name="left"), keras.Input((4,), name="right")
    x = layers.Concatenate()([layers.Dense(8, activation="tanh")(left), right])
    outputs = {"size": layers.Dense(1, name="size")(x), "kind": layers.Dense(3, name="kind")(x)}
    model = keras.Model({"left": left, "right": right}, outputs)
    loss = {"size": "mse", "kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
    return compiled(model, optimizers.Adam(0.01), loss, loss_weights={"size": 0.3, "kind": 1.0})


def siamese():
    """One encoder for two inputs, a tuple; their distance is the output of a Lambda."""
    left, right = keras.Input((8,)), keras.Input((8,))
    encoder = keras.Sequential([layers.Dense(8, activation="tanh"), layers.Dense(4)])
    distance = layers.Lambda(lambda two: ops.mean(ops.square(two[0] - two[1]), axis=1))

    def contrastive(y_true, y_pred):
        y_true = ops.cast(y_true, y_pred.dtype)
        return y_true * y_pred + (1 - y_true) * ops.maximum(1.0 - y_pred, 0.0)

    model = keras.Model((left, right), distance([encoder(left), encoder(right)]))
    return compiled(model, loss=contrastive)
