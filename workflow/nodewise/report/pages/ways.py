"""The pictures of each strategy: what nodes do in a step."""

from nodewise.report.diagrams import Diagram, Lane, Row

_WORKERS = tuple(Lane(f"Worker {rank}", "all weights") for rank in range(3))
_ALL = (0, 1, 2)
_AROUND = ((0, 1), (1, 2), (2, 0))
_PAIRS = ((0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0))
_SAME_UPDATE = Row("Each makes the same update.", dict.fromkeys(_ALL, "update"), "apply")
_OWN_GRADIENT = Row(
    "Each computes the gradient of its own part of the global batch.",
    dict.fromkeys(_ALL, "gradient"),
)
_SLOWEST = Row("Workers that finish early wait for the slowest.", {2: "gradient"}, waits=(0, 1))


def _around(what: str = "of the gradient") -> tuple[Row, Row]:
    return (
        Row(f"Pieces {what} go round, each node adds its own: n − 1 times S/n.", arrows=_AROUND),
        Row("The sums go round: n − 1 times S/n again.", arrows=_AROUND),
    )


def _ring_of(title: str, *first: Row) -> Diagram:
    rows = (*(first or (_OWN_GRADIENT, _SLOWEST)), *_around(), _SAME_UPDATE)
    return Diagram(title, _WORKERS, rows)


