"""Tables of curves as CSV: what is read, and where the message on a wrong file points."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mistakes import user_error
from nodewise.core.errors import UserError
from nodewise.predict.fit_curves import find_groups
from nodewise.results.curve_points import imported_points
from nodewise.results.curves import Measurements
from nodewise.results.importers import import_curves

HEADER = "curve,nodes,batch_per_worker,step_time_s"


def csv_of(*rows: str, header: str = HEADER) -> str:
    return "\n".join((header, *rows)) + "\n"


def read(tmp_path: Path, text: str | bytes) -> Measurements:
    path = tmp_path / "measurements.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return import_curves(path, "csv")


def refused(tmp_path: Path, text: str | bytes) -> str:
    """Return the message about an unreadable file after its path."""
    message, start = user_error(read, tmp_path, text), f"{tmp_path / 'measurements.csv'}: "
    assert message.startswith(start)
    return message.removeprefix(start)


@pytest.mark.parametrize(
    ("clock", "values"),
    [
        ("step_time_s", "0.5"),
        ("samples_per_s", "256"),
        ("steps_per_s", "2"),
        ("epoch_time_s,examples", "500,128000"),
        ("epoch_time_s,samples_per_s,step_time_s,examples", "9,40,0.5,100"),
        ("samples_per_s,step_time_s", "256,"),
        ("quantity,value,unit", "throughput,128,img/s/GPU"),
        ("quantity,value,unit", "run_time,500,ms"),
    ],
)
def test_every_clock_gives_the_time_of_a_step_and_the_first_counts(tmp_path, clock, values):
    header = HEADER.replace("step_time_s", clock)
    (curve,) = read(tmp_path, csv_of(f"a,2,64,{values}", header=header)).curves
    assert curve.measured[0].step_time_s == pytest.approx(0.5 if curve.in_seconds else 64)


def test_repeats_are_one_point_with_their_median_and_their_spread(tmp_path):
    rows = [f"a,1,64,{t},{r}" for r, t in enumerate((0.10, 0.30, 0.12))]
    curve = read(tmp_path, csv_of(*rows, "a,2,64,0.2,0", header=f"{HEADER},repeat")).curves[0]
    one, two = curve.measured
    assert (one.nodes, one.step_time_s, one.repeats) == (1, pytest.approx(0.12), 3)
    spread = np.std(np.log([0.10, 0.30, 0.12]), ddof=1)
    assert one.noise == pytest.approx(spread * np.sqrt(np.pi / (6 + np.pi - 2)))
    assert (two.repeats, two.noise) == (1, None)
    assert "repeats scatter by 39%: are they of several runs or settings?" in curve.notes


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + csv_of("a,1,64,0.5"),
        csv_of("a,1,64,0.5").replace(",", ";"),
        csv_of("a,1,64,0.5").replace(",", "\t"),
        csv_of("a,1,64,0.5").replace("\n", "\r\n"),
        csv_of("a,1,64,0.5").replace("\n", "\r"),
        "\n" + csv_of("", " a , 1.0 , 64 ,+5e-1", "", ",,,"),
        csv_of("a,1,64,.5,", header=f"{HEADER},"),
        'batch_per_worker,"step_time_s",nodes,curve\n64,0.5,1,"a"',
        csv_of("a,1,64,0.5", header="curve,n_devices,batch_per_device,step_time_s"),
    ],
)
def test_spreadsheets_write_in_many_ways(tmp_path, text):
    (curve,) = read(tmp_path, text).curves
    (point,) = curve.measured
    assert (curve.name, point.nodes, point.batch_per_worker, point.step_time_s) == ("a", 1, 64, 0.5)


def test_columns_that_are_not_used_do_not_change_values(tmp_path):
    header = f"{HEADER},samples_per_s_per_device,unit_value,gpu"
    found = read(tmp_path, csv_of("a,1,64,0.5,7,60,x", header=header))
    (curve,) = found.curves
    assert found.notes == ("columns not used: samples_per_s_per_device, unit_value, gpu",)
    assert (curve.measured[0].step_time_s, curve.unit_value) == (0.5, 1.0)
    rates = header.replace("step_time_s", "samples_per_s")
    (curve,) = read(tmp_path, csv_of("a,1,64,128,7,60,x", header=rates)).curves
    assert curve.measured[0].step_time_s == 0.5


@pytest.mark.parametrize(
    ("column", "written", "collective"),
    [
        ("collective", "Ring all-reduce", "ring"),
        ("collective", "halving-doubling", "halving_doubling"),
        ("collective", "Parameter server", "parameter_server"),
        ("algorithm", "PS", "parameter_server"),
    ],
)
def test_collectives_by_the_names_that_people_write(tmp_path, column, written, collective):
    found = read(tmp_path, csv_of(f"a,1,64,0.5,{written}", header=f"{HEADER},{column}"))
    assert found.curves[0].collective == collective


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (("5,x,ring", "5,x,ring", "5,x,star", "5,,"), [["a", "b"], ["c"], ["d"]]),
        (("5,x,", "5,x,"), [["a", "b"]]),
        (("5,x,", "5,x,star", "5,x,ring"), [["a", "c"], ["b"]]),
        ((",x,", "5,x,"), [["b"], ["a"]]),  # Without a payload nothing is shared.
    ],
)
def test_curves_share_a_link_only_if_they_say_so(tmp_path, rows, expected):
    lines = [f"{name},1,8,1,{row}" for name, row in zip("abcd", rows, strict=False)]
    header = f"{HEADER},payload_bytes,cluster,collective"
    found = read(tmp_path, csv_of(*lines, header=header))
    groups = [group.points() for group in find_groups(imported_points(found.curves))]
    assert sorted(points.model.tolist() for points in groups) == sorted(expected)
    assert all(set(points.link) == {"x"} for points in groups if len(points) > 1)


@pytest.mark.parametrize(
    ("row", "place"),
    [
        *((f"a,{nodes},64,0.5", "row 3, nodes: ") for nodes in ("0", "2.5", "two", "")),
        ("a,1,0,0.5", "row 3, batch_per_worker: "),
        *((f"a,1,64,{time}", "row 3, step_time_s: ") for time in ("0", "nan", "inf", '"0,5"')),
        ("a,1,64,", "row 3: has no time"),
        (",1,64,0.5", "row 3, curve: "),
        ("a,1,64", "row 3: has 3 values for 4 columns"),
        ("a,1,64,0.5,7", "row 3: has 5 values for 4 columns"),
        ('"a\nb",1,64,0.5', "row 4, curve: "),
        (f"{'a' * 300},1,64,0.5", "row 3, curve: "),
        ("a\x1b[31m,1,64,0.5", "row 3, curve: "),
    ],
)
def test_the_message_on_a_wrong_value_has_its_row_and_column(tmp_path, row, place):
    assert refused(tmp_path, csv_of("a,1,64,0.5", row)).startswith(place)


@pytest.mark.parametrize(
    ("column", "values", "place"),
    [
        ("payload_bytes", ("0",), "row 2, payload_bytes: "),
        ("payload_bytes", ("5", "6"), "row 3, column payload_bytes: must be the same"),
        ("collective", ("ring", "", "star"), "row 4, column collective: must be the same"),
        ("examples", ("1.5",), "row 2, examples: "),
    ],
)
def test_optional_columns_are_checked_as_well(tmp_path, column, values, place):
    rows = [f"a,{n},64,0.5,{value}" for n, value in enumerate(values, 1)]
    assert refused(tmp_path, csv_of(*rows, header=f"{HEADER},{column}")).startswith(place)


@pytest.mark.parametrize(
    ("header", "named"),
    [
        ("curve,nodes,batch_per_worker", "step_time_s"),
        ("name,gpus,batch,time", "nodes, batch_per_worker"),
        (HEADER.replace("_s", "_ms"), "'step_time_ms'"),
        (HEADER.replace("nodes", "node"), "'node' is not known; is it nodes?"),
        (HEADER.replace("curve", "Curve"), "'Curve' is not known; is it curve?"),
        (f"{HEADER},payload_byte", "'payload_byte' is not known; is it payload_bytes?"),
        (f"{HEADER},nodes", "'nodes' appears twice"),
        (f"{HEADER},devices", "nodes appears twice"),
        ("curve,n_devices,quantity,value,note", "lacks columns unit"),
        ("curve,n_nodes,quantity,value,unit", "lacks columns nodes"),
    ],
)
def test_the_message_on_a_wrong_header_names_the_column(tmp_path, header, named):
    row = ",".join("1" for _ in header.split(","))
    message = refused(tmp_path, csv_of(row, header=header))
    assert message.startswith("row 1: ")
    assert named in message


def test_rows_without_a_curve_are_one_of_the_file_s_name_unless_points_are_equal(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(csv_of("1,64,0.1", "2,64,0.13", header="nodes,batch_per_worker,step_time_s"))
    found = import_curves(path)
    assert [(curve.name, curve.nodes) for curve in found.curves] == [("mine", [1, 2])]
    assert found.notes == ("no column curve: all rows are of one curve, mine",)
    rows, header = ("1,64,0.1", "1,64,0.3"), "nodes,batch_per_worker,step_time_s"
    assert "lacks columns curve" in refused(tmp_path, csv_of(*rows, header=header))
    repeats = csv_of(*(f"{row},{i}" for i, row in enumerate(rows)), header=f"{header},repeat")
    path.write_text(repeats)
    assert len(import_curves(path).curves[0].measured) == 1


def test_epochs_of_unknown_length_beside_what_needs_seconds(tmp_path):
    for rows, place in ((("a,1,8,1,,", "a,2,8,,9,"), "row 3: "), (("a,1,8,,9,1",), "row 2: ")):
        message = refused(tmp_path, csv_of(*rows, header=f"{HEADER},epoch_time_s,compute_s"))
        assert message.startswith(f"{place}epoch_time_s needs examples")


MANY_COLUMNS = ",".join([HEADER, *(f"c{n}" for n in range(100_000))])
MANY_ROWS = [f"{name},1,{batch},1,x,1" for name in "ab" for batch in range(1, 302)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (HEADER.encode() + b"\n", "has no rows below its header"),
        ("curve,nodes\n".encode("utf-16"), "has no rows below its header"),
        (b"caf\xe9,1\n", "is not UTF-8 text (byte 4)"),
        (csv_of("a,1,64,0.5").encode() + b"x" * 200_000, "row 3: is not CSV"),
        ("My runs,,,\n" + csv_of("a,1,64,0.5"), "row 2: has 4 values for 1 columns; is row 1 a ti"),
        (b"x" * 20_000_001, "is too large, at most 20,000,000 bytes are allowed"),
        (MANY_COLUMNS, "has 100,004 columns"),
        (csv_of(*MANY_ROWS, header=f"{HEADER},cluster,payload_bytes"), "is too large to fit"),
    ],
)
def test_a_file_that_is_no_table_or_is_too_large_is_refused(tmp_path, content, message):
    assert refused(tmp_path, content).startswith(message)


CELLS = st.sampled_from(
    ["a", "1", "2", "0.5", "-1", "", "nan", "1e300", "64", "ring", '"', "é", "9" * 400]
)
VALID_HEADER = st.lists(st.lists(CELLS, min_size=4, max_size=4), max_size=5).map(
    lambda rows: csv_of(*map(",".join, rows))
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.text(max_size=200), VALID_HEADER))
@example("\x00")
@example(csv_of('a,1,64,"0.5'))
def test_any_text_is_measurements_or_one_clear_line(tmp_path, text):
    try:
        found = read(tmp_path, text.encode("utf-8", "surrogatepass"))
    except UserError as error:
        assert str(error).isprintable(), str(error)
    else:
        assert len(imported_points(found.curves)) >= len(found.curves)


def test_parts_that_overlap_are_not_added_up(tmp_path):
    rows = csv_of("a,1,64,1,1,0", "a,2,64,1.1,1,0.5", header=f"{HEADER},compute_s,communicate_s")
    (curve,) = read(tmp_path, rows).curves
    assert all(point.compute_s is None for point in curve.measured)
    assert any("parts add up to more" in note for note in curve.notes)
