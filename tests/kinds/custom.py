"""Kinds of models with code of one's own; a builder has the name of its kind."""

import keras
import tensorflow as tf
from keras import layers, ops


class Net(keras.Model):
    """Two dense layers."""

    def __init__(self, units=8, out=1):
        super().__init__()
        self.inner, self.out = layers.Dense(units, activation="tanh"), layers.Dense(out)

    def call(self, x):
        return self.out(self.inner(x))


def compiled(model, optimizer=None, loss="mse", **options):
    model.compile(optimizer or keras.optimizers.SGD(0.1), loss, **options)
    return model


def network(*between, units=8, out=1, activation="tanh", **first):
    """Return a network of two dense layers, with other layers between them."""
    hidden = layers.Dense(units, activation, **first)
    last = layers.Dense(out) if isinstance(out, int) else out
    return keras.Sequential([keras.Input((8,)), hidden, *between, last])


def functional(kind):
    """Return a model of the class `kind` that is a graph of two dense layers."""
    x = keras.Input((8,))
    return kind(x, layers.Dense(1)(layers.Dense(8, activation="tanh")(x)))


def squares(model, x, y):
    """Return the mean squared error and its gradients."""
    with tf.GradientTape() as tape:
        error = tf.reduce_mean(tf.square(y - model(x, training=True)))
    return error, tape.gradient(error, model.trainable_variables)


class Small(layers.Layer):
    def call(self, x, training=False):
        if training:
            self.add_loss(0.1 * ops.mean(ops.square(x)))
        return x


def regularized():
    """Losses that layers add: an activity regularizer, a sum over the examples, and `add_loss`."""
    return compiled(network(Small(), activity_regularizer="l2"))


class Signs(keras.optimizers.Optimizer):
    def update_step(self, gradient, variable, learning_rate):
        rate = ops.cast(learning_rate, variable.dtype)
        self.assign_sub(variable, rate * ops.tanh(ops.cast(gradient, variable.dtype)))


class Logarithmic(keras.losses.Loss):
    def call(self, y_true, y_pred):
        return ops.mean(ops.log(1.0 + ops.square(y_true - y_pred)), axis=-1)


def unregistered():
    """An optimizer and a loss of one's own, neither of which could be saved."""
    return compiled(network(), Signs(0.1), Logarithmic())


class Halve(keras.callbacks.Callback):
    """Halves the learning rate when the training loss of an epoch is above a limit."""

    def on_epoch_end(self, epoch, logs=None):
        optimizer = self.model.optimizer
        if logs["loss"] > 0.05:
            optimizer.learning_rate = 0.5 * keras.ops.convert_to_numpy(optimizer.learning_rate)


def callbacks():
    """Callbacks that change the learning rate, by the epoch and by the loss of test examples."""
    still = layers.BatchNormalization(trainable=False)
    optimizer = keras.optimizers.SGD(0.1, momentum=0.5)
    model = compiled(network(still, units=16), optimizer, metrics=["mae"])
    callbacks = [
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * (0.9 if epoch else 0.5)),
        keras.callbacks.ReduceLROnPlateau(monitor="val_mae", patience=1, min_delta=0.2),
        Halve(),
    ]
    return model, {"callbacks": callbacks}


class Noise(layers.Layer):
    def call(self, x, training=False):
        return x + 0.5 * keras.random.normal(ops.shape(x)) if training else x


def unseeded():
    """Random numbers without a seed, which a generator of Keras draws that no model has."""
    return compiled(network(Noise()))


class Growing(layers.Layer):
    def __init__(self):
        super().__init__()
        self.steps = tf.Variable(0.0, trainable=False)

    def call(self, x, training=False):
        if training:
            self.steps.assign_add(1.0)
        return x * (1.0 + 0.2 * self.steps)


def own_variable():
    """A variable of TensorFlow, which Keras does not know of: a layer counts its steps."""
    return compiled(network(Growing()), keras.optimizers.SGD(0.02))


