"""A law of another package works in Python and in JavaScript without any change of nodewise."""

import json
import os
import subprocess
import sys

import pytest

import plugins

HEADER = "curve,nodes,batch_per_worker,step_time_s,payload_bytes,collective"
ROWS = [
    f"a,{n},{b},{1e-3 * b + 0.07 * (n - 1)},1e6,one_to_all" for n in (1, 2, 4) for b in (32, 64)
]
ASK = (
    "from nodewise.predict.law import LAWS; from nodewise.report.laws_js import laws_script; "
    "assert LAWS['one_to_all'].title == 'One to all'; "
    "assert '\"one_to_all\": (known)' in laws_script(); "
    "from pandas import DataFrame; from nodewise.predict.curve_groups import law_of; "
    "curve = DataFrame({'exchange': ['one_to_all'], 'options': ['{}'], 'collective': [''], "
    "'nodes_per_machine': [1.0]}); "
    "assert law_of(curve).name == 'one_to_all'"
)


@pytest.mark.slow
def test_a_law_of_another_package_is_registered_generated_and_fitted(tmp_path):
    (tmp_path / "toylaw.py").write_text(plugins.example("my_law.py"))
    plugins.declare(tmp_path, "nodewise.laws", "toylaw")
    table, fit = tmp_path / "mine.csv", tmp_path / "fit.json"
    table.write_text("\n".join([HEADER, *ROWS]))
    nodewise = ["-m", "nodewise"]
    ask = ["predict", str(fit), "--nodes", "8", "--batch", "64", "--json"]
    *_, predicted = (
        subprocess.run(
            [sys.executable, *command],
            check=True,
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
        )
        for command in (
            ["-c", ASK],
            [*nodewise, "fit", str(table), "-o", str(fit)],
            [*nodewise, *ask],
        )
    )
    (row,) = json.loads(predicted.stdout)
    assert abs(row["step_time_s"] / (0.064 + 0.07 * 7) - 1) < 0.05
