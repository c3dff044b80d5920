"""Claims of the published studies: which comparisons count, and which verdict follows."""

import math

import pandas as pd
import pytest

import make_records as make
from nodewise.report import claims
from nodewise.results.columns import FIT_COLUMNS
from nodewise.results.studies import Claim, studies
from nodewise.results.table_files import read_tables
from nodewise.study.experiment import EVIDENCE_REPEATS
from rendering import Texts

WORDS = dict.fromkeys(("says", "where", "compares", "decided_by"), "x")
TWO_NODES = {"of": {"study": "ntua"}, "differ": "nodes", "pairs": [(2, 1)]}


def claim(value="throughput", **fields):
    return Claim(**WORDS, value=value, **fields)


@pytest.fixture
def tables(tmp_path):
    """Return tables in which two nodes are about 1.8 times as fast as one; three launches each."""
    return make.tables_of(make.launches(n=(1, 2)), tmp_path, make.published())


@pytest.mark.parametrize(
    ("comparisons", "verdict", "needs"),
    [
        ([], "too little evidence", "Nothing comparable was measured"),
        ([(1.2, 1.4, "")], "agrees", ""),
        ([(0.6, 0.8, "")], "contradicts", ""),
        ([(0.9, 1.1, "")], "too little evidence", "more launches of each point are needed"),
        ([(1.2, 1.4, ""), (0.9, 1.1, "")], "agrees", ""),
        ([(1.2, 1.4, ""), (0.6, 0.8, "")], "contradicts", ""),
        ([(1.2, 1.4, ""), (0.6, 0.8, "batch")], "agrees", ""),
        ([(1.2, 1.4, "batch rest"), (1.2, 1.4, "rest")], "too little evidence", "a caution"),
        ([(math.nan, math.nan, "launches")], "too little evidence", "three launches"),
    ],
)
def test_a_verdict_follows_from_the_intervals_of_what_counts(comparisons, verdict, needs):
    rows = pd.DataFrame(comparisons, columns=["low", "high", "lacks"])
    rows = rows.assign(value=rows["low"], least=1.0, most=math.inf)
    judged = claims.Judged("s", claim(), rows)
    assert judged.verdict == verdict
    assert needs in judged.needs and bool(needs) == bool(judged.needs)


def lacks(tables, value="throughput", **fields):
    return claims.compare(claim(value, **(fields or TWO_NODES)), tables, {})["lacks"].tolist()


@pytest.mark.parametrize(
    ("of_one_node", "expected"),
    [
        ({}, [""]),
        ({"repeats": EVIDENCE_REPEATS - 1}, ["launches"]),
        ({"flags": "another process ran"}, ["rest"]),
        ({"machine": "another"}, []),  # Points of two machines are not compared.
    ],
)
def test_three_launches_without_a_caution_on_one_machine_count(tables, of_one_node, expected):
    for column, value in of_one_node.items():
        tables["curves"].loc[tables["curves"]["nodes"] == 1, column] = value
    assert lacks(tables) == expected


def test_another_batch_than_the_study_s_does_not_count_but_any_if_it_printed_none(tables):
    tables["published"] = tables["published"].assign(batch_per_worker=7)
    assert lacks(tables) == ["batch"]
    tables["published"] = tables["published"].iloc[:0]
    assert lacks(tables) == [""]


def test_emulated_devices_of_one_process_are_not_compared_with_nodes_that_need_a_link(tmp_path):
    tables = make.tables_of(make.launches(n=(2,), strategy=("mpi", "mirrored")), tmp_path)
    tables["curves"]["kind"] = "measured"
    assert lacks(tables, pairs=[("mirrored", "mpi")]) == [""]
    tables["curves"]["kind"] = "emulated"
    assert lacks(tables, pairs=[("mirrored", "mpi")]) == []


def trainings(folder, gain):
    """Return tables of two strategies on two nodes, three launches each.

    Accuracy grows by `gain` per epoch, so that trainings have settled only if it is small.
    """
    strategies = ("mpi", "multi_worker_mirrored")
    records = make.launches(n=(2,), strategy=strategies, extent=(make.EPOCHS,))
    tables = make.tables_of(records, folder)
    tables["epochs"]["accuracy"] = 0.8 + gain * tables["epochs"]["epoch"]
    return tables


def test_accuracies_count_where_both_trainings_have_settled(tmp_path):
    pairs = [("mpi", "multi_worker_mirrored")]
    assert lacks(trainings(tmp_path, 0.001), "train_accuracy", pairs=pairs) == [""]
    assert lacks(trainings(tmp_path, 0.05), "train_accuracy", pairs=pairs) == ["epochs"]


def test_at_the_ends_the_smallest_batch_must_be_below_and_the_largest_above(tmp_path):
    tables = make.tables_of(make.launches(batch=(64, 128, 512), n=(1, 2)), tmp_path)
    fields = TWO_NODES | {"above": 1.0}
    every = claims.compare(claim(**fields), tables, {})
    ends = claims.compare(claim(**fields, batches="ends"), tables, {})
    assert len(every) == 3
    assert ends[["least", "most"]].to_numpy().tolist() == [[-math.inf, 1], [1, math.inf]]
    best = claims.compare(claim(**fields, batches="best"), tables, {})
    assert best["value"].tolist() == [every["value"].max()]


@pytest.mark.parametrize(
    ("saved", "low", "high", "verdict"),
    [
        (0.66, 0.63, 0.68, "follows from the study's own numbers"),
        (0.63, 0.58, 0.66, "follows from the study's own numbers"),
        (0.60, 0.58, 0.66, "too little evidence"),
        (0.74, 0.73, 0.75, "contradicts"),
    ],
)
def test_a_formula_fitted_to_the_study_s_own_numbers_never_agrees(saved, low, high, verdict):
    ends = {"speedup": saved, "speedup_low": low, "speedup_high": high}
    row = {"study": "s", "source": "published", "model": "m", "nodes": 6}
    row |= {name: 1 / (1 - share) for name, share in ends.items()}
    other = row | {"speedup": 0.1}  # at a batch that saves less
    saves = claim("saved", of={"nodes": 6}, above=0.62, below=0.72)
    rows = claims.compare(saves, {}, {"optima": pd.DataFrame([row, other])})
    assert claims.Judged("s", saves, rows).verdict == verdict


def test_every_claim_of_the_project_is_judged_and_shown_with_its_verdict(study):
    tables = read_tables(study / "tables")
    judged = claims.judge_claims(tables, read_tables(study / "fits", FIT_COLUMNS))
    assert len(judged) == sum(len(one.claims) for one in studies().values())
    shown = Texts((study / "docs/studies/index.md").read_text()).text
    for one in judged:
        assert one.claim.says.rstrip(".") in shown and one.needs in shown
    assert f"agree with {sum(one.verdict == claims.AGREES for one in judged)} and" in shown