class Mean(keras.Model):
    def __init__(self):
        super().__init__()
        self.embedding, self.out = layers.Embedding(20, 4), layers.Dense(3)

    def call(self, words):
        there = tf.sequence_mask(words.row_lengths(), dtype="float32")[..., None]
        vectors = self.embedding(words.to_tensor())
        return self.out(tf.reduce_sum(vectors * there, 1) / tf.reduce_sum(there, 1))


def ragged():
    """Sentences of several lengths as a ragged tensor."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return compiled(Mean(), loss=loss)


class OwnLoss(Net):
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return ops.mean(ops.square(y - y_pred)) + 0.1 * ops.mean(ops.abs(y_pred))


def own_loss():
    """A compute_loss of its own."""
    return compiled(OwnLoss(), loss=None)


class OwnStep(Net):
    def __init__(self):
        super().__init__(16, 8)
        self.tracker = keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.tracker]

    def train_step(self, data):
        x, _ = data
        with tf.GradientTape() as tape:
            made = self(x, training=True)
            loss = tf.reduce_mean(tf.square(made - x)) + 0.1 * tf.reduce_mean(tf.abs(made))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.tracker.update_state(loss)
        return {"loss": self.tracker.result()}


def own_train_step():
    """A train_step of its own, with two losses and a metric of its own."""
    return compiled(OwnStep(), keras.optimizers.Adam(0.01))


class Accumulating(keras.Model):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.steps = tf.Variable(0, trainable=False)
        self.sums = [
            tf.Variable(tf.zeros(weight.shape), trainable=False)
            for weight in self.trainable_variables
        ]

    def train_step(self, data):
        error, gradients = squares(self, *data)
        for total, gradient in zip(self.sums, gradients, strict=True):
            total.assign_add(gradient)
        self.steps.assign_add(1)
        tf.cond(tf.equal(self.steps % 2, 0), self.apply_sums, lambda: None)
        return {"error": error}

    def apply_sums(self):
        sums = [tf.identity(total) for total in self.sums]
        self.optimizer.apply(sums, self.trainable_variables)
        for total in self.sums:
            total.assign(tf.zeros_like(total))


def accumulating():
    """A train_step that adds up gradients, and applies them in a branch every second time."""
    return compiled(functional(Accumulating), keras.optimizers.SGD(0.05), None)


class Decorated(keras.Model):
    @tf.function
    def train_step(self, data):
        error, gradients = squares(self, *data)
        factor = 1.0
        for _ in tf.range(2):
            factor *= 0.5
        self.optimizer.apply([factor * one for one in gradients], self.trainable_variables)
        return {"error": error}


def decorated():
    """A train_step that is a tf.function itself, written in Python that TensorFlow converts."""
    return compiled(functional(Decorated), keras.optimizers.SGD(0.2), None)


class Guided(keras.Model):
    def train_step(self, data):
        x, y = data
        loss, gradients = squares(self, x, y)
        self.optimizer.apply(gradients, trainable_variables=self.trainable_variables)
        predicted = self(x)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, predicted)
        logs = {metric.name: metric.result() for metric in self.metrics}
        return logs | {"rate": self.optimizer.learning_rate, "outputs": predicted, "nothing": None}


def nested_logs():
    """A train_step as in Keras' guide: its logs have a dict of all compiled metrics."""
    metrics = ["mae", keras.metrics.R2Score(class_aggregation=None)]
    return compiled(functional(Guided), loss=None, metrics=metrics)


class Noisy(keras.Model):
    def train_step(self, data):
        x, y = data
        noise = tf.random.normal(tf.shape(x))
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x + noise, training=True))
        weights = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return {"loss": tf.reduce_mean(noise)}  # for a test to compare


def drawn():
    """A train_step that draws by `tf.random`, whose generators nothing can set back."""
    return compiled(functional(Noisy))


