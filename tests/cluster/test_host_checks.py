"""What `nodewise doctor` says about a host, given the answer of the host's agent."""

import pytest

from nodewise.cluster.host_checks import of_host
from nodewise.cluster.hosts import versions

FACTS = {"cores": 8, "load": 0.1, "memory_bytes": 16e9, "disk_bytes": 100e9}


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ({}, ""),
        ({"keras": "2.0"}, "node1: has keras 2.0, here is "),
        ({"Python": "3.9"}, "node1: has Python 3.9, here is 3.1"),
    ],
)
def test_a_host_is_one_line_and_another_version_is_one_more_with_what_repairs_it(other, text):
    host, *wrong = of_host("node1", FACTS | {"versions": versions() | other}, "make setup")
    assert host == ("node1: 8 cores, 0.1 of them busy; 16.0 GB of memory free, 100.0 GB of disk", 1)
    assert len(wrong) == bool(other)
    for finding in wrong:
        assert not finding.sound
        assert finding.text.startswith(text) and "make setup" in finding.text
