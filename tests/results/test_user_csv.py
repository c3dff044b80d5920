"""Measurements of users as CSV: what is read, and how wrong files are reported."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from nodewise.core.errors import UserError
from nodewise.predict.curve_groups import find_groups, group_of
from nodewise.predict.law import LAWS
from nodewise.results.curve_points import imported_points
from nodewise.results.curves import Measurements
from nodewise.results.importers import import_curves

HEADER = "curve,nodes,batch_per_worker,step_time_s"
TEMPLATE = Path("data/templates/measurements.csv")


def csv_of(*rows: str, header: str = HEADER) -> str:
    return "\n".join((header, *rows)) + "\n"


def read(tmp_path: Path, text: str | bytes) -> Measurements:
    path = tmp_path / "measurements.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return import_curves(path, "csv")


def refused(tmp_path: Path, text: str | bytes) -> str:
    """Return the message about an unreadable file without its path; check that it is one line."""
    with pytest.raises(UserError) as caught:
        read(tmp_path, text)
    message = str(caught.value)
    assert message.isprintable()
    start = f"{tmp_path / 'measurements.csv'}: "
    assert message.startswith(start)
    return message.removeprefix(start)


def test_times_of_steps_samples_and_epochs_say_the_same(tmp_path):
    by_step = read(tmp_path, csv_of("a,2,64,0.5"))
    by_samples = read(
        tmp_path, csv_of("a,2,64,256", header=HEADER.replace("step_time_s", "samples_per_s"))
    )
    header = HEADER.replace("step_time_s", "epoch_time_s,examples")
    by_epoch = read(tmp_path, csv_of("a,2,64,500,128000", header=header))
    times = [m.curves[0].measured[0].step_time for m in (by_step, by_samples, by_epoch)]
    assert times == pytest.approx([0.5, 0.5, 0.5])


def test_the_first_of_several_times_counts_and_a_row_needs_only_one(tmp_path):
    header = "curve,nodes,batch_per_worker,epoch_time_s,samples_per_s,step_time_s,examples"
    text = csv_of("a,1,10,,,2.0,", "a,2,10,,10,,", "a,4,10,9,40,3.0,100", header=header)
    measured = read(tmp_path, text).curves[0].measured
    assert [point.step_time for point in measured] == pytest.approx([2.0, 2.0, 3.0])


def test_repeats_are_one_point_with_their_median_and_their_spread(tmp_path):
    rows = [f"a,1,64,{t},{r}" for r, t in enumerate((0.10, 0.30, 0.12))]
    curve = read(tmp_path, csv_of(*rows, "a,2,64,0.2,0", header=f"{HEADER},repeat")).curves[0]
    one, two = curve.measured
    assert (one.nodes, one.step_time, one.repeats) == (1, pytest.approx(0.12), 3)
    spread = np.std(np.log([0.10, 0.30, 0.12]), ddof=1)
    assert one.noise == pytest.approx(spread * np.sqrt(np.pi / (6 + np.pi - 2)))
    assert (two.repeats, two.noise) == (1, None)


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + csv_of("a,1,64,0.5"),
        csv_of("a,1,64,0.5").replace(",", ";"),
        csv_of("a,1,64,0.5").replace(",", "\t"),
        csv_of("a,1,64,0.5").replace("\n", "\r\n"),
        "\n" + csv_of("", " a , 1.0 , 64 ,+5e-1", "", ",,,"),
        csv_of("a,1,64,.5,", header=f"{HEADER},"),
        'batch_per_worker,"step_time_s",nodes,curve\n64,0.5,1,"a"',
    ],
)
def test_spreadsheets_write_in_many_ways(tmp_path, text):
    (curve,) = read(tmp_path, text).curves
    (point,) = curve.measured
    assert (curve.name, point.nodes, point.batch_per_worker, point.step_time) == ("a", 1, 64, 0.5)


def test_other_columns_are_left_alone_and_named(tmp_path):
    found = read(tmp_path, csv_of("a,1,64,0.5,x,y", header=f"{HEADER},gpu,date of run"))
    assert found.notes == ("columns not used: gpu, 'date of run'",)


@pytest.mark.parametrize(
    ("written", "collective"),
    [
        ("ring", "ring"),
        ("Ring all-reduce", "ring"),
        ("halving-doubling", "halving_doubling"),
        ("tree_allreduce", "tree"),
        ("Parameter server", "parameter_server"),
        ("NONE", "none"),
    ],
)
def test_collectives_by_the_names_that_people_write(tmp_path, written, collective):
    found = read(tmp_path, csv_of(f"a,1,64,0.5,{written}", header=f"{HEADER},collective"))
    assert found.curves[0].collective == collective


def together(found):
    """Return groups of names of curves that are fitted together."""
    groups = find_groups(imported_points(found.curves))
    return [group.rows["curve"].unique().tolist() for group in groups]


def test_curves_share_a_link_only_if_they_say_so(tmp_path):
    header = f"{HEADER},payload_bytes,cluster,collective"
    rows = ["a,1,8,1,5,x,ring", "b,1,8,1,5,x,ring", "c,1,8,1,5,x,star", "d,1,8,1,5,,"]
    found = read(tmp_path, csv_of(*rows, "x,1,8,1,5,,", header=header))
    assert together(found) == [["a", "b"], ["c"], ["d"], ["x"]]
    points = group_of(found.curves[:2], LAWS.make("ring")).points()
    assert (points.model.tolist(), points.link.tolist()) == (["a", "b"], ["x", "x"])


@pytest.mark.parametrize(
    ("collectives", "expected"),
    [
        (["", "star"], [["a", "b"]]),  # Another curve names the collective of the cluster.
        (["", ""], [["a", "b"]]),
        # The cluster has two collectives, so the default is used.
        (["", "star", "ring"], [["a", "c"], ["b"]]),
    ],
)
def test_who_did_not_say_its_collective_has_that_of_its_cluster(tmp_path, collectives, expected):
    header = f"{HEADER},payload_bytes,cluster,collective"
    rows = [f"{name},1,8,1,5,x,{each}" for name, each in zip("abc", collectives, strict=False)]
    found = read(tmp_path, csv_of(*rows, header=header))
    assert together(found) == expected


def test_without_a_payload_nothing_is_shared(tmp_path):
    text = csv_of("a,1,8,1,x,5", "b,1,8,1,x,", header=f"{HEADER},cluster,payload_bytes")
    found = read(tmp_path, text)
    assert [len(names) for names in together(found)] == [1, 1]
    assert "no payload_bytes given: shares nothing with other curves of its cluster" in (
        found.curves[1].notes
    )


def test_the_template_is_read_whole():
    found = import_curves(TEMPLATE, "csv")
    assert [(curve.name, curve.cluster) for curve in found.curves] == [
        ("cifar10_cnn", "ntua"),
        ("fashion_cnn", "ntua"),
    ]
    assert found.notes == ()


NODES = "column nodes: must be a whole number"
TIME = "column step_time_s: must be"
NAME = "column curve: must be one short line of text"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,0,64,0.5", f"row 3, {NODES} from 1 to 65536, not '0'"),
        ("a,2.5,64,0.5", f"row 3, {NODES}"),
        ("a,-1,64,0.5", f"row 3, {NODES}"),
        ("a,two,64,0.5", f"row 3, {NODES} from 1 to 65536, not 'two'"),
        ("a,1,0,0.5", "row 3, column batch_per_worker: must be"),
        ("a,1,64,-0.5", f"row 3, {TIME} a number from 1e-09 to 1e+09, not '-0.5'"),
        *((f"a,1,64,{x}", f"row 3, {TIME}") for x in ("0", "nan", "inf", "1e999", "1_0", "0x1")),
        ("a,1,64,12 ms", f"row 3, {TIME}"),
        ('a,1,64,"0,5"', "not '0,5'; write decimals with a point"),
        ("a,1,64,", "row 3: has no time"),
        ("a,,64,0.5", "row 3, column nodes: is empty"),
        (",1,64,0.5", "row 3, column curve: is empty"),
        ("a,1,64", "row 3: has 3 values for 4 columns"),
        ("a,1,64,0.5,7", "row 3: has 5 values for 4 columns"),
        ('"a\nb",1,64,0.5', f"row 4, {NAME}"),
        (f"{'a' * 300},1,64,0.5", f"row 3, {NAME}"),
        ("a\x1b[31m,1,64,0.5", f"row 3, {NAME}"),
    ],
)
def test_the_message_on_a_wrong_value_has_its_row_and_column(tmp_path, row, message):
    assert message in refused(tmp_path, csv_of("a,1,64,0.5", row))


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("payload_bytes", ("0",), "row 2, column payload_bytes: must be a number from 1"),
        ("payload_bytes", ("5", "6"), "row 3, column payload_bytes: must be the same in all rows"),
        ("collective", ("ring", "", "star"), "row 4, column collective: must be the same in all"),
        ("cluster", ("x", "y"), "row 3, column cluster: must be the same in all rows of a curve"),
        ("examples", ("1", "2"), "row 3, column examples: must be the same in all rows"),
        ("compute_s", ("-1",), "row 2, column compute_s: must be a number from 0"),
        ("compute_s", ("9",), "row 2, column compute_s: 9 s is more than the whole step, 0.5 s"),
    ],
)
def test_optional_columns_are_checked_as_well(tmp_path, column, values, message):
    rows = [f"a,{n},64,0.5,{value}" for n, value in enumerate(values, 1)]
    assert refused(tmp_path, csv_of(*rows, header=f"{HEADER},{column}")).startswith(message)


NEEDED = "must name columns curve, nodes, batch_per_worker and one of"


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("curve,nodes,batch_per_worker", NEEDED),
        ("name,gpus,batch,time", NEEDED),
        (HEADER.replace("_s", "_ms"), "column step_time_ms is not known; is it step"),
        (HEADER.replace("nodes", "node"), "column node is not known; is it nodes?"),
        (HEADER.replace("curve", "Curve"), "column Curve is not known; is it curve?"),
        (f"{HEADER},payload_byte", "column payload_byte is not known; is it payload_bytes?"),
        (f"{HEADER},nodes", "column nodes appears twice"),
    ],
)
def test_the_message_on_a_wrong_header_names_the_column(tmp_path, header, message):
    row = ",".join("1" for _ in header.split(","))
    assert refused(tmp_path, csv_of(row, header=header)).startswith(f"row 1: {message}")


def test_epochs_of_unknown_length_beside_what_needs_seconds(tmp_path):
    header = "curve,nodes,batch_per_worker,step_time_s,epoch_time_s,compute_s"
    mixed = csv_of("a,1,8,1,,", "a,2,8,,9,", header=header)
    assert refused(tmp_path, mixed).startswith("row 3, column examples: is needed beside epoch")
    parts = csv_of("a,1,8,,9,1", header=header)
    assert refused(tmp_path, parts).startswith("row 2, column compute_s: needs examples beside")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; its first row must name columns"),
        (b"\n\n", "is empty"),
        (HEADER.encode() + b"\n", "has no rows below its header"),
        ("curve,nodes\n".encode("utf-16"), "is not UTF-8 text"),
        (b"caf\xe9,1\n", "is not UTF-8 text (byte 4)"),
        (csv_of("a,1,64,0.5").encode() + b"x" * 200_000, "is not CSV"),
        (b"x" * 20_000_001, "20,000,001 bytes is too large, at most 20,000,000 are allowed"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path, content, message):
    assert message in refused(tmp_path, content)


CELLS = st.sampled_from(
    ["a", "1", "2", "0.5", "-1", "", "nan", "1e300", "64", "ring", '"', "é", "9" * 400]
)
NAMES = st.sampled_from(["curve", "nodes", "batch_per_worker", "step_time_s", "compute_s", "x", ""])
TABLES = st.tuples(
    st.lists(NAMES, max_size=6), st.lists(st.lists(CELLS, max_size=6), max_size=4)
).map(lambda table: "\n".join(",".join(row) for row in (table[0], *table[1])))
VALID_HEADER = st.lists(st.lists(CELLS, min_size=4, max_size=4), max_size=5).map(
    lambda rows: "\n".join([HEADER, *map(",".join, rows)])
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.text(max_size=200), TABLES, VALID_HEADER))
@example("\x00")
@example(csv_of('a,1,64,"0.5'))
def test_any_text_is_measurements_or_one_clear_line(tmp_path, text):
    try:
        found = read(tmp_path, text.encode("utf-8", "surrogatepass"))
    except UserError as error:
        assert str(error).isprintable(), str(error)
    else:
        assert len(imported_points(found.curves)) >= len(found.curves)


def test_what_would_take_too_long_to_fit_is_refused(tmp_path):
    rows = [f"a,1,{batch},1,x,1" for batch in range(1, 302)]
    rows += [f"b,1,{batch},1,x,1" for batch in range(1, 301)]
    message = refused(tmp_path, csv_of(*rows, header=f"{HEADER},cluster,payload_bytes"))
    assert message == (
        "curve 'a', with the others of its cluster, has 601 batches per worker; "
        "at most 500 can be fitted together"
    )


def test_parts_that_overlap_are_not_added_up(tmp_path):
    text = csv_of("a,1,64,1,1,0", "a,2,64,1.1,1,0.5", header=f"{HEADER},compute_s,communicate_s")
    (curve,) = read(tmp_path, text).curves
    assert all(point.compute is None for point in curve.measured)
    assert any("they overlap" in note for note in curve.notes)
