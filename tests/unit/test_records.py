"""A record says the truth about one cell, or it is not a record."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from nodewise.errors import UserError
from nodewise.records import Record, Split, read_record, record_json

NOW = "2026-11-20T12:00:00Z"
TREE = {
    "schema_version": 4,
    "cell": {
        "study": "ntua",
        "experiment": "steps",
        "model": "fashion_cnn",
        "dataset": "fashion_mnist",
        "strategy": "single",
        "cluster": {"kind": "local"},
        "batch": 64,
        "nodes": 1,
        "repeat": 0,
        "extent": {"warmup_steps": 1, "steps": 2, "epochs": None, "split_steps": 1},
        "seed": 1,
        "time_limit_s": 60,
    },
    "kind": "measured",
    "status": "ok",
    "started_at": NOW,
    "finished_at": NOW,
    "data": {
        "dataset": "fashion_mnist",
        "origin": "mirror",
        "sha256": "0" * 64,
        "train_examples": 60000,
        "test_examples": 10000,
    },
    "provenance": {
        "commit": None,
        "dirty": None,
        "config_sha256": None,
        "lock_sha256": None,
        "versions": {"python": "3.11.7"},
        "cpu": "a CPU",
        "cores": 2,
        "memory_bytes": 1,
        "kernel": "Linux 6",
        "network": "namespace with loopback only",
        "cpu_limit": "one core per node",
        "command": "snakemake",
    },
    "result": {
        "trainable_parameters": 1256150,
        "total_parameters": 1256150,
        "payload_bytes": 5024600,
        "steps_per_epoch": 937,
        "whole_epochs": False,
        "start_up": {"imported_s": 1, "workers_ready_s": 2, "first_timed_step_s": 3},
        "workers": [
            {
                "rank": 0,
                "shard_examples": 60000,
                "step_us": [10, 11],
                "input_us": [1, 0],
                "elapsed_s": 0.000021,
                "cpu_s": 0.00002,
                "bytes_sent": 0,
                "bytes_received": 0,
                "bytes_retransmitted": 0,
                "split": {
                    "compute_us": [9],
                    "wait_us": [0],
                    "communicate_us": [0],
                    "apply_us": [1],
                    "idle_barrier_us": 0,
                },
            }
        ],
        "epochs": [{"epoch": 1, "steps": 2, "seconds": 0.000021, "loss": 2.3, "accuracy": 0.1}],
        "test": {"examples": 10000, "loss": 2.3, "accuracy": 0.1},
        "oversubscribed": False,
        "energy_j": None,
        "others_cpu_s": 0.0,
        "conditions": {
            "window_s": 1.5,
            "reference_before_us": 5500,
            "reference_after_us": 5510,
            "stolen_s": 0.0,
            "foreign_cpu_s": 0.1,
            "nodes": [],
            "outside": [],
        },
        "discarded": [],
    },
    "failure": None,
}
FAILURE = {"reason": "rank 1: killed by SIGKILL", "rank": 1, "log_tail": ["<script>", "last"]}


def test_a_record_survives_its_file(tmp_path):
    record = Record.model_validate_json(json.dumps(TREE))
    path = tmp_path / "record.json"
    path.write_text(record_json(record))
    assert read_record(path) == record
    assert len(path.read_text().splitlines()) == len(Record.model_fields) + 2


def with_changes(**changes):
    return json.dumps(TREE | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "failed"},
        {"failure": FAILURE},
        {"result": None},
        {"status": "failed", "result": None},
        {"status": "refused", "result": TREE["result"], "failure": FAILURE},
        {"data": None},
        {"kind": "guessed"},
        {"schema_version": 3},
        {"extra": 1},
        {"cell": TREE["cell"] | {"nodes": 2}},
        {"result": TREE["result"] | {"test": {"examples": 1, "loss": 1.0, "accuracy": 1.1}}},
    ],
)
def test_a_contradiction_is_no_record(changes):
    with pytest.raises(ValidationError):
        Record.model_validate_json(with_changes(**changes))


def test_a_failed_cell_is_a_record_too():
    text = with_changes(status="failed", result=None, failure=FAILURE)
    assert Record.model_validate_json(text).failure.rank == 1


@given(st.lists(st.integers(0, 5), min_size=5, max_size=5))
def test_the_parts_of_a_split_are_equally_long(lengths):
    names = ("compute_us", "wait_us", "communicate_us", "apply_us", "step_us")
    parts = {name: [1] * length for name, length in zip(names, lengths, strict=True)}
    if len({*lengths[:4], lengths[4] or lengths[0]}) == 1 and lengths[0] > 0:
        Split(**parts, idle_barrier_us=0)
    else:
        with pytest.raises(ValidationError):
            Split(**parts, idle_barrier_us=0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "Invalid JSON"),
        (json.dumps(TREE)[:-10], "Invalid JSON"),
        (with_changes(cell=TREE["cell"] | {"batch": "64"}), "cell.batch: "),
        (with_changes(result=TREE["result"] | {"payload_bytes": -1}), "result.payload_bytes: "),
        ("[]", "the file: "),
    ],
)
def test_a_misfit_is_one_line_with_file_and_place(tmp_path, text, said):
    path = tmp_path / "record.json"
    path.write_text(text)
    with pytest.raises(UserError) as raised:
        read_record(path)
    assert str(raised.value).startswith(str(path))
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_record_is_said(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        read_record(tmp_path / "none.json")
