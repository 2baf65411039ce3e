"""What users may need for tests of their own.

Suites against what they write themselves; these need pytest:

``storage``, ``storage_tree``   ``StorageContract``, ``TreeContract``
``sinks``                       ``TwoPhaseCommitContract``, ``WriteAheadContract``

Real servers:

``kafka``                       ``kafka_broker``
``kafka_connector``             ``connector_jars``, for a Spark that cannot fetch them
"""
