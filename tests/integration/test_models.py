"""The models are those of the studies: their parameters are counted."""

import json
import subprocess
import sys

from nodewise.models import registry

COUNT = """
import json, math
from nodewise import models
counts = {}
for name in models.registry():
    module = models.load(name)
    model = module.build()
    trainable = sum(math.prod(variable.shape) for variable in model.trainable_variables)
    optimizer = type(module.optimizer()).__name__
    counts[name] = [trainable, model.count_params(), optimizer, list(model.output_shape)]
print(json.dumps(counts))
"""


def test_parameter_counts_are_those_of_the_registry():
    done = subprocess.run(
        [sys.executable, "-c", COUNT], capture_output=True, text=True, check=True, timeout=120
    )
    counts = json.loads(done.stdout)
    assert {name: tuple(count[:2]) for name, count in counts.items()} == {
        name: (entry.trainable, entry.total) for name, entry in registry().items()
    }
    assert counts["fashion_cnn"] == [1_256_150, 1_256_150, "SGD", [None, 10]]
    assert counts["fashion_mlp"] == [101_770, 101_770, "Adam", [None, 10]]
