"""What known rows say of the gradients of all layers at once: their spaces, fits to them, and certificates."""
