"""The reason of a failure is one line that says what is wrong, also where TensorFlow's does not."""

import pytest
import tensorflow as tf

from nodewise.cluster.worker import reason_of
from nodewise.core.errors import UserError


@tf.function(autograph=False)
def gathered(places):
    return tf.gather(tf.zeros([5]), places, name="looked_up")


def test_an_error_in_a_graph_says_what_is_wrong_and_where():
    with pytest.raises(tf.errors.InvalidArgumentError) as found:
        gathered(tf.constant([1, 6]))
    assert "Detected at node" in str(found.value)
    assert reason_of(found.value) == (
        "InvalidArgumentError: indices[1] = 6 is not in [0, 5) (at looked_up)"
    )


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("no such layer\nmore of it"), "ValueError: no such layer"),
        (UserError("what, where"), "what, where"),
        (RuntimeError(""), "RuntimeError: "),
        (RuntimeError("Graph execution error:\n\n  it broke"), "RuntimeError: it broke"),
        (RuntimeError("2 root error(s) found.\n  it broke"), "RuntimeError: it broke"),
    ],
)
def test_other_errors_say_their_first_line(error, reason):
    assert reason_of(error) == reason
