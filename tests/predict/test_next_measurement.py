"""`nodewise next`: what to measure, so that the best number of nodes is known."""

import json

from typer.testing import CliRunner

from nodewise.cli import app

HEADER = "curve,nodes,batch_per_worker,step_time_s,payload_bytes"


def ask(tmp_path, rows, *arguments, header=HEADER):
    table, fit = tmp_path / "mine.csv", tmp_path / "fit.json"
    table.write_text("\n".join([header, *rows]))
    assert CliRunner().invoke(app, ["fit", str(table), "-o", str(fit)]).exit_code == 0
    done = CliRunner().invoke(app, ["next", str(fit), *arguments, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def star(n: int, batch: float) -> float:
    return 1e-3 * batch + 0.01 * (n - 1)


def test_what_was_not_measured_is_measured_next(tmp_path):
    rows = [f"a,{n},{512 // n},{star(n, 512 / n)},4e6" for n in (1, 2)]
    (row,) = ask(tmp_path, rows, "--nodes", "1-32")
    assert row["nodes"] in range(3, 9)
    assert row["saved"] > 0
    assert row["minutes"] > 0
    assert row["answer"].startswith(f"Measure {row['nodes']} nodes next")


def test_who_knows_the_answer_measures_nothing(tmp_path):
    rows = [f"a,{n},64,{0.064 + 1e-5 * n},4e6" for n in (1, 2, 4, 8)]
    (row,) = ask(tmp_path, rows, "--nodes", "1-8")
    assert row["nodes"] is None
    assert row["answer"].startswith("Nothing: ")


def test_devices_of_several_machines_fill_them_and_are_called_devices(tmp_path):
    header = "curve,n_devices,n_nodes,devices_per_node,scaling,batch_per_device,quantity,value,unit"
    rows = [f"a,{n},1,8,weak,32,throughput,{100 * n**0.4},img/s" for n in (1, 2, 4)]
    (row,) = ask(tmp_path, rows, "--nodes", "1-64", header=header)
    assert row["nodes"] in (*range(1, 9), 16)
    assert " devices next" in row["answer"]


def test_what_lies_between_points_says_nothing_of_what_comes_after_them(tmp_path):
    header = "curve,n_devices,n_nodes,devices_per_node,scaling,global_batch,quantity,value,unit"
    rows = [f"a,{n},1,8,strong,512,run_time,{6 + 54 / n},min" for n in (1, 2, 4)]
    (row,) = ask(tmp_path, rows, "--nodes", "1-16", header=header)
    assert row["nodes"] is None or row["nodes"] > 4
