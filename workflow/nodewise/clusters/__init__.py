"""Where workers run: start n of them, hear what they say, leave nothing behind."""
