"""The coordinator of ParameterServerStrategy, in the process of worker 0."""

import itertools
from concurrent.futures import Future, ThreadPoolExecutor

import keras
import tensorflow as tf

from nodewise.cluster.api import parsed
from nodewise.core.errors import RefusedError
from nodewise.strategies import api, parts
from nodewise.strategies.parameter_server.feed import Feed
from nodewise.strategies.transport import reserve

Addresses = dict[str, list[str]]
"""The addresses of the processes of each task type of TensorFlow: `worker` and `ps`."""


class Coordinator:
    """Creates the variables on the servers, and dispatches each worker's steps to it.

    `ClusterCoordinator.schedule` gives a step to whichever worker is free, so that workers would
    train different numbers of steps. Here a thread for each worker calls the step on that worker,
    which is what `ClusterCoordinator` does for the worker that it has chosen.
    """

    def __init__(self, job: api.Job, addresses: Addresses) -> None:
        self._job = job
        host, _ = parsed(job.addresses[0])
        self._port = reserve((host, 0))
        own = f"{host}:{self._port.getsockname()[1]}"
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec(addresses | {"chief": [own]}),
            task_type="chief",
            task_id=0,
            rpc_layer="grpc",
        )
        servers = len(addresses["ps"])
        # split large variables along their first axis, or one server could hold nearly everything
        partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(max_shards=servers)
        self._strategy = tf.distribute.ParameterServerStrategy(resolver, partitioner)
        # `run` needs one; it also notices workers that are gone
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(self._strategy)
        with self._strategy.scope():
            keras.utils.set_random_seed(job.seed)
            self.model = job.build()
            parts.check(self.model, job.batch)
            if self.model.optimizer.gradient_accumulation_steps:
                raise RefusedError("parameter_server does not permit gradient_accumulation_steps")
            # as the servers hold a variable: whole, or in pieces of some rows each
            self._pieces = [
                list(getattr(variable.value, "variables", [variable]))
                for variable in self.model.trainable_variables
            ]
            self.model.optimizer.build([*itertools.chain(*self._pieces)])
        self._dispatchers = [ThreadPoolExecutor(1) for _ in range(job.size)]
        self._dispatched: list[Future[None]] = []

    def trace_step(self, feed: Feed) -> None:
        """Trace the step that is dispatched; it takes its batches from `feed`."""
        self._feed = feed
        self._step = tf.function(self._train, autograph=False).get_concrete_function()

    def dispatch(self, steps: int) -> None:
        """Dispatch so many steps to each worker. A step waits until its worker has a batch."""
        for worker, dispatcher in enumerate(self._dispatchers):
            self._dispatched += [dispatcher.submit(self._run, worker) for _ in range(steps)]

    def drain(self) -> None:
        """Wait until all dispatched steps have ended; raise the error of one that failed."""
        for step in self._dispatched:
            step.result()
        self._dispatched.clear()

    def _run(self, worker: int) -> None:
        try:
            with tf.device(f"/job:worker/replica:0/task:{worker}/device:CPU:0"):
                self._step()
        except Exception as error:
            self._feed.fail(error)  # this worker may wait for a result, or in `drain`
            raise

    def _train(self) -> None:
        loss, outputs, staleness = self._strategy.run(self._replica_step, args=self._feed.take())
        with tf.control_dependencies([loss, staleness]):
            self._feed.finish(loss, outputs, staleness)

    def _replica_step(self, x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Pull, compute, push; return the loss, the outputs and the staleness of the gradient."""
        trained, others = self.model.trainable_variables, self.model.non_trainable_variables
        optimizer = self.model.optimizer
        with tf.control_dependencies([x]):
            updates = tf.identity(optimizer.iterations.value)
            weights = [_pulled(variable) for variable in trained]
            rest = [_pulled(variable) for variable in others]
        mapping = [*zip(trained, weights, strict=True), *zip(others, rest, strict=True)]
        with tf.control_dependencies([updates, *weights, *rest]), tf.GradientTape() as tape:
            tape.watch(weights)
            with keras.StatelessScope(state_mapping=mapping) as scope:
                outputs = self.model(x, training=True)
            changed = [scope.get_current_value(variable) for variable in others]
            # undo Keras' division by the number of replicas
            loss = self.model.compute_loss(None, y, outputs) * self._strategy.num_replicas_in_sync
            # weight by the worker's share of the global batch, times the number of workers: each
            # gradient is an update of its own
            share = self._job.size * x.shape[0] / self._job.global_batch
            weighted = optimizer.scale_loss(loss) * share
        gradients = tape.gradient(weighted, weights)
        with tf.control_dependencies(tf.nest.flatten(gradients, expand_composites=True)):
            staleness = tf.identity(optimizer.iterations.value) - updates
        with tf.control_dependencies([staleness]):
            pieces = map(_cut, gradients, self._pieces)
            optimizer.apply([*itertools.chain(*pieces)])
            for variable, before, after in zip(others, rest, changed, strict=True):
                if after is not before:
                    variable.assign(after)
        return loss, outputs, tf.cast(staleness, tf.int64)


def _pulled(variable: keras.Variable) -> tf.Tensor:
    """Return a copy of a variable, joined from its pieces."""
    return tf.identity(tf.convert_to_tensor(variable.value))


def _cut(gradient: tf.Tensor, pieces: list[tf.Variable]) -> list[tf.Tensor]:
    """Split the gradient of a variable like the variable itself."""
    if len(pieces) == 1:
        return [gradient]
    rows = [piece.shape[0] for piece in pieces]
    if not isinstance(gradient, tf.IndexedSlices):
        return list(tf.split(gradient, rows))
    cut, first = [], 0
    for piece, count in zip(pieces, rows, strict=True):  # an embedding's: only rows of this batch
        own = (gradient.indices >= first) & (gradient.indices < first + count)
        values, indices = (tf.boolean_mask(x, own) for x in (gradient.values, gradient.indices))
        cut.append(tf.IndexedSlices(values, indices - first, piece.shape))
        first += count
    return cut
