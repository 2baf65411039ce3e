"""A process outside the runner that starts it again when it dies, and the link between the two."""
