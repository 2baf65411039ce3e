"""Measurements, each against the obvious alternative, in one run on one machine."""
