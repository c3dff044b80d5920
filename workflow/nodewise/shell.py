"""The page whose surroundings all pages of cells get.

It is as deep in folders as they are, since the addresses in it are relative, but no cell's. Its
heading is replaced by a cell, its title by that of the cell.
"""

SHELL = "cells/-/-/-/-/-/cell.html"
SHELL_TITLE = "TheTitleOfACell"  # only letters: the same in HTML
