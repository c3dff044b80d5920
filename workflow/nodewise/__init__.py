"""nodewise: how many nodes should train this model, in which way, and what does it cost?"""

__version__ = "0.1.0"
