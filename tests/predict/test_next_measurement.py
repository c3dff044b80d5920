"""`nodewise next` names the measurement that tells most about the best number of nodes."""

HEADER = "curve,nodes,batch_per_worker,step_time_s,payload_bytes"


def star(n: int, batch: float) -> float:
    return 1e-3 * batch + 0.01 * (n - 1)


def test_what_was_not_measured_is_measured_next(ask):
    rows = [f"a,{n},{512 // n},{star(n, 512 / n)},4e6" for n in (1, 2)]
    (row,) = ask(HEADER, rows, "next", "--nodes", "1-32")
    assert row["nodes"] in range(3, 9)
    assert row["saved"] > 0 and row["minutes"] > 0
    assert row["answer"].startswith(f"Measure {row['nodes']} nodes next")


def test_next_stops_when_the_best_is_known(ask):
    rows = [f"a,{n},64,{0.064 + 1e-5 * n},4e6" for n in (1, 2, 4, 8)]
    (row,) = ask(HEADER, rows, "next", "--nodes", "1-8")
    assert row["nodes"] is None and row["answer"].startswith("Nothing: ")


def test_fewer_nodes_are_not_faster_and_only_numbers_asked_for_are_compared(ask):
    header = "curve,nodes,batch_per_worker,samples_per_s"
    (row,) = ask(header, ["a,8,32,2000", "a,16,32,3800", "a,32,32,7000"], "next")
    assert row["fastest"] == 64 and "known well enough" in row["answer"]
    (row,) = ask(header, ["a,8,32,240", "a,16,32,160"], "next", "--nodes", "8-64")
    assert row["fastest"] == 8 and row["nodes"] != 1
    (row,) = ask(header, ["a,8,32,240", "a,16,32,160"], "optimum", "--nodes", "1-8")
    one, *_, eight = row["nodes"]
    assert one["time"] >= eight["time"] * (1 - 1e-9) and one["time_low"] > 0.9 * eight["time"]


def test_an_efficiency_above_one_leaves_open_what_comes_after_it(ask):
    rows = [f"a,{n},64,{step},4e6" for n, step in ((1, 0.64), (4, 0.53))]
    (row,) = ask(HEADER, rows, "next", "--nodes", "1-64")
    assert row["nodes"] == 8


def test_each_measured_batch_has_an_answer_unless_one_is_asked_for(ask):
    rows = [f"a,{n},{b},{star(n, b)},4e6" for n in (1, 2) for b in (32, 512)]
    answers = ask(HEADER, rows, "next", "--nodes", "1-32")
    assert [row["batch_per_worker"] for row in answers] == [32, 512]
    (row,) = ask(HEADER, rows, "next", "--nodes", "1-32", "--batch", "512")
    assert row == answers[1]
    (row,) = ask(HEADER, rows, "next", "--nodes", "1-32", "--global-batch", "512")
    assert row["batch_per_worker"] is None and 512 % row["nodes"] == 0


def test_a_draw_in_which_a_step_takes_no_time_does_not_decide(ask):
    rows = ["a,1,64,0.02,5e6,none", "a,4,64,0.021,5e6,none"]
    (row,) = ask(f"{HEADER},collective", rows, "next", "--nodes", "1-64")
    assert (row["nodes"], row["fastest"]) == (None, 64) and row["regret"] < 0.01


def test_devices_of_several_machines_fill_them_and_are_called_devices(ask):
    header = "curve,n_devices,n_nodes,devices_per_node,scaling,batch_per_device,quantity,value,unit"
    rows = [f"a,{n},1,8,weak,32,throughput,{100 * n**0.4},img/s" for n in (1, 2, 4)]
    (row,) = ask(header, rows, "next", "--nodes", "1-64")
    assert row["nodes"] in (*range(1, 9), 16) and " devices next" in row["answer"]


def test_a_shared_batch_is_measured_on_a_number_that_divides_it(ask):
    header = "curve,n_devices,n_nodes,devices_per_node,scaling,global_batch,quantity,value,unit"
    rows = [f"a,{n},1,8,strong,512,step_time,{0.4 + 0.6 / n},s" for n in (1, 2, 4)]
    (row,) = ask(header, rows, "next", "--nodes", "1-16")
    assert row["nodes"] in (8, 16)
    faster = [f"a,{n},1,8,strong,512,step_time,{0.9**n / n},s" for n in (1, 2, 4)]
    for measured in (rows, faster):  # an efficiency over 100 %, too
        (row,) = ask(header, measured, "next", "--nodes", "5-7")
        assert row["nodes"] is None
