"""What every layer uses: errors, files, checked values, units, intervals, cells."""
