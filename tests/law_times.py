"""Step times by a law, for tests that need no parts of them."""

from nodewise.predict.points import Points


def step_s(law, values, nodes, batch, payload):
    """Return step times in seconds, in the broadcast shape of the arguments."""
    return law.seconds(values, Points.of(nodes, batch, payload))["step"]
