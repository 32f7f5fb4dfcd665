"""The parts of tools/dev/softroce-vm."""