class Unseen(Net):
    def train_step(self, data):
        error, gradients = squares(self, *data)
        for weight, gradient in zip(self.trainable_variables, gradients, strict=True):
            weight.assign_sub(0.1 * gradient)
        return {"error": error}  # fit shows its own loss, which is 0 here


def unseen():
    """A train_step that changes weights without an optimizer, by what its examples are."""
    return compiled(Unseen(), loss=None)


class Gan(keras.Model):
    def __init__(self):
        super().__init__()
        self.generator = keras.Sequential([layers.Dense(8, activation="tanh"), layers.Dense(8)])
        self.judge = keras.Sequential([layers.Dense(8, activation="tanh"), layers.Dense(1)])

    def compile(self, *arguments):
        super().compile(*arguments)
        adams = {name: keras.optimizers.Adam(0.01, epsilon=1e-4) for name in ("made", "judged")}
        self.optimizers = {"by_part": [adams]}
        self.entropy = keras.losses.BinaryCrossentropy(from_logits=True)

    def train_step(self, data):
        (real, noise), (adams,) = data[:2], self.optimizers["by_part"]
        ones, zeros = tf.ones([real.shape[0], 1]), tf.zeros([real.shape[0], 1])
        with tf.GradientTape() as tape:
            wrong = self.entropy(ones, self.judge(real))
            wrong += self.entropy(zeros, self.judge(self.generator(noise)))
        judge = self.judge.trainable_variables
        adams["judged"].apply_gradients(zip(tape.gradient(wrong, judge), judge, strict=True))
        with tf.GradientTape() as tape:
            seen = self.entropy(ones, self.judge(self.generator(noise)))
        made = self.generator.trainable_variables
        adams["made"].apply_gradients(zip(tape.gradient(seen, made), made, strict=True))
        return {"judge": wrong, "generator": seen}


def gan():
    """Two optimizers: a generator and a discriminator that take turns."""
    return compiled(Gan(), loss=None)


class Outer(keras.optimizers.Optimizer):
    def __init__(self, inner):
        super().__init__(0.1)
        self.inner = inner

    def build(self, variables):
        super().build(variables)
        self.inner.build(variables)

    def apply(self, grads, trainable_variables=None):
        self.inner.apply(grads, trainable_variables)


class Pair(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder = keras.Sequential([keras.Input((8,)), layers.Dense(4, activation="tanh")])
        self.decoder = keras.Sequential([keras.Input((4,)), layers.Dense(8)])
        self.encoder.compile(keras.optimizers.Adam(0.01, epsilon=1e-4))
        self.fading = layers.Dense(8, trainable=False)
        self.fading.build((None, 8))
        self.decoder.compile(Outer(keras.optimizers.SGD(0.1, momentum=0.9)))

    def call(self, x):
        return self.decoder(self.encoder(x))

    def train_step(self, data):
        x, _ = data
        with tf.GradientTape(persistent=True) as tape:
            error = tf.reduce_mean(tf.square(self(x, training=True) - self.fading(x)))
        for part in (self.encoder, self.decoder):
            weights = part.trainable_variables
            gradients = tape.gradient(error, weights)
            part.optimizer.apply_gradients(zip(gradients, weights, strict=True))
        self.fading.kernel.assign(0.5 * self.fading.kernel)
        return {"error": error}


def inner_models():
    """Two compiled models in one, whose train_step uses their optimizers, and frozen weights."""
    return compiled(Pair(), loss=None)


class Autoencoder(Net):
    def __init__(self):
        super().__init__(4, 4)
        self.decoder = layers.Dense(8)

    def train_step(self, x):
        error, gradients = squares(self.decoder, x, x)
        self.optimizer.apply(gradients, self.decoder.trainable_variables)
        return {"error": error}


def x_alone():
    """A train_step that gets x alone, in no tuple, and trains a layer that call() leaves out."""
    return compiled(Autoencoder(), loss=None)
