"""Models: the registry, and how a model is built, fed, counted and described."""
