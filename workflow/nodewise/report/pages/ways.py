"""What is told of each strategy apart from its text: who waits and holds what, bytes, pictures.

One entry for each of `nodewise.STRATEGIES`; its text is the template of its name in
`site/templates/strategies`.
"""

from dataclasses import dataclass

from nodewise.report.diagrams import Diagram, Lane, Row
from nodewise.report.pages import sent_bytes


@dataclass(frozen=True)
class Way:
    """A strategy in short.

    Attributes:
        synchronous: whether its workers wait for each other.
        holds: who holds the parameters.
        sends: the formula of `sent` in writing.
        needs: what it takes.
        sent: bytes per node and step.
        pictures: one for each form that it has.
        unknown: what of its formula a cell does not tell.
    """

    synchronous: str
    holds: str
    sends: str
    needs: str
    sent: sent_bytes.Sent
    pictures: tuple[Diagram, ...]
    unknown: str = ""


_UNKNOWN_CUTS = (
    "The formula needs A, the size of the activations at the cuts, which records do not hold."
)
_RING_BYTES = "2(n − 1)/n · S"
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

WAYS = {
    "async_sgd": Way(
        "no, unless staleness is bounded",
        "one or more servers",
        "S; a server n · S/p",
        "extra nodes as servers",
        sent_bytes.gradient,
        (_ASYNCHRONOUS,),
    ),
    "compressed_sgd": Way(
        "yes",
        "every worker",
        "(n − 1) · M",
        "a connection between any two nodes",
        sent_bytes.compressed,
        (_COMPRESSED,),
        "The formula needs M, the size of a message. With a threshold or the largest entries it "
        "depends on the gradients.",
    ),
    "custom_loop": Way(
        "yes", "every worker", _RING_BYTES, "nothing else", sent_bytes.ring, (_ring_of("A step"),)
    ),
    "horovod": Way(
        "yes",
        "every worker",
        _RING_BYTES,
        "Horovod, built from its source",
        sent_bytes.ring,
        (
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
    ),
    "hybrid": Way(
        "yes",
        "one stage on each node; a whole model per group",
        "2(p − 1)/p · A/g + 2(g − 1)/g · S/p",
        "a model that can be cut; a node count divisible by the number of groups",
        sent_bytes.unknown,
        (_PIPELINES,),
        _UNKNOWN_CUTS,
    ),
    "mirrored": Way(
        "yes",
        "every device",
        "0: one process",
        "one machine; GPUs, or its cores as devices",
        sent_bytes.nothing,
        (_MIRRORED,),
    ),
    "model_parallel": Way(
        "yes",
        "one stage on each node",
        "2(n − 1)/n · A",
        "a model that can be cut where a single tensor passes",
        sent_bytes.unknown,
        (_NAIVE, _PIPELINED),
        _UNKNOWN_CUTS,
    ),
    "mpi": Way("yes", "every worker", _RING_BYTES, "MPICH", sent_bytes.ring, (_ring_of("A step"),)),
    "multi_worker_mirrored": Way(
        "yes",
        "every worker",
        _RING_BYTES,
        "nothing else",
        sent_bytes.ring,
        (_ring_of("A step with a ring"), _STAR),
    ),
    "parameter_averaging": Way(
        "once in τ steps",
        "every worker",
        "2(n − 1)/n · S/τ",
        "nothing else",
        sent_bytes.averaged,
        (_AVERAGING,),
    ),
    "parameter_server": Way(
        "no",
        "one or more servers",
        "S; a server n · S/p",
        "extra nodes as servers",
        sent_bytes.gradient,
        (_COORDINATED,),
    ),
    "single": Way(
        "one worker, which waits for nobody",
        "the worker",
        "0",
        "nothing",
        sent_bytes.nothing,
        (
            Diagram(
                "A step",
                (Lane("Worker", "all weights"),),
                (
                    Row("It computes the gradient of its batch.", {0: "gradient"}),
                    Row("It updates the weights.", {0: "update"}, "apply"),
                ),
            ),
        ),
    ),
    "split_dense": Way(
        "yes, at every split layer",
        "its columns of split layers on each worker; the other layers on every worker",
        "2(n − 1)/n · (a + S), S without split layers",
        "a dense layer with more outputs than a worker has examples",
        sent_bytes.split_dense,
        (_SPLIT_DENSE,),
    ),
    "tensor_parallel": Way(
        "yes, at every split pair",
        "a part of split layers on each node; the other layers on every node",
        "2(n − 1)/n · a, x times",
        "dense layers, two in a row",
        sent_bytes.tensor_parallel,
        (_SPLIT_LAYERS,),
    ),
}
