"""Exchange JSON messages between a worker and its launcher."""

import json
from multiprocessing.connection import Connection
from typing import Any

Message = dict[str, Any]


class Channel:
    """A worker's connection to its launcher, for JSON messages in both directions."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def send(self, message: Message) -> None:
        """Send a message to the launcher."""
        send(self.connection, message)

    def meet(self, name: str) -> bool:
        """Wait until every worker has come to meeting `name` and the launcher has acted on it.

        Returns:
            True if the workers have to repeat what they did since the last meeting.

        Raises:
            ConnectionError: the launcher is gone.
        """
        self.send({"meet": name})
        return bool(self.wait()["again"])

    def share(self, value: Any, workers: int) -> list[Any]:  # noqa: ANN401
        """Share a JSON value with other workers; wait for their values.

        Args:
            value: value of this worker.
            workers: number of workers that share a value.

        Returns:
            The values of all these workers, by rank.

        Raises:
            ConnectionError: the launcher is gone.
        """
        self.send({"meet": "share", "workers": workers, "value": value})
        values: list[Any] = self.wait()["values"]
        return values

    def wait(self) -> Message:
        """Wait for the next message of the launcher and return it.

        Raises:
            ConnectionError: the launcher is gone.
        """
        return receive(self.connection)


def send(connection: Connection, message: Message) -> None:
    """Send a message. It ends with a newline, because srun forwards whole lines only."""
    connection.send_bytes(f"{json.dumps(message)}\n".encode())


def receive(connection: Connection) -> Message:
    """Wait for the next message and return it.

    Raises:
        ConnectionError: the other side is gone, perhaps in the middle of a message.
    """
    try:
        message: Message = json.loads(connection.recv_bytes())
    except (EOFError, OSError) as error:
        raise ConnectionError("the other side is gone") from error
    return message
