"""Kinds of cluster. Each module registers the settings of one kind in CLUSTERS."""
