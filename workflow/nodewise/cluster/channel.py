"""The connection between a worker and its launcher: JSON messages in both directions."""

import json
from multiprocessing.connection import Connection
from typing import Any

Message = dict[str, Any]


class Channel:
    """A worker's connection to its launcher: JSON in both directions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def fileno(self) -> int:
        """Return the descriptor, for a program that this process becomes."""
        return self._connection.fileno()

    def send(self, message: Message) -> None:
        """Tell the launcher something."""
        send(self._connection, message)

    def meet(self, name: str) -> bool:
        """Return when every worker has come to meeting `name` and the launcher has acted on it.

        True if the launcher wants what was done since the last meeting done once more.

        Raises:
            ConnectionError: the launcher is gone.
        """
        self.send({"meet": name})
        return bool(self.wait()["again"])

    def share(self, value: Any, workers: int) -> list[Any]:  # noqa: ANN401
        """Return the values, JSON, of all `workers` that share one, when the last of them has come.

        Raises:
            ConnectionError: the launcher is gone.
        """
        self.send({"share": value, "workers": workers})
        shared: list[Any] = self.wait()["shared"]
        return shared

    def wait(self) -> Message:
        """Return the next message of the launcher.

        Raises:
            ConnectionError: the launcher is gone.
        """
        try:
            return receive(self._connection)
        except EOFError as error:
            raise ConnectionError("the launcher is gone") from error


def send(connection: Connection, message: Message) -> None:
    """Send a message. It is a line, as srun hands on nothing before the end of one."""
    connection.send_bytes(f"{json.dumps(message)}\n".encode())


def receive(connection: Connection) -> Message:
    """Return the next message.

    Raises:
        EOFError: the other side is gone.
    """
    message: Message = json.loads(connection.recv_bytes())
    return message
