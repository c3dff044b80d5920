"""What `nodewise doctor` says about a host, given the answers of the host's agent."""

import pytest

from nodewise.cluster.host_checks import of_host
from nodewise.cluster.hosts import versions

RENEW = "cd nodewise && rm -rf .venv && make setup"


def said(late_s=0.0, **facts):
    sound = {
        "versions": versions(),
        "cores": 8,
        "load": 0.1,
        "memory_bytes": 16e9,
        "disk_bytes": 100e9,
    }
    return list(of_host("node1", sound | facts, late_s, RENEW))


def test_a_sound_host_is_one_line():
    (finding,) = said()
    assert finding.sound
    assert finding.text == (
        "node1: 8 cores, 0.1 of them busy; 16.0 GB of memory free, 100.0 GB of disk"
    )


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"late_s": 61.0}, "node1: its clock is +61 s off; to repair it, there: sudo timedatectl"),
        ({"late_s": -5.0}, "node1: its clock is -5 s off; to repair it, there: sudo timedatectl"),
        ({"memory_bytes": 0.5e9}, "node1: its memory is nearly full; to see with what, there: top"),
        ({"disk_bytes": 1e9}, "node1: its disk is nearly full; to see with what, there: du"),
        ({"versions": versions() | {"keras": "2.0"}}, "node1: has keras 2.0, here is "),
        ({"versions": versions() | {"Python": "3.9"}}, "node1: has Python 3.9, here is 3.1"),
    ],
)
def test_what_is_wrong_is_a_line_with_what_repairs_it(wrong, text):
    _, finding = said(**wrong)
    assert not finding.sound
    assert finding.text.startswith(text)


def test_busy_cores_are_told_but_no_reason_against_a_host():
    _, finding = said(load=4.1)
    assert finding.sound
    assert finding.text == "node1: its cores are busy; to see with what, there: top"
    assert len(said(load=3.9)) == 1


def test_a_clock_may_be_a_little_off():
    assert len(said(late_s=1.9)) == len(said(late_s=-1.9)) == 1
