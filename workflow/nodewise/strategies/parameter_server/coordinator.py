"""The coordinator of ParameterServerStrategy, in the process of worker 0."""

import itertools
import threading
from collections.abc import Iterator

import keras
import tensorflow as tf

from nodewise.cluster.api import parsed
from nodewise.core.errors import RefusedError
from nodewise.models.contents import draw_unseeded_by, layers_in
from nodewise.strategies import api
from nodewise.strategies.parameter_server.step_queue import StepQueue
from nodewise.strategies.parts import (
    mean_loss,
    optimizer_of_all,
    optimizer_of_parts,
    refuse_constraints,
)
from nodewise.strategies.transport import reserve


class Coordinator:
    """Creates the variables on the servers and dispatches steps to whichever worker is free."""

    def __init__(self, job: api.Job, cluster: dict[str, list[str]]) -> None:
        self._job = job
        host, _ = parsed(job.addresses[0])
        self._port = reserve((host, 0))
        own = f"{host}:{self._port.getsockname()[1]}"
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec(cluster | {"chief": [own]}),
            task_type="chief",
            task_id=0,
            rpc_layer="grpc",
        )
        servers = len(cluster["ps"])
        # split large variables along their first axis, or one server could hold nearly everything
        partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(max_shards=servers)
        self._strategy = tf.distribute.ParameterServerStrategy(resolver, partitioner)
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(self._strategy)
        self._one_at_a_time = threading.Lock()
        self._stop = threading.Event()
        self._suppliers: list[threading.Thread] = []
        with self._strategy.scope():
            keras.utils.set_random_seed(job.seed)
            self.model = job.build()
            _refuse_tables(self.model)
            of = optimizer_of_parts if servers > 1 else optimizer_of_all
            self.optimizer = of(self.model)
            self._pieces = [_pieces(variable) for variable in self.model.trainable_variables]
            refuse_constraints(
                variable
                for variable, pieces in zip(
                    self.model.trainable_variables, self._pieces, strict=True
                )
                if len(pieces) > 1
            )
            self.optimizer.build([*itertools.chain(*self._pieces)])

    def trace_step(self, steps: StepQueue) -> None:
        """Define the step that is dispatched; it takes its batch from a queue like `steps`."""
        train = tf.function(
            lambda x, y: self._strategy.run(self._step, args=(x, y)), autograph=False
        )

        def done(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
            # `train` returns after its variables are updated
            loss, outputs, staleness = train(x, y)
            with tf.control_dependencies([loss]):
                finished = steps.finish(loss, outputs, staleness)
            with tf.control_dependencies([finished]):
                return tf.zeros([])

        def step() -> tf.Tensor:
            there, x, y = steps.take()
            return tf.cond(there, lambda: done(x, y), lambda: tf.zeros([]))

        self._steps = steps
        self._function = tf.function(step, autograph=False)

    def dispatch(self) -> None:
        """Dispatch steps from now on.

        Two steps per worker are scheduled at any time: each worker has one, even if it has no batch
        for it yet, and as many more are ready to be taken.
        """
        self._stop.clear()
        for _ in range(2 * self._job.size):
            thread = threading.Thread(target=self._supply, daemon=True)
            self._suppliers.append(thread)
            thread.start()

    def drain(self) -> None:
        """Stop dispatching, and wait until no step is running.

        The queues of all workers must be closed, so that steps end without a batch.

        Raises:
            TimeoutError: a step was not done in time.
        """
        self._stop.set()
        for thread in self._suppliers:
            thread.join(self._job.patience_s)
            if thread.is_alive():
                raise TimeoutError(f"a step was not done within {self._job.patience_s:g} s")
        self._suppliers.clear()

    def _supply(self) -> None:
        try:
            while not self._stop.is_set():
                with self._one_at_a_time:  # the first call traces the step
                    done = self._coordinator.schedule(self._function)
                done.get()
        except Exception as error:  # nobody would see an error of this thread
            self._steps.fail(error)

    def _step(self, x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Pull, compute, push; return the loss, the outputs and the staleness of the gradient."""
        unseeded = _NotingGenerator()
        draw_unseeded_by(unseeded)
        trained, others = self.model.trainable_variables, self.model.non_trainable_variables
        with tf.control_dependencies([x]):
            updates = tf.identity(self.optimizer.iterations.value)
            weights = [_pulled(variable) for variable in trained]
            rest = [_pulled(variable) for variable in others]
        with tf.control_dependencies([updates, *weights, *rest]), tf.GradientTape() as tape:
            tape.watch(weights)
            outputs, changed = self._forward(x, weights, rest)
            # undo Keras' division by the number of replicas
            loss = mean_loss(self.model, y, outputs) * self._strategy.num_replicas_in_sync
            if unseeded.drawn:
                raise RefusedError(
                    "the model draws random numbers without a seed, which servers do not"
                )
            # weight by the worker's share of the global batch, times the number of workers: each
            # gradient is an update of its own
            weighted = loss * (self._job.size * x.shape[0] / self._job.global_batch)
        gradients = tape.gradient(weighted, weights)
        with tf.control_dependencies(tf.nest.flatten(gradients, expand_composites=True)):
            staleness = tf.identity(self.optimizer.iterations.value) - updates
        with tf.control_dependencies([staleness]):
            parts = map(_cut, gradients, self._pieces)
            self.optimizer.apply([*itertools.chain(*parts)])
            for variable, before, after in zip(others, rest, changed, strict=True):
                if after is not before:
                    variable.assign(after)
        return loss, outputs, tf.cast(staleness, tf.int64)

    def _forward(
        self, x: tf.Tensor, weights: list[tf.Tensor], rest: list[tf.Tensor]
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Return the outputs, and the new values of `rest`, the variables without a gradient.

        Raises:
            RefusedError: the model does more than that, which would not reach the servers.
        """
        trained, others = self.model.trainable_variables, self.model.non_trainable_variables
        mapping = [*zip(trained, weights, strict=True), *zip(others, rest, strict=True)]
        with keras.StatelessScope(state_mapping=mapping, collect_losses=True) as scope:
            outputs = self.model(x, training=True)
            if self.model.losses:
                raise RefusedError("the model adds losses of its own, and this strategy cuts it")
        for variable, value in zip(trained, weights, strict=True):
            if scope.get_current_value(variable) is not value:
                raise RefusedError(
                    f"a layer changes {variable.path} itself, which the servers do not get"
                )
        return outputs, [scope.get_current_value(variable) for variable in others]

    def variables(self) -> list[keras.Variable]:
        """Return the variables on the servers that training changes."""
        return api.changing(self.model, self.optimizer)


class _NotingGenerator:
    """A random generator in place of Keras' global one, which notes whether numbers are drawn.

    It does not raise an error itself: Keras would add the arguments of the layer to the message.
    """

    drawn = False

    def next(self, ordered: bool = True) -> tf.Tensor:
        """Return a seed of zeros."""
        self.drawn = True
        return tf.zeros([2], tf.uint32)


def _refuse_tables(model: keras.Model) -> None:
    """Check that no layer has a lookup table, which other processes would not get.

    Raises:
        RefusedError: a layer has one.
    """
    for layer in layers_in(model):
        if getattr(layer, "lookup_table", None) is not None:
            raise RefusedError(f"the layer {layer.name} has a lookup table, which servers do not")


def _pulled(variable: keras.Variable) -> tf.Tensor:
    """Return a copy of a variable, joined from its pieces."""
    return tf.identity(tf.convert_to_tensor(variable.value))


def _pieces(variable: keras.Variable) -> list[tf.Variable]:
    """Return a variable as the servers hold it: whole, or in pieces of some rows each."""
    return list(getattr(variable.value, "variables", [variable]))


def _cut(gradient: tf.Tensor, pieces: list[tf.Variable]) -> list[tf.Tensor]:
    """Split the gradient of a variable like the variable itself."""
    if len(pieces) == 1:
        return [gradient]
    if isinstance(gradient, tf.IndexedSlices):  # an embedding's: only the rows of this batch
        return list(_cut_rows(gradient, pieces))
    parts: list[tf.Tensor] = tf.split(gradient, [piece.shape[0] for piece in pieces])
    return parts


def _cut_rows(gradient: tf.IndexedSlices, pieces: list[tf.Variable]) -> Iterator[tf.IndexedSlices]:
    first = 0
    for piece in pieces:
        rows = piece.shape[0]
        own = (gradient.indices >= first) & (gradient.indices < first + rows)
        yield tf.IndexedSlices(
            tf.boolean_mask(gradient.values, own),
            tf.boolean_mask(gradient.indices, own) - first,
            piece.shape,
        )
        first += rows
