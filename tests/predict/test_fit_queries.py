"""The rows of the tables of fits that charts and pages show."""

import pandas as pd

import make_records as make
from mistakes import user_error
from nodewise.predict import fit_queries
from nodewise.predict.study import ALL_POINTS, OVERSUBSCRIBED, read_overhead
from nodewise.results.columns import OVERHEAD
from nodewise.results.table_files import typed

CURVE = dict.fromkeys(("study", "experiment", "model", "strategy"), "x")
CURVE |= {"curve": "c", "source": "measured", "data_origin": "official", "law": "ring"}


def table(name, rows):
    """Return one of the tables of fits, with rows that give only some columns."""
    nothing = {"str": "", "bool": False, "int64": 0}
    blank = {column: nothing.get(dtype) for column, dtype in OVERHEAD[name].items()}
    about = {column: value for column, value in CURVE.items() if column in blank}
    return typed([blank | about | row for row in rows], OVERHEAD[name])


def predictions(fitted, observed, crowded=()):
    """Return the predictions of one curve, given fitted and observed seconds by node count."""
    last = max((n for n in observed if n not in crowded), default=0)
    seen = {
        ALL_POINTS: {n: t for n, t in observed.items() if n not in crowded},
        OVERSUBSCRIBED: {n: t for n, t in observed.items() if n in crowded},
    }
    rows = [
        {"batch_per_worker": 64, "nodes": n, "scenario": scenario, "beyond": n > last}
        | {"fitted_s": seconds, "observed_s": times.get(n)}
        for scenario, times in seen.items()
        for n, seconds in fitted.items()
        if scenario == ALL_POINTS or n in times
    ]
    return table("predictions", rows)


def test_the_coefficients_of_a_curve_are_those_of_its_own_fit():
    """A link has a separate fit for each set of settings of a law."""
    fits = pd.DataFrame(
        [
            ("a", "lan", "gpipe", "1", "compute_fixed_s"),
            ("", "lan", "gpipe", "1", "latency_s"),
            ("", "lan", "gpipe", "2", "latency_s"),
            ("b", "lan", "gpipe", "2", "compute_fixed_s"),
            ("", "wan", "gpipe", "1", "latency_s"),
            ("", "lan", "ring", "1", "latency_s"),
        ],
        columns=["curve", "link", "law", "settings", "parameter"],
    )
    found = {name: fit_queries.coefficients_of(fits, name).index.tolist() for name in ("a", "b")}
    assert found == {"a": [0, 1], "b": [2, 3]}


def test_a_line_is_fitted_up_to_the_last_point_and_predicted_beyond():
    rows = predictions({1: 1.0, 2: 1.5, 3: 1.6, 4: 1.7}, {1: 1.0, 2: 1.4, 3: 3.0}, crowded=(3,))
    roles = fit_queries.fit_roles(rows.assign(flags="")).set_index("nodes")
    line = roles["role"].isin(["fitted", "predicted"])
    assert roles.loc[line, "role"].tolist() == ["fitted"] * 2 + ["predicted"] * 2
    points = roles[roles["role"] == "observed"]
    assert points["flags"].ne("").to_dict() == {1: False, 2: False, 3: True}


def test_nothing_fitted_shows_nothing():
    assert fit_queries.fit_roles(table("predictions", []).assign(flags="")).empty


def test_fits_that_are_missing_or_misfit_are_one_line(tmp_path):
    make.write_study(tmp_path, [])
    folder = tmp_path / "overhead"
    assert all(one.empty for one in read_overhead(folder).values())
    for text, said in (("curve,source\na,b\n", "missing"), ("", ""), (None, "")):
        (folder / "fits.csv").unlink()
        if text is not None:
            (folder / "fits.csv").write_text(text)
        message = user_error(read_overhead, folder)
        assert "fits.csv" in message and said in message
