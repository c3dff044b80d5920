"""Gradients of a model on a CPU, by quicker kernels where TensorFlow has them."""

import keras
import tensorflow as tf

from nodewise.strategies import base


def gradients(
    model: keras.Model, job: base.Job, x: tf.Tensor, y: tf.Tensor
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Return what `base.gradients` does, to rounding; only inside a `tf.function`."""
    graph = tf.compat.v1.get_default_graph()
    found, scores = base.gradients(model, job, x, y)
    _multiply_by_batches(graph)
    return found, scores


def _multiply_by_batches(graph: tf.Graph) -> None:
    """Have products with a transposed matrix, such as a dense layer's gradient, be a batch of one.

    Their kernel takes up to a quarter less time then; that of other products, more.
    """
    for product in graph.get_operations():
        transposed = product.type == "MatMul" and product.get_attr("transpose_b")
        if transposed and not product.get_attr("transpose_a"):
            takers = product.outputs[0].consumers()
            batched = _product_of_batches(product)
            for taker in takers:
                for place, taken in enumerate(taker.inputs):
                    if taken is product.outputs[0]:
                        taker._update_input(place, batched)


def _product_of_batches(product: tf.Operation) -> tf.Tensor:
    one, other = (matrix[None] for matrix in product.inputs)
    return tf.raw_ops.BatchMatMulV2(x=one, y=other, adj_y=True)[0]
