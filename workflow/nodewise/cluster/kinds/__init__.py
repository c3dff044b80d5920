"""The kinds of clusters: each module registers the settings of one in CLUSTERS."""
