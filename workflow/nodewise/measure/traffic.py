"""Count the bytes that this process sent and received over TCP, as the kernel counts them."""

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
    """Bytes of TCP payload: sent for the first time, received, and retransmitted.

    Retransmissions are counted separately, because they do not belong to what a strategy has to
    send: a busy machine acknowledges late and so causes needless ones, even on loopback.
    """

    sent: int
    received: int
    retransmitted: int


def traffic() -> Traffic:
    """Return the TCP bytes of all sockets that this process currently has open.

    The difference of two readings is the traffic between them, if no connection was closed in
    between; collectives and parameter servers keep theirs open. `sent` is what was acknowledged
    plus what still waits for its acknowledgement. (The kernel's own count of sent bytes is not
    used: it counts bytes twice that the sender's rate-limited queue refused at first, and does not
    call these retransmitted.)
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
