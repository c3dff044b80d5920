"""One worker of PyTorch's DistributedDataParallel, run by PyTorch's own interpreter.

Needs only torch and NumPy. Its only argument is JSON with the fields of `ddp.Job` and the worker's
place in the job. It talks to its launcher like the project's own workers: JSON messages over a
connection of `multiprocessing`.

The models are those of `models/`, but with channels first, as PyTorch prefers. A dense layer after
a convolution therefore gets its inputs in another order, and given weights are reordered.
"""

# torch is in an environment of its own
# mypy: disable-error-code="import-not-found"

import hashlib
import json
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STUCK_PEER_S = 60
ADAM_EPSILON = 1e-7  # Keras' default
FIRST_STEPS = 2


class Scale(nn.Module):  # type: ignore[misc]
    """Scales grey images, uint8, (batch, height, width, 1), to 0–1, (batch, 1, height, width)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the images in the form that the first convolution takes."""
        return x.reshape(len(x), 1, *x.shape[1:3]).float().div_(255)


def fashion_cnn(dropout: bool) -> tuple[nn.Module, tuple[int, int, int]]:
    """Return the network, and the shape that it flattens."""
    network = nn.Sequential(
        Scale(),
        nn.Conv2d(1, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 14 * 14, 100),
        nn.ReLU(),
        nn.Linear(100, 10),
    )
    return network, (64, 14, 14)


def mnist_cnn(dropout: bool) -> tuple[nn.Module, tuple[int, int, int]]:
    """Return the network, and the shape that it flattens."""
    network = nn.Sequential(
        Scale(),
        nn.Conv2d(1, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.25 if dropout else 0),
        nn.Flatten(),
        nn.Linear(64 * 12 * 12, 128),
        nn.ReLU(),
        nn.Dropout(0.5 if dropout else 0),
        nn.Linear(128, 10),
    )
    return network, (64, 12, 12)


# `fused` runs one kernel for all weights. PyTorch offers it on CPUs, too, and it is the fastest.
MODELS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "fashion_cnn": (fashion_cnn, lambda w: torch.optim.SGD(w, 0.01, momentum=0.9, fused=True)),
    "mnist_cnn": (mnist_cnn, lambda w: torch.optim.Adam(w, 0.001, fused=True)),
}


class Channel:
    """The connection to the launcher."""

    def __init__(self, descriptor: int) -> None:
        self._connection = Connection(descriptor)

    def send(self, message: dict[str, Any]) -> None:
        """Send a message to the launcher."""
        self._connection.send_bytes(json.dumps(message).encode())

    def meet(self, name: str) -> bool:
        """Wait until all workers have come to a meeting; return whether to repeat a block."""
        self.send({"meet": name})
        return bool(json.loads(self._connection.recv_bytes())["again"])


