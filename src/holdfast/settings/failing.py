"""The options about failures: who restarts, when and how often, and when a runner counts as dead.

Names, defaults and limits are Flink's unless the description says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.settings.model import BoundedRestart, Scope
from holdfast.settings.options import Option
from holdfast.settings.rules import RULES
from holdfast.settings.strategies import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    Strategy,
)
from holdfast.settings.values import (
    DURATION,
    INTEGER,
    LARGEST_INTEGER,
    NUMBER,
    Kind,
    folded,
    one_of,
    read_integer,
    read_number,
)

NONE, FIXED_DELAY, FAILURE_RATE = "none", "fixed-delay", "failure-rate"
EXPONENTIAL_DELAY = "exponential-delay"
_TYPES = {
    **dict.fromkeys(("none", "off", "disable"), NONE),
    **dict.fromkeys(("fixed-delay", "fixeddelay"), FIXED_DELAY),
    **dict.fromkeys(("failure-rate", "failurerate"), FAILURE_RATE),
    **dict.fromkeys(("exponential-delay", "exponentialdelay"), EXPONENTIAL_DELAY),
}
_SCOPES = {**{scope.value: scope for scope in Scope}, "all": Scope.ALL}


def _read_type(text: str) -> str:
    if folded(text) not in _TYPES:
        raise ValueError(
            "must be one of none (off, disable), fixed-delay, failure-rate, exponential-delay"
        )
    return _TYPES[folded(text)]


def _read_scope(text: str) -> Scope:
    if folded(text) not in _SCOPES:
        raise ValueError("must be one of individual, region, full (all)")
    return _SCOPES[folded(text)]


def _read_attempts(text: str) -> int:
    return LARGEST_INTEGER if folded(text) == "infinite" else read_integer(text)


def _read_multiplier(text: str) -> float:
    value = read_number(text)
    if not 1 < value < float("inf"):
        raise ValueError("must be more than 1")
    return value


_ATTEMPTS = Kind("integer or `infinite`", _read_attempts)
_RESTART = "restart-strategy."
_EXPONENTIAL = f"{_RESTART}exponential-delay."
_WITH = "With `{}`: ".format

RESTART = Option(
    f"{_RESTART}type",
    Kind(
        "`none` (`off`, `disable`), `fixed-delay`, `failure-rate`, `exponential-delay`", _read_type
    ),
    "Whether and when a job restarts after a failure that it can recover from. The keys of the "
    "other strategies are then without effect.",
    otherwise="`exponential-delay` if the job takes checkpoints by itself or has mode "
    "`at-most-once`, else `none`",
    old=("restart-strategy",),
)
FIXED_ATTEMPTS = Option(
    f"{_RESTART}fixed-delay.attempts",
    _ATTEMPTS,
    f"{_WITH(FIXED_DELAY)}restarts before the job fails; 3 means that the fourth failure ends it.",
    default="1",
    least="0",
)
FIXED_WAIT = Option(
    f"{_RESTART}fixed-delay.delay",
    DURATION,
    f"{_WITH(FIXED_DELAY)}wait before each restart.",
    default="1 s",
)
RATE_MOST = Option(
    f"{_RESTART}failure-rate.max-failures-per-interval",
    INTEGER,
    f"{_WITH(FAILURE_RATE)}failures within the interval that do not fail the job.",
    default="1",
    least="1",
)
RATE_INTERVAL = Option(
    f"{_RESTART}failure-rate.failure-rate-interval",
    DURATION,
    f"{_WITH(FAILURE_RATE)}the interval.",
    default="1 min",
    least="1 ms",
)
RATE_WAIT = Option(
    f"{_RESTART}failure-rate.delay",
    DURATION,
    f"{_WITH(FAILURE_RATE)}wait before each restart.",
    default="1 s",
)
INITIAL_BACKOFF = Option(
    f"{_EXPONENTIAL}initial-backoff",
    DURATION,
    f"{_WITH(EXPONENTIAL_DELAY)}the first wait, and the shortest.",
    default="1 s",
    least="1 ms",
)
MAX_BACKOFF = Option(
    f"{_EXPONENTIAL}max-backoff",
    DURATION,
    f"{_WITH(EXPONENTIAL_DELAY)}the longest wait.",
    default="1 min",
    least="1 ms",
)
MULTIPLIER = Option(
    f"{_EXPONENTIAL}backoff-multiplier",
    Kind("number more than 1", _read_multiplier),
    f"{_WITH(EXPONENTIAL_DELAY)}how much longer each wait is than the one before.",
    default="1.5",
)
RESET_AFTER = Option(
    f"{_EXPONENTIAL}reset-backoff-threshold",
    DURATION,
    f"{_WITH(EXPONENTIAL_DELAY)}a job that has run so long without a failure begins anew with the "
    "first wait, and counts its restarts from there.",
    default="1 h",
    least="1 ms",
)
JITTER = Option(
    f"{_EXPONENTIAL}jitter-factor",
    NUMBER,
    f"{_WITH(EXPONENTIAL_DELAY)}part of the wait that chance adds or takes away, so that jobs do "
    "not all restart at once.",
    default="0.1",
    least="0",
    most="1",
)
EXPONENTIAL_ATTEMPTS = Option(
    f"{_EXPONENTIAL}attempts-before-reset-backoff",
    _ATTEMPTS,
    f"{_WITH(EXPONENTIAL_DELAY)}restarts before the job fails, counted since the last quiet time.",
    default="infinite",
    least="1",
)
FAILOVER = Option(
    "jobmanager.execution.failover-strategy",
    Kind("`individual`, `region`, `full` (`all`)", _read_scope),
    "Who restarts first: the region that failed, all regions that channels join with it, or all. "
    "If it fails again before it has committed a batch, the next larger scope is tried. Flink's "
    "default is `region`; here a region can come back alone, because channels are durable.",
    default="individual",
)
HEARTBEAT_INTERVAL = Option(
    "heartbeat.interval",
    DURATION,
    "How often a runner tells its supervisor that it lives, and how far it is.",
    default="10 s",
    least="1 ms",
)
HEARTBEAT_TIMEOUT = Option(
    "heartbeat.timeout",
    DURATION,
    "A runner that has not been heard of for so long is ended and started again.",
    default="50 s",
    least="1 ms",
)
EXCEPTION_HISTORY_SIZE = Option(
    "web.exception-history-size",
    INTEGER,
    "Failures that are remembered.",
    default="16",
    least="1",
)
STUCK_TIMEOUT = Option(
    "holdfast.stuck-timeout",
    DURATION,
    "A runner that has work and in all this time ends no task, commits no batch and completes no "
    "checkpoint is stuck: it is ended and started again. So is one that does not get done with "
    "stopping. Longer than the longest task and the longest restore; 0 is never.",
    default="10 min",
)
FAILURE_RULES = Option(
    "holdfast.failure-rules",
    RULES,
    "Classes of failures, before those that are built in: `Environment: type=java.net.*, "
    "text=no route; NonRecoverable: condition=DIVIDE_BY_ZERO`, or a list of such texts. The first "
    "rule wins of which all parts apply to one cause of the failure. Type: class name, whole or "
    "its last part, `*` for any text; condition: Spark's, `A.*` for all below `A`; text: regular "
    "expression.",
)
BOUNDED_RESTART = Option(
    "holdfast.bounded.restart",
    one_of(BoundedRestart),
    "Where a job with bounded input begins again after a failure: where it was or at its newest "
    "checkpoint, as others do, or (`scratch`) with empty state at the first row as long as no "
    "checkpoint has completed. Sinks keep what they have, so with `scratch` they should be "
    "idempotent.",
    default="checkpoint",
)

FAILURE_OPTIONS: tuple[Option[Any], ...] = (
    RESTART,
    FIXED_ATTEMPTS,
    FIXED_WAIT,
    RATE_MOST,
    RATE_INTERVAL,
    RATE_WAIT,
    INITIAL_BACKOFF,
    MAX_BACKOFF,
    MULTIPLIER,
    RESET_AFTER,
    JITTER,
    EXPONENTIAL_ATTEMPTS,
    FAILOVER,
    HEARTBEAT_INTERVAL,
    HEARTBEAT_TIMEOUT,
    EXCEPTION_HISTORY_SIZE,
    STUCK_TIMEOUT,
    FAILURE_RULES,
    BOUNDED_RESTART,
)

Get = Callable[[Option[Any]], Any]


def strategy_of(kind: str, get: Get) -> Strategy:
    """The strategy of this type; ``get`` gives the value of an option that has a default."""
    match kind:
        case "fixed-delay":
            return FixedDelay(_endless(get(FIXED_ATTEMPTS)), get(FIXED_WAIT))
        case "failure-rate":
            return FailureRate(get(RATE_MOST), get(RATE_INTERVAL), get(RATE_WAIT))
        case "exponential-delay":
            return ExponentialDelay(
                initial=get(INITIAL_BACKOFF),
                longest=get(MAX_BACKOFF),
                multiplier=get(MULTIPLIER),
                reset_after=get(RESET_AFTER),
                jitter=get(JITTER),
                attempts=_endless(get(EXPONENTIAL_ATTEMPTS)),
            )
    return NoRestart()


def _endless(attempts: int) -> int | None:
    return None if attempts == LARGEST_INTEGER else attempts
