"""Operations of each kind of layer, and the schema of a model's description."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import make_architectures as make
from nodewise.core.errors import UserError
from nodewise.core.schema import json_text
from nodewise.models import flops
from nodewise.models.facts import read_facts, read_own, refuse_own
from nodewise.models.flops import Part, forward_flops, training_flops

CONVOLUTION = {
    "kernel_size": (3, 3),
    "groups": 1,
    "use_bias": False,
    "activation": "linear",
    "data_format": "channels_last",
}
ATTENTION = {"num_heads": 2, "key_dim": 4, "value_dim": None, "use_bias": False}


def forward(kind, config, inputs, output):
    return forward_flops(flops.parts_of(kind, config, inputs, output))


# --- forward ---


def test_a_convolution_is_two_operations_per_weight_and_position():
    plain = forward("Conv2D", CONVOLUTION, [(8, 8, 3)], (8, 8, 16))
    assert plain == 2 * (3 * 3 * 3 * 16) * 8 * 8
    biased = CONVOLUTION | {"use_bias": True, "activation": "relu"}
    assert forward("Conv2D", biased, [(8, 8, 3)], (8, 8, 16)) == plain + 2 * 8 * 8 * 16
    grouped = CONVOLUTION | {"groups": 3}
    assert 3 * forward("Conv2D", grouped, [(8, 8, 3)], (8, 8, 16)) == plain


def test_a_convolution_with_channels_first_is_refused_not_miscounted():
    with pytest.raises(ValueError, match="channels_last"):
        forward("Conv2D", CONVOLUTION | {"data_format": "channels_first"}, [(3, 8, 8)], (16, 8, 8))


@given(st.integers(1, 50), st.integers(1, 50), st.lists(st.integers(1, 9), max_size=2))
def test_a_dense_layer_works_at_every_position(width, units, positions):
    config = {"use_bias": False, "activation": "linear"}
    counted = forward("Dense", config, [(*positions, width)], (*positions, units))
    assert counted == 2 * width * units * math.prod(positions)


def test_attention_is_its_projections_and_its_pairs():
    positions, width, heads, size = 6, 8, 2, 4
    projections = 4 * 2 * positions * width * heads * size
    pairs = 2 * 2 * positions**2 * heads * size
    softmax, scaling = 5 * heads * positions**2, positions * heads * size
    shape = (positions, width)
    counted = forward("MultiHeadAttention", ATTENTION, [shape, shape], shape)
    assert counted == projections + pairs + softmax + scaling


@given(st.integers(1, 20), st.integers(1, 20))
def test_attention_grows_with_queries_times_values(queries, values):
    def of(q, v):
        return forward("MultiHeadAttention", ATTENTION, [(q, 8), (v, 8)], (q, 8))

    each_pair = 4 * 8 + 5 * 2
    assert (
        of(queries + 1, values + 1)
        - of(queries + 1, values)
        - of(queries, values + 1)
        + of(queries, values)
        == each_pair
    )


def test_attention_over_more_than_one_axis_is_refused_not_miscounted():
    with pytest.raises(ValueError, match="one axis"):
        forward("MultiHeadAttention", ATTENTION, [(6, 6, 8), (6, 6, 8)], (6, 6, 8))


@pytest.mark.parametrize(
    ("kind", "config", "inputs", "output", "operations"),
    [
        ("MaxPooling2D", {"pool_size": (2, 2)}, [(4, 4, 3)], (2, 2, 3), 48),
        ("AveragePooling2D", {"pool_size": (3, 3)}, [(6, 6, 1)], (2, 2, 1), 36),
        ("GlobalAveragePooling2D", {}, [(4, 4, 3)], (3,), 48),
        ("GlobalMaxPooling2D", {}, [(4, 4, 3)], (3,), 48),
        ("Add", {}, [(5,), (5,), (5,)], (5,), 10),
        ("Multiply", {}, [(5,), (5,)], (5,), 5),
        ("ReLU", {}, [(7,)], (7,), 7),
        ("Activation", {"activation": "linear"}, [(7,)], (7,), 0),
        ("Activation", {"activation": "tanh"}, [(7,)], (7,), 7),
        ("Activation", {"activation": "softmax"}, [(7,)], (7,), 35),
        ("Rescaling", {}, [(4, 4, 1)], (4, 4, 1), 32),
        ("BatchNormalization", {}, [(4, 4, 2)], (4, 4, 2), 64),
        ("LayerNormalization", {}, [(3, 8)], (3, 8), 192),
        ("Embedding", {}, [(3,)], (3, 8), 0),
        ("Flatten", {}, [(4, 4, 1)], (16,), 0),
        ("Dropout", {}, [(16,)], (16,), 0),
    ],
)
def test_what_is_done_element_by_element_is_counted_so(kind, config, inputs, output, operations):
    assert forward(kind, config, inputs, output) == operations


def test_an_unknown_kind_is_never_counted_as_nothing():
    with pytest.raises(KeyError):
        forward("Wavelet", {}, [(4,)], (4,))


# --- training ---


@pytest.mark.parametrize(
    ("trained", "reached", "times"),
    [(False, False, 1), (True, False, 2), (False, True, 2), (True, True, 3)],
)
def test_training_takes_what_the_backward_pass_needs(trained, reached, times):
    part = [Part(100, weighted=True)]
    assert training_flops(part, trained=trained, reached=reached) == times * 100


def test_a_sum_hands_its_gradient_on():
    assert training_flops([Part(10, operands=0)], trained=False, reached=True) == 10


def test_inside_a_trained_layer_the_gradient_reaches_what_follows_its_first_weights():
    first, product, last = Part(10, True), Part(100, operands=2), Part(1000, True)
    counted = training_flops([first, product, last], trained=True, reached=False)
    assert counted == 2 * 10 + 3 * 100 + 3 * 1000
    frozen = training_flops([first, product, last], trained=False, reached=False)
    assert frozen == 1110


@given(
    st.lists(st.builds(Part, st.integers(0, 10**9), st.booleans(), st.integers(0, 3)), max_size=6),
    st.booleans(),
    st.booleans(),
)
def test_training_never_takes_less_than_a_forward_pass(parts, trained, reached):
    assert training_flops(parts, trained=trained, reached=reached) >= forward_flops(parts)


# --- the description ---


def test_a_description_reads_back_as_it_was(tmp_path):
    described = make.fashion_cnn()
    assert read_facts(make.write([described], tmp_path), "fashion_cnn") == described


def test_operations_per_byte_are_those_of_training_one_example():
    described = make.fashion_cnn()
    expected = described.training_flops_per_example / (4 * described.trainable)
    assert described.flops_per_payload_byte == pytest.approx(expected)


@pytest.mark.parametrize(
    "total",
    ["trainable", "total", "payload_bytes", "flops_per_example", "training_flops_per_example"],
)
def test_a_total_that_its_layers_do_not_add_up_to_is_refused(tmp_path, total):
    tree = json.loads(json_text(make.fashion_cnn()))
    (tmp_path / "fashion_cnn.json").write_text(json.dumps(tree | {total: tree[total] + 1}))
    with pytest.raises(UserError, match="add up"):
        read_facts(tmp_path, "fashion_cnn")


def test_a_layer_before_its_input_is_refused():
    layers = make.fashion_cnn().layers
    with pytest.raises(ValueError, match="comes before"):
        make.architecture("fashion_cnn", [layers[1], layers[0], *layers[2:]])


def test_a_refusal_is_no_description_and_a_damaged_file_is_one_line(tmp_path):
    path = tmp_path / "own.json"
    assert read_own(path) is None
    refuse_own(path, "mine.py:build: the model is not compiled")
    assert read_own(path) is None
    assert "is not compiled" in path.read_text()
    path.write_text("{}")
    with pytest.raises(UserError, match=r"own\.json: .*; remove the file to have the model des"):
        read_own(path)


def test_two_layers_of_one_name_are_refused():
    layers = make.fashion_cnn().layers
    with pytest.raises(ValueError, match="two layers are called"):
        make.architecture("fashion_cnn", [*layers, layers[-1]])


def test_a_missing_description_is_one_line_with_the_command_that_writes_it(tmp_path):
    with pytest.raises(UserError) as raised:
        read_facts(tmp_path, "fashion_cnn")
    path = tmp_path / "fashion_cnn.json"
    assert str(raised.value) == (
        f"{path}: the model fashion_cnn is not described; run: "
        f"nodewise describe-model fashion_cnn --out {path}"
    )
