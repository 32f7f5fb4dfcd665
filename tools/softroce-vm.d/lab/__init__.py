"""The parts of tools/softroce-vm."""
