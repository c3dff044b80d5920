"""Models: which there are, how one is built, fed, counted and described."""
