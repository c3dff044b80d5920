"""Which cells a study has, how long they take (`estimate`, `plan`), which have no result."""
