"""Laws of the step time, one file per law."""
