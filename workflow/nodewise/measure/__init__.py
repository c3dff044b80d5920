"""What is observed around a step: traffic, start-up, provenance."""
