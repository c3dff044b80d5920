"""What was measured or published: records, calibrations, and the tables made of them."""
