"""`python -m nodewise`."""

from nodewise.cli import main

main()
