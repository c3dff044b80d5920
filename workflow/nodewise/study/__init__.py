"""Which cells a study consists of, how long they take, which have no result."""
