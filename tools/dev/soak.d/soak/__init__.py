"""The parts of tools/dev/soak."""
