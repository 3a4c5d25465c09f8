"""What the exact attacks share: rows of a layout, the network's passes over them, certificates and claims."""
