"""What this machine permits root and an ordinary user to do; no trial leaves anything behind."""

import json
import os
import tempfile
from functools import cache
from pathlib import Path

import pytest

import projects
from nodewise.cluster import namespace
from quiet import when_quiet, with_free_cores
from traces import assert_gone, traces

pytestmark = [pytest.mark.slow, pytest.mark.alone]

HERE = Path(__file__).parent
SCRIPT = HERE / "node_job.py"
UID = 12345  # a user id that nobody has
ROOT = os.getuid() == 0
MUST_RUN = "CI" in os.environ and ROOT


@cache
def found():
    """Return the results of the checks; they run when the first test needs them."""
    return run(SCRIPT, "look", "-")


def needs(kind):
    """Skip a test where `kind` is not permitted, but not for root in continuous integration."""
    condition = f"not MUST_RUN and not found()[{kind!r}]['permitted']"
    return pytest.mark.skipif(condition, reason=f"{kind}: nodewise doctor says why not")


NEEDS_ROOT = pytest.mark.skipif(not ROOT, reason="only root can try what another user may do")


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = traces(str(SCRIPT))
    yield
    assert_gone(before, str(SCRIPT))


def run(*command, **environment):
    return json.loads(projects.python(*command, **environment))


def as_user(what, logs="-", namespaces="-", **environment):
    return run(HERE / "ordinary_user.py", UID, namespaces, SCRIPT, what, logs, **environment)


@NEEDS_ROOT
@needs("private")
def test_doctor_says_how_root_and_an_ordinary_user_get_a_private_network():
    assert found()["private"]["remark"] == "a network of its own, as root"
    user = as_user("look")["private"]
    assert not user["permitted"] or user["remark"] == "a network of its own, in a user namespace"


@needs("links")
def test_the_links_count_what_passes_them(tmp_path):
    """Headers are counted too, once per large segment: less than 1 %."""
    sender, receiver = run(SCRIPT, "transfer", tmp_path)["counted"]
    for transferred in (sender["sent_bytes"], receiver["received_bytes"]):
        assert transferred == pytest.approx(5_000_000, rel=0.01)
        assert transferred > 5_000_000
    assert sender["received_bytes"] < 100_000  # only acknowledgements
    assert sender["dropped_packets"] == receiver["dropped_packets"] == 0


@needs("links")
def test_what_the_way_to_a_node_refuses_is_counted(tmp_path):
    *senders, receiver = run(SCRIPT, "flood", tmp_path)["counted"]
    for sender in senders:  # a burst, then 1 Mbit/s for one second, however much was sent
        assert 70_000 < sender["sent_bytes"] < 1.5 * (70_000 + 1e6 / 8)
        assert sender["dropped_packets"] == 0  # Drops are counted on the way to a node.
    assert receiver["dropped_packets"] > 0  # Two links' worth of data was sent to one link.


@needs("links")
def test_a_latency_is_passed_once_each_way_or_refused(tmp_path):
    answer = run(SCRIPT, "latency", tmp_path)
    if found()["latency"]["permitted"]:
        (rank0, _) = answer["nodes"]
        assert rank0["round_trip_ms"] == pytest.approx(2 * 20, abs=10)
    else:
        assert answer == {"refused": found()["latency"]["remark"]}


@pytest.fixture
def logs():
    """Yield a folder to which any user can write; pytest's own folders belong to root."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield folder


@NEEDS_ROOT
@needs("soft")
@pytest.mark.parametrize(
    ("namespaces", "environment", "linked"),
    [
        pytest.param("-", {}, True, marks=needs("links")),
        ("0", {namespace.SHARED_NETWORK: "yes"}, False),
    ],
)
def test_a_user_without_a_group_gets_nodes_that_are_stopped_and_continued(
    logs, namespaces, environment, linked
):
    seen = when_quiet(
        lambda: with_free_cores(as_user("share", logs, namespaces, **environment))["nodes"]
    )
    assert [node["kind"] for node in seen] == ["emulated soft"] * 2
    for node in seen:
        assert node["held"] == pytest.approx(0.2, rel=0.1)
        assert ("100 Mbit/s" in node["network"]) == linked
        assert (node["network"] == namespace.NO_EMULATION) != linked


@NEEDS_ROOT
def test_a_user_without_namespaces_is_told_why_and_nothing_listens():
    told = as_user("refused", namespaces="0")
    assert "user.max_user_namespaces" in told["reason"]
    assert told["command"].startswith("sudo sysctl ")


@NEEDS_ROOT
def test_a_user_who_accepts_open_ports_needs_no_namespaces():
    accepted = {namespace.SHARED_NETWORK: "yes"}
    told = as_user("shared", namespaces="0", **accepted)
    assert told == {"private": False, "heard": "hello"}
    for other in ("", "no", "1"):
        assert as_user("refused", namespaces="0", **{namespace.SHARED_NETWORK: other})
