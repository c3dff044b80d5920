"""A record is a consistent description of one cell; anything else is refused."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import make_records as make
from mistakes import user_error
from nodewise.core.errors import UserError
from nodewise.results.calibration import read_calibration
from nodewise.results.record import Record, read_record, record_json

TREE = json.loads(record_json(make.record(make.cell(n=1))))
FAILURE = {"reason": "rank 1: killed by SIGKILL", "rank": 1, "log_tail": ["<script>", "last"]}


def test_a_record_survives_its_file(tmp_path):
    record = Record.model_validate_json(json.dumps(TREE))
    path = tmp_path / "record.json"
    path.write_text(record_json(record))
    assert read_record(path) == record
    assert len(path.read_text().splitlines()) == len(Record.model_fields) + 2


def with_changes(changes):
    """Return the text of a record with other values at places such as `result.workers[0].rank`."""
    tree = json.loads(json.dumps(TREE))
    for place, value in changes.items():
        *parents, last = re.findall(r"\w+", place)
        at = tree
        for key in parents:
            at = at[int(key) if key.isdigit() else key]
        at[last] = value
    return json.dumps(tree)


WORKER = "result.workers[0]"


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        # contradictions
        ({"status": "failed"}, "the file: "),
        ({"failure": FAILURE}, "the file: "),
        ({"result": None}, "the file: "),
        ({"status": "refused", "failure": FAILURE}, "the file: "),
        ({"data": None}, "the file: "),
        ({"cell.nodes": 2}, ""),
        ({f"{WORKER}.input_us": ["a"]}, f"{WORKER}.input_us: "),
        ({f"{WORKER}.rank": 1}, f"{WORKER}: "),
        ({f"{WORKER}.split.compute_us": [1, 2, 3]}, f"{WORKER}.split: "),
        ({"result.epochs[0].steps": 3}, f"{WORKER}: "),
        # wrong values
        ({"kind": "guessed"}, "kind: 'guessed' "),
        ({"schema_version": 3}, "schema_version: 3 "),
        ({"extra": 1}, "extra: "),
        ({"cell.batch": "64"}, "cell.batch: '64' "),
        ({"finished_at": "2026-11-20T12:00:00"}, "finished_at: '2026-11-20T12:00:00' "),
        ({"result.epochs[0].accuracy": 1.5}, "result.epochs[0].accuracy: 1.5 "),
        ({f"{WORKER}.step_us": [10, 10**15]}, f"{WORKER}.step_us[1]: {10**15} "),
    ],
)
def test_impossible_content_is_refused_with_field_and_value(tmp_path, changes, refused):
    path = tmp_path / "record.json"
    path.write_text(with_changes(changes))
    assert user_error(read_record, path).startswith(f"{path}: {refused}")


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "1e999"])
@pytest.mark.parametrize(
    "place", [f"{WORKER}.elapsed_s", "result.epochs[0].loss", "cell.time_limit_s"]
)
def test_numbers_that_are_not_finite_are_refused(tmp_path, number, place):
    path = tmp_path / "record.json"
    path.write_text(with_changes({place: 123454321}).replace("123454321", number))
    assert user_error(read_record, path).startswith(f"{path}: {place}: ")


@pytest.mark.parametrize("field", ["cpu_s", "wall_s", "seconds"])
def test_a_calibration_of_zeros_is_refused(tmp_path, field):
    (measured, *_) = sorted(Path("data/records").rglob("calibration.json"))
    path = tmp_path / "calibration.json"
    path.write_text(re.sub(rf'("{field}": ?)[\d.e-]+', r"\g<1>0.0", measured.read_text()))
    said = user_error(read_calibration, path)
    assert f".{field}: 0.0 is not allowed, must be more than 0" in said


def test_a_failed_cell_is_a_record_too_whose_reason_is_one_line_without_control_characters():
    failure = FAILURE | {"reason": "lost\n\x1b[31mpeer\u202e"}
    text = with_changes({"status": "failed", "result": None, "failure": failure})
    assert Record.model_validate_json(text).failure.reason == "lost\\n\\x1b[31mpeer\\u202e"


@given(st.binary(max_size=40), st.integers(0, len(json.dumps(TREE))))
@settings(max_examples=100, deadline=None)
def test_a_damaged_record_is_refused_in_one_line_or_still_a_record(tmp_path_factory, noise, place):
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    text = json.dumps(TREE).encode()
    path.write_bytes(text[:place] + noise + text[place + len(noise) :])
    try:
        assert isinstance(read_record(path), Record)
    except UserError as error:
        assert "\n" not in str(error)
