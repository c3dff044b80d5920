"""Find the rate of training among the names of what a tool logged."""

import re
from collections.abc import Iterable
from pathlib import Path

from nodewise.core.errors import UserError
from nodewise.results.curves import Clock

_STEPS = re.compile(r"(^|[\W_])(steps_per_sec(ond)?|global_step/sec|batches_per_sec(ond)?)$")
_EXAMPLES = re.compile(r"(^|[\W_])(examples|samples|images)(_per_|/)sec(ond)?$")
_OTHER = re.compile(r"eval|evaluate|evaluation|infer.*|pred.*|sanity|test|testing|val|valid.*")


def find_training_rate(path: Path, names: Iterable[str]) -> tuple[str, Clock]:
    """Return the name of the rate of training over all devices, and its clock.

    Examples per second are preferred to steps per second.

    Args:
        path: the file, for messages.
        names: such as `train/samples_per_sec`.

    Raises:
        UserError: there is no such rate, or more than one.
    """
    names = sorted(names)
    training = [name for name in names if not any(map(_OTHER.fullmatch, _words(name)))]
    steps = [name for name in training if _STEPS.search(name)]
    found: dict[Clock, list[str]] = {
        "samples_per_s": [
            name for name in training if _EXAMPLES.search(name) and not _of_one_device(name)
        ],
        # All devices make a step together. Lightning's global rate counts the batch of each.
        "steps_per_s": [name for name in steps if _of_one_device(name)] or steps,
    }
    for clock, of_clock in found.items():
        # Keras' rate of an epoch includes its validation; that of a batch does not.
        rates = [name for name in of_clock if "epoch" not in _words(name)] or of_clock
        if len(rates) > 1:
            raise UserError(
                f"{path}: {' and '.join(rates)} may each be the rate of training; put the right "
                "one in a table such as data/templates/measurements.csv"
            )
        if rates:
            return rates[0], clock
    raise UserError(
        f"{path}: has no rate of training, such as Keras' epoch_steps_per_second or those of "
        f"Lightning's ThroughputMonitor; it has {', '.join(names[:10]) or 'no values'}"
    )


def rate_note(name: str) -> str:
    """Return a note that names the rate that was taken."""
    also = ", which includes any validation" if "epoch" in _words(name) else ""
    return f"the rate of training is {name}{also}"


def _words(name: str) -> set[str]:
    return set(re.split(r"[\W_]+", name.lower()))


def _of_one_device(name: str) -> bool:
    return bool(_words(name) & {"device", "gpu"})
