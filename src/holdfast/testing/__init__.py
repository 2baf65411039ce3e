"""Suites that users may run against what they write themselves; they need pytest.

``storage``, ``storage_tree``   ``StorageContract``, ``TreeContract``
``sinks``                       ``TwoPhaseCommitContract``, ``WriteAheadContract``
"""
