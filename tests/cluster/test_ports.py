"""Choosing free ports for nodes that have no network of their own."""

import socket

from nodewise.cluster import namespace


def test_a_port_that_is_listened_on_is_not_free():
    (port,) = namespace.free_ports(1)
    with socket.create_server(("127.0.0.1", port)):
        assert port not in namespace.free_ports(2)
    assert port in namespace.free_ports(1)
