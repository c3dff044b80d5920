"""Bytes that this process really put on the wire, as the kernel counted them."""

import fcntl
import os
import socket
import struct
import termios
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

# struct tcp_info of linux/tcp.h: the first two since Linux 4.1, the last since 4.19
_BYTES_ACKNOWLEDGED_AT = 120
_BYTES_RECEIVED_AT = 128
_BYTES_RETRANSMITTED_AT = 208
_LENGTH = 216
_INT = struct.Struct("=i")


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
    in between; collectives and parameter servers keep theirs open. Sent is what was acknowledged
    and what waits for that. (The kernel's own count of bytes sent has those twice that the sender's
    rate-limited queue refused at first, and does not call them sent again.)
    """
    sent = received = retransmitted = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # not a socket, not TCP, or closed since the listing
            if not str(descriptor.readlink()).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(descriptor.name))) as duplicate:
                waiting = fcntl.ioctl(duplicate, termios.TIOCOUTQ, bytes(_INT.size))
                info = duplicate.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LENGTH)
            if len(info) == _LENGTH:
                received += struct.unpack_from("=Q", info, _BYTES_RECEIVED_AT)[0]
                retransmitted += struct.unpack_from("=Q", info, _BYTES_RETRANSMITTED_AT)[0]
                sent += struct.unpack_from("=Q", info, _BYTES_ACKNOWLEDGED_AT)[0]
                sent += _INT.unpack(waiting)[0]
    return Traffic(sent, received, retransmitted)
