"""What the planes agree on: the control plane writes it, receiver and dispatcher follow it."""
