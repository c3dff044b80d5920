"""`nodewise`, also as `python -m nodewise`."""

from nodewise.cli import main

if __name__ == "__main__":
    main()
