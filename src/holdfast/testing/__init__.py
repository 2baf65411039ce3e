"""Suites that users may run against what they write themselves: storages, for now."""
