"""SGD that updates a variable in one pass over it.

Keras writes an update with momentum as four operations, each a pass over memory; TensorFlow has a
kernel that does the same in one. All else that an optimizer does (clipping, weight decay,
schedules, averages of weights) stays with Keras. TensorFlow's kernel for Adam is not the same to
rounding: it takes 1 − β₂ from a β₂ that is rounded, which is off by 5e-5.
"""

from functools import partial

import keras
import tensorflow as tf


def fused(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
    """Have SGD with momentum update each variable by one kernel; leave others as they are.

    For plain variables and dense gradients.
    """
    if type(optimizer) is keras.optimizers.SGD and optimizer.momentum:
        optimizer.update_step = partial(_sgd, optimizer)
    return optimizer


def _sgd(
    of: keras.optimizers.SGD, gradient: tf.Tensor, variable: tf.Variable, rate: tf.Tensor
) -> None:
    accumulated = of.momentums[of._get_variable_index(variable)]
    tf.raw_ops.ResourceApplyKerasMomentum(
        var=variable.handle,
        accum=accumulated.value.handle,
        lr=tf.cast(rate, variable.dtype),
        grad=tf.cast(gradient, variable.dtype),
        momentum=tf.constant(of.momentum, variable.dtype),
        use_nesterov=of.nesterov,
    )
