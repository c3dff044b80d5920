"""`nodewise forecast --machines` compares kinds and numbers of machines."""

import re

import pandas as pd
import pytest

import commands
from nodewise.predict.machines import device_family, device_speed

GIVEN = ("forecast", "--throughput", "360", "--batch", "64", "--parameters", "25.6e6")
MACHINES = """name,price,devices,within,between,device,speed
small,3,1,,10gbit-tcp,V100-SXM2-16GB,
large,24,8,nvlink2,25gbit-tcp,V100,
new,32,8,nvlink3,400gbit-efa,A100,
mine,10,4,pcie4,40gbit-tcp,,2.5
"""


def asked(tmp_path, *arguments, machines=MACHINES):
    path = tmp_path / "machines.csv"
    path.write_text(machines)
    return (*GIVEN, "--device", "V100", "--machines", path, "--nodes", "1,2", *arguments)


def compare(*arguments, **table):
    return pd.DataFrame(commands.ask(*asked(*arguments, **table)))


def test_times_and_costs_are_those_of_whole_machines(tmp_path):
    rows = compare(tmp_path, "--examples", "3.6e6").set_index(["machine", "machines"])
    assert rows.loc["small", 1]["time"] == pytest.approx(10_000)
    assert rows.loc["small", 1]["cost"] == pytest.approx(3 * 10_000 / 3600)
    for (name, count), price in {("large", 2): 24, ("new", 1): 32}.items():
        row = rows.loc[name, count]
        assert row["cost"] == pytest.approx(price * count * row["time"] / 3600)
        assert row["devices"] == 8 * count
    assert rows["cost"].is_monotonic_increasing
    assert rows["speedup"].isna().all()  # each would be against another device


def test_costs_are_in_the_currency_of_the_prices(tmp_path):
    euros = "name,price,between\na,2.5 EUR,10gbit-tcp\nb,3 EUR,10gbit-tcp\n"
    assert set(compare(tmp_path, machines=euros)["currency"]) == {"EUR"}
    shown = commands.run(*asked(tmp_path, machines=euros)).stdout
    assert "Cost [EUR]" in shown and "Speed-up" not in shown  # of a device of each machine
    assert re.search(r"1 × a is the cheapest: .*, [\d.,]+ EUR", shown)


def test_at_a_fixed_global_batch_a_device_has_fewer_examples_on_more_machines(tmp_path):
    rows = compare(tmp_path, "--global-batch", 512)
    assert (rows["batch_per_device"] == 512 / rows["devices"]).all()
    assert "--global-batch: has less" in commands.refusal(*asked(tmp_path, "--global-batch", 4))


def test_a_speed_that_is_given_is_exact_and_a_published_one_scatters(tmp_path):
    rows = compare(tmp_path, machines=MACHINES.replace("pcie4", "")).set_index("machine")
    assert set(rows.loc["mine", "speed"]) == {2.5}
    assert set(rows.loc["large", "speed"]) == {1}
    assert rows.loc["new", "speed"].iloc[0] == pytest.approx(2, rel=0.2)
    slow, fast = (rows.loc["new", f"time_{end}"].iloc[0] for end in ("high", "low"))
    assert slow / fast > 1.5


def test_the_cheapest_in_time_is_best(tmp_path):
    rows = compare(tmp_path, "--examples", 3_600_000, "--deadline", "1h")
    (cost,) = rows.loc[rows["best"], "cost"]
    assert cost == rows.loc[rows["time"] <= 3600, "cost"].min()
    assert not compare(tmp_path, "--examples", 3_600_000, "--deadline", "1s")["best"].any()


@pytest.mark.parametrize(
    ("machines", "said"),
    [
        ("name,price\n", "has no rows"),
        ("name,price\na,-1\n", "row 2: "),
        ("name,price,colour\na,1,red\n", "column 'colour' is not known; allowed: name, price"),
        ("name,price,device\na,1,Abacus\n", "Abacus"),
        ("name,price\na,1 EUR\nb,1 USD\n", "one currency"),
        ("name,price,devices,within\na,1,8,string\n", "machine a: link string: must be"),
    ],
)
def test_a_wrong_table_is_one_line(tmp_path, machines, said):
    assert said in commands.refusal(*asked(tmp_path, machines=machines))


def test_a_device_is_known_by_its_family():
    names = {"V100-SXM2-16GB": "V100", "T4 (AWS g4dn.12xlarge)": "T4"}
    names |= {"Quadro RTX 8000": "QUADRO RTX 8000", "RTX 2080 Ti": "RTX 2080 TI"}
    assert {name: device_family(name) for name in names} == names


def test_device_speeds_are_consistent():
    there, back = device_speed("A100", "V100"), device_speed("V100", "A100")
    assert there == pytest.approx((1 / back[0], back[1]))
