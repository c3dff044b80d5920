"""`nodewise`, also as `python -m nodewise`."""

import sys

from nodewise.fork_server import run_there


def main() -> None:
    """Run the command line: in a process forked for it where there is one to fork from."""
    status = run_there(sys.argv[1:])
    if status is None:
        from nodewise.cli import main as run  # here: a command that is forked does without

        run()
    sys.exit(status)


if __name__ == "__main__":
    main()
