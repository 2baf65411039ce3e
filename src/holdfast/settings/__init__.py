"""Settings of a job: Flink's keys, from arguments, environment, file and code, checked at once."""

from holdfast.errors import SettingsError
from holdfast.settings.known import OPTIONS, variable_of
from holdfast.settings.model import (
    Backend,
    BoundedRestart,
    Checkpointing,
    Described,
    Mode,
    Retention,
    Scope,
    Settings,
    StorageKind,
    Trigger,
)
from holdfast.settings.options import Option
from holdfast.settings.resolution import resolve
from holdfast.settings.rules import FailureClass, Rule
from holdfast.settings.strategies import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    Strategy,
)

__all__ = [
    "OPTIONS",
    "Backend",
    "BoundedRestart",
    "Checkpointing",
    "Described",
    "ExponentialDelay",
    "FailureClass",
    "FailureRate",
    "FixedDelay",
    "Mode",
    "NoRestart",
    "Option",
    "Retention",
    "Rule",
    "Scope",
    "Settings",
    "SettingsError",
    "StorageKind",
    "Strategy",
    "Trigger",
    "resolve",
    "variable_of",
]
