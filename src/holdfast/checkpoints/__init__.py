"""Checkpoints as files: their metadata, where they are kept, how they are made and brought back."""
