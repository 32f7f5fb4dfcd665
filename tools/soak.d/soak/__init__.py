"""The parts of tools/soak."""
