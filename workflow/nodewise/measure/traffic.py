"""Bytes that this process really put on the wire, as the kernel counted them."""

import os
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

# struct tcp_info of linux/tcp.h: bytes_received since Linux 4.1, the two others since 4.19
_BYTES_RECEIVED_AT = 128
_BYTES_SENT_AT = 200
_BYTES_RETRANSMITTED_AT = 208
_LENGTH = 216


class Traffic(NamedTuple):
    """Bytes of TCP payload: sent for the first time, received, and sent again.

    A busy machine acknowledges late and so provokes needless retransmissions, also on loopback;
    they would blur what a strategy itself has to send.
    """

    sent: int
    received: int
    retransmitted: int


def traffic() -> Traffic:
    """Return the TCP bytes of all sockets that this process holds open now.

    The difference of two readings is the traffic between them as long as no connection was closed
    in between; collectives and parameter servers keep theirs open.
    """
    sent = received = retransmitted = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # not a socket, not TCP, or closed since the listing
            if not str(descriptor.readlink()).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(descriptor.name))) as duplicate:
                info = duplicate.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LENGTH)
            if len(info) == _LENGTH:
                received += struct.unpack_from("=Q", info, _BYTES_RECEIVED_AT)[0]
                retransmitted += struct.unpack_from("=Q", info, _BYTES_RETRANSMITTED_AT)[0]
                sent += struct.unpack_from("=Q", info, _BYTES_SENT_AT)[0]
    return Traffic(sent - retransmitted, received, retransmitted)