_STAR = Diagram(
    "A step with a star",
    (Lane("Worker 0", "weights, driver"), *_WORKERS[1:]),
    (
        _OWN_GRADIENT,
        _SLOWEST,
        Row("All send their gradient to the driver.", arrows=((1, 0), (2, 0))),
        Row(
            "The driver adds them up and sends the sum to each.",
            {0: "sum"},
            waits=(1, 2),
            arrows=((0, 1), (0, 2)),
        ),
        _SAME_UPDATE,
    ),
)
_MIRRORED = Diagram(
    "A step",
    tuple(Lane(f"Device {n}", "all weights") for n in range(3)),
    (
        _OWN_GRADIENT,
        _SLOWEST,
        Row(
            "Gradients are added up in memory; every device gets the sum.",
            arrows=((0, 1), (1, 0), (0, 2), (2, 0)),
        ),
        _SAME_UPDATE,
    ),
    groups=((0, 2, "one process"),),
)
_ASYNCHRONOUS = Diagram(
    "Some steps",
    (Lane("Server", "all weights"), *(Lane(f"Worker {n}", "a copy") for n in range(3))),
    (
        Row(
            "Every worker computes a gradient on the weights that it has.",
            dict.fromkeys((1, 2, 3), "gradient"),
        ),
        Row(
            "Worker 0 is done first and sends its gradient. The others go on computing.",
            {2: "gradient", 3: "gradient"},
            arrows=((1, 0),),
        ),
        Row(
            "The server updates, and answers with the weights as they are now.",
            {0: "update"},
            "apply",
            arrows=((0, 1),),
        ),
        Row(
            "Worker 2's gradient is of older weights: one update came between. Staleness 1.",
            {1: "gradient", 2: "gradient"},
            arrows=((3, 0),),
        ),
        Row("The server updates again, and answers.", {0: "update"}, "apply", arrows=((0, 3),)),
    ),
)
_COORDINATED = Diagram(
    "Some steps",
    (
        Lane("Server", "all weights"),
        Lane("Worker 0", "coordinates, too"),
        Lane("Worker 1", "a worker"),
    ),
    (
        Row("The coordinator gives every worker a step to do.", arrows=((1, 2),)),
        Row("Each reads the weights from the server.", arrows=((0, 1), (0, 2))),
        Row("Each computes a gradient.", {1: "gradient", 2: "gradient"}),
        Row(
            "Each sends its gradient when it is ready, independently of the others.",
            {1: "gradient"},
            arrows=((2, 0),),
        ),
        Row("The server applies it at once.", {0: "update"}, "apply"),
        Row(
            "The coordinator is told, and gives another step.",
            {1: "gradient"},
            arrows=((2, 1), (1, 2)),
        ),
    ),
)
_AVERAGING = Diagram(
    "A period",
    _WORKERS,
    (
        Row(
            "Each trains alone on its own examples: τ steps, τ updates.",
            dict.fromkeys(_ALL, "τ steps"),
        ),
        Row("Workers that finish early wait for the slowest.", {2: "τ steps"}, waits=(0, 1)),
        *_around("of the weights"),
        Row("Each continues from the mean.", dict.fromkeys(_ALL, "mean"), "apply"),
    ),
)
_COMPRESSED = Diagram(
    "A step",
    _WORKERS,
    (
        _OWN_GRADIENT,
        Row(
            "Each adds what it left out before (error feedback), and encodes the sum.",
            dict.fromkeys(_ALL, "encode"),
        ),
        Row("Each sends its message of M bytes to all the others.", arrows=_PAIRS),
        Row(
            "Each decodes all messages and makes the same update.",
            dict.fromkeys(_ALL, "decode, update"),
            "apply",
        ),
    ),
)
_STAGES = tuple(Lane(f"Node {n}", f"stage {n + 1} of 3") for n in range(3))
_OWN_UPDATE = Row("Each updates its own stage.", dict.fromkeys(_ALL, "update"), "apply")
_NAIVE = Diagram(
    "A step, one micro-batch",
    _STAGES,
    (
        Row(
            "The whole global batch passes through stage 1.",
            {0: "forward"},
            waits=(1, 2),
            arrows=((0, 1),),
        ),
        Row("Its activations pass on.", {1: "forward"}, waits=(0, 2), arrows=((1, 2),)),
        Row(
            "The last stage has the loss, and sends a gradient back.",
            {2: "loss, backward"},
            waits=(0, 1),
            arrows=((2, 1),),
        ),
        Row("So does the one before it.", {1: "backward"}, waits=(0, 2), arrows=((1, 0),)),
        Row("The first stage ends the backward pass.", {0: "backward"}, waits=(1, 2)),
        _OWN_UPDATE,
    ),
)
_PIPELINED = Diagram(
    "A step, two micro-batches",
    _STAGES,
    (
        Row("Micro-batch a enters.", {0: "a forward"}, waits=(1, 2), arrows=((0, 1),)),
        Row(
            "Micro-batch b follows at once.",
            {0: "b forward", 1: "a forward"},
            waits=(2,),
            arrows=((0, 1), (1, 2)),
        ),
        Row(
            "The pipeline is as full as it gets.",
            {1: "b forward", 2: "a forward"},
            waits=(0,),
            arrows=((1, 2),),
        ),
        Row("All forward passes come first.", {2: "b forward"}, waits=(0, 1)),
        Row("Then back, the last one first.", {2: "b backward"}, waits=(0, 1), arrows=((2, 1),)),
        Row(
            "Gradients of both are added up.",
            {1: "b backward", 2: "a backward"},
            waits=(0,),
            arrows=((2, 1), (1, 0)),
        ),
        Row(
            "The pipeline runs empty.",
            {0: "b backward", 1: "a backward"},
            waits=(2,),
            arrows=((1, 0),),
        ),
        Row("One stage is left.", {0: "a backward"}, waits=(1, 2)),
        _OWN_UPDATE,
    ),
)
_SPLIT_LAYERS = Diagram(
    "A step, one pair of dense layers",
    tuple(Lane(f"Node {n}", "a part of pairs") for n in range(3)),
    (
        Row(
            "All compute the layers that are not split, for the whole global batch.",
            dict.fromkeys(_ALL, "forward"),
        ),
        Row(
            "Of a pair, each computes its units of the first layer and its part of the second.",
            dict.fromkeys(_ALL, "forward, a part"),
        ),
        Row("The partial outputs of the second layer are summed.", arrows=_AROUND),
        Row("Backward in the same way.", dict.fromkeys(_ALL, "backward, a part")),
        Row("The gradients of the pair's inputs are summed.", arrows=_AROUND),
        Row(
            "Each updates its own parts; the other layers are updated by all alike.",
            dict.fromkeys(_ALL, "update"),
            "apply",
        ),
    ),
)
_SPLIT_DENSE = Diagram(
    "A step, one large dense layer",
    tuple(Lane(f"Worker {n}", "its columns") for n in range(3)),
    (
        Row(
            "Each computes the convolutions for its own examples.",
            dict.fromkeys(_ALL, "forward"),
        ),
        Row("All-to-all: each sends every other worker the inputs of its columns.", arrows=_PAIRS),
        Row(
            "Each computes its columns of the dense layer, for all examples.",
            dict.fromkeys(_ALL, "forward, a part"),
        ),
        Row(
            "Partial outputs return to the examples' own worker, and are summed there.",
            arrows=_PAIRS,
        ),
        Row(
            "Backward in the same way, up to the convolutions.",
            dict.fromkeys(_ALL, "backward"),
            arrows=_PAIRS,
        ),
        Row("The gradients of the layers that are not split are summed.", arrows=_PAIRS),
        Row(
            "Each updates its own columns; the other layers are updated by all alike.",
            dict.fromkeys(_ALL, "update"),
            "apply",
        ),
    ),
)
_PIPELINES = Diagram(
    "A step, two groups",
    tuple(Lane(f"Node {n}", f"stage {n % 2 + 1} of 2") for n in range(4)),
    (
        Row(
            "Each group takes its part of the global batch: forward through stage 1.",
            {0: "forward", 2: "forward"},
            waits=(1, 3),
            arrows=((0, 1), (2, 3)),
        ),
        Row(
            "The last stages have the loss, and send gradients back.",
            {1: "loss, back", 3: "loss, back"},
            waits=(0, 2),
            arrows=((1, 0), (3, 2)),
        ),
        Row("The first stages end the backward pass.", {0: "backward", 2: "backward"}),
        Row(
            "Equal stages of all groups sum their gradients.",
            arrows=((0, 2), (2, 0), (1, 3), (3, 1)),
        ),
        Row("Each updates its own stage.", dict.fromkeys(range(4), "update"), "apply"),
    ),
    groups=((0, 1, "group 0"), (2, 3, "group 1")),
)

PICTURES = {
    "async_sgd": (_ASYNCHRONOUS,),
    "compressed_sgd": (_COMPRESSED,),
    "custom_loop": (_ring_of("A step"),),
    "horovod": (
        _ring_of(
            "A step",
            _OWN_GRADIENT,
            Row(
                "Threads of Horovod ask worker 0 which gradients are ready on all workers.",
                waits=(0, 1),
                boxes={2: "gradient"},
                arrows=((0, 1), (1, 0), (0, 2), (2, 0)),
            ),
        ),
    ),
    "hybrid": (_PIPELINES,),
    "mirrored": (_MIRRORED,),
    "model_parallel": (_NAIVE, _PIPELINED),
    "mpi": (_ring_of("A step"),),
    "multi_worker_mirrored": (_ring_of("A step with a ring"), _STAR),
    "parameter_averaging": (_AVERAGING,),
    "parameter_server": (_COORDINATED,),
    "single": (
        Diagram(
            "A step",
            (Lane("Worker", "all weights"),),
            (
                Row("It computes the gradient of its batch.", {0: "gradient"}),
                Row("It updates the weights.", {0: "update"}, "apply"),
            ),
        ),
    ),
    "split_dense": (_SPLIT_DENSE,),
    "tensor_parallel": (_SPLIT_LAYERS,),
}
