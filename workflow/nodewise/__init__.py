"""nodewise: how many nodes should train this model, with which strategy, and at what cost?"""

__version__ = "0.1.0"
