"""A loss function that returns one number for a batch, which is a mean over the examples."""

from keras import ops

from kinds import own_sum


def mean(y, predicted):
    return ops.mean(ops.square(y - predicted))


def build():
    return own_sum.compiled(mean, 0.1)


def load():
    return own_sum.load()