class Training:
    """The model of one worker, and its training steps."""

    def __init__(self, told: dict[str, Any]) -> None:
        torch.set_num_threads(1)
        torch.set_num_interop_threads(1)
        torch.manual_seed(told["seed"])
        self._batch = told["batch"]
        build, optimizer = MODELS[told["model"]]
        network, flattened = build(dropout=told["weights"] is None)
        if told["weights"] is not None:
            load(network, told["weights"], flattened)
        self.ddp = DistributedDataParallel(network, gradient_as_bucket_view=True)
        self.optimizer = optimizer(self.ddp.parameters())
        size = sum(parameter.numel() for parameter in network.parameters())
        self.flat = torch.zeros(size)
        self._done = 0

    def step(self, x: torch.Tensor, y: torch.Tensor) -> float:
        """Train one step on this worker's part of the batch; return the mean loss over it."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(self.ddp(x), y)  # gradients are averaged over workers
        loss.backward()
        self._done += 1
        for group in self.optimizer.param_groups:
            if "betas" in group:  # Keras adds epsilon before the bias correction, PyTorch after it
                group["eps"] = ADAM_EPSILON / (1 - group["betas"][1] ** self._done) ** 0.5
        self.optimizer.step()
        return float(loss.item())

    def all_reduce_s(self) -> float:
        """Return the seconds of summing a buffer as large as the gradient, after a barrier."""
        barrier()
        started = time.perf_counter()
        dist.all_reduce(self.flat)
        return time.perf_counter() - started

    def weights_sha256(self) -> str:
        """Return a digest that is the same on all workers whose weights are equal."""
        weights = [weight.detach().numpy().tobytes() for weight in self.ddp.parameters()]
        return hashlib.sha256(b"".join(weights)).hexdigest()


def barrier() -> None:
    dist.all_reduce(torch.zeros(1))


def load(network: nn.Module, path: str, flattened: tuple[int, int, int]) -> None:
    """Set the weights to those that Keras saved: kernel and bias of each layer in turn."""
    channels, height, width = flattened
    with np.load(path) as saved:
        arrays = iter([saved[f"arr_{number}"] for number in range(len(saved.files))])
    behind_convolution = False
    for layer in network:
        if isinstance(layer, nn.Conv2d):
            kernel = next(arrays).transpose(3, 2, 0, 1)  # from height, width, in, out
            behind_convolution = True
        elif isinstance(layer, nn.Linear):
            kernel = next(arrays)
            if behind_convolution:
                kernel = kernel.reshape(height, width, channels, -1).transpose(2, 0, 1, 3)
                kernel = kernel.reshape(channels * height * width, -1)
                behind_convolution = False
            kernel = kernel.T
        else:
            continue
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(np.ascontiguousarray(kernel)))
            layer.bias.copy_(torch.from_numpy(next(arrays)))


def batches(told: dict[str, Any]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield this worker's batches endlessly, in a random order of its own."""
    folder, rank, size, batch = told["dataset"], told["rank"], told["size"], told["batch"]
    mine = slice(rank, None, size)
    x = torch.from_numpy(np.load(f"{folder}/train_0.npy", mmap_mode="r")[mine].copy())
    y = torch.from_numpy(np.load(f"{folder}/train_1.npy", mmap_mode="r")[mine].astype(np.int64))
    while True:
        order = torch.randperm(len(y))
        for rows in order[: len(y) // batch * batch].split(batch):
            yield x[rows], y[rows]


def timed(told: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Train as the project's own cells do; return seconds and bytes of the last block."""
    training, stream = Training(told), batches(told)
    for _ in range(FIRST_STEPS):
        training.step(*next(stream))
    channel.send({"replica": training.weights_sha256()})
    again = True
    while again:
        channel.meet("warm")
        for _ in range(told["warmup_steps"]):
            training.step(*next(stream))
        barrier()
        started = time.perf_counter()
        for _ in range(told["steps"]):
            training.step(*next(stream))
        elapsed = time.perf_counter() - started
        reduces = [training.all_reduce_s() for _ in range(told["split_steps"] + 1)][1:]
        again = channel.meet("timed")
    return {
        "elapsed_s": elapsed,
        "all_reduce_s": statistics.median(reduces) if reduces else None,
        "payload_bytes": 4 * training.flat.numel(),
    }


def checked(told: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Train on given batches; return this worker's part of the loss of each step."""
    training = Training(told)
    with np.load(told["examples"]) as examples:
        x, y = torch.from_numpy(examples["x"]), torch.from_numpy(examples["y"].astype(np.int64))
    mine = slice(told["rank"] * told["batch"], (told["rank"] + 1) * told["batch"])
    losses = [training.step(a[mine], b[mine]) / told["size"] for a, b in zip(x, y, strict=True)]
    return {"losses": losses}


def main() -> None:
    """Run the worker that the argument describes."""
    told = json.loads(sys.argv[1])
    channel = Channel(told["line"])
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://{told['meeting_place']}",
        rank=told["rank"],
        world_size=told["size"],
        timeout=timedelta(seconds=STUCK_PEER_S),
    )
    work = checked if told["examples"] else timed
    channel.send({"result": work(told, channel) | {"torch": torch.__version__}})
    signal.pause()  # exiting would break the other workers' connections; the launcher ends this one


if __name__ == "__main__":
    main()
