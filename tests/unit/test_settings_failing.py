"""Settings about failures: restart strategies, failover, heartbeats, rules, at most once."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.settings import (
    BoundedRestart,
    ExponentialDelay,
    FailureClass,
    FailureRate,
    FixedDelay,
    Mode,
    NoRestart,
    Rule,
    Scope,
    Strategy,
)
from tests.unit.test_settings import CHK, refusal, settings

RESTART = "restart-strategy."
EXPONENTIAL = f"{RESTART}exponential-delay."
RULES = "holdfast.failure-rules"


def rules(text: object) -> list[tuple[FailureClass, str | None, str | None, str | None]]:
    found = settings({RULES: text}).failure_rules
    return [(rule.kind, rule.type, rule.condition, rule.text) for rule in found]


def test_with_nothing_set_a_job_has_flinks_defaults_but_for_the_failover() -> None:
    nothing = settings()
    assert nothing.failover is Scope.INDIVIDUAL
    assert (nothing.heartbeat_interval, nothing.heartbeat_timeout) == (10, 50)
    assert nothing.stuck_timeout == 600
    assert nothing.exception_history_size == 16
    assert nothing.failure_rules == ()
    assert nothing.bounded_restart is BoundedRestart.CHECKPOINT


@pytest.mark.parametrize(
    ("given", "strategy", "shown"),
    [
        ({}, NoRestart(), "none"),
        ({f"{CHK}interval": "1 s"}, ExponentialDelay(), "exponential-delay"),
        ({"holdfast.checkpoint.every-batch": True}, ExponentialDelay(), "exponential-delay"),
        ({f"{CHK}mode": "at-most-once"}, ExponentialDelay(), "exponential-delay"),
    ],
)
def test_a_job_restarts_by_itself_if_it_takes_checkpoints(
    given: dict[str, object], strategy: Strategy, shown: str
) -> None:
    found = settings(given)
    assert found.restart == strategy
    assert (f"{RESTART}type", shown, "default") in found.describe()


def test_a_strategy_that_is_chosen_counts_with_and_without_checkpoints() -> None:
    chosen: dict[str, object] = {f"{RESTART}type": "fixed-delay"}
    assert settings(chosen).restart == FixedDelay(1, 1)
    assert settings({**chosen, f"{CHK}interval": "1 s"}).restart == FixedDelay(1, 1)


@pytest.mark.parametrize(
    ("written", "strategy"),
    [
        *((name, NoRestart()) for name in ("none", "off", "DISABLE")),
        *((name, FixedDelay()) for name in ("fixed-delay", "fixeddelay", "FIXED_DELAY")),
        *((name, FailureRate()) for name in ("failure-rate", "failurerate")),
        *((name, ExponentialDelay()) for name in ("exponential-delay", "exponentialdelay")),
    ],
)
@pytest.mark.parametrize("key", ["restart-strategy", f"{RESTART}type"])
def test_a_strategy_may_be_written_in_all_of_flinks_ways(
    key: str, written: str, strategy: Strategy
) -> None:
    assert settings({key: written}).restart == strategy


def test_every_parameter_of_a_strategy_can_be_set() -> None:
    code = {
        f"{RESTART}fixed-delay.attempts": 3,
        f"{RESTART}fixed-delay.delay": "0 s",
        f"{RESTART}failure-rate.max-failures-per-interval": 4,
        f"{RESTART}failure-rate.failure-rate-interval": "5 min",
        f"{RESTART}failure-rate.delay": "10 s",
        f"{EXPONENTIAL}initial-backoff": "10 s",
        f"{EXPONENTIAL}max-backoff": "2 min",
        f"{EXPONENTIAL}backoff-multiplier": 1.4,
        f"{EXPONENTIAL}reset-backoff-threshold": "10 min",
        f"{EXPONENTIAL}jitter-factor": 0.2,
        f"{EXPONENTIAL}attempts-before-reset-backoff": 10,
    }
    by_type = {
        kind: settings({**code, f"{RESTART}type": kind}).restart
        for kind in ("none", "fixed-delay", "failure-rate", "exponential-delay")
    }
    assert by_type == {
        "none": NoRestart(),
        "fixed-delay": FixedDelay(3, 0),
        "failure-rate": FailureRate(4, 300, 10),
        "exponential-delay": ExponentialDelay(10, 120, 1.4, 600, 0.2, 10),
    }


@pytest.mark.parametrize("written", ["infinite", "INFINITE", 2**31 - 1])
def test_attempts_may_be_without_end(written: object) -> None:
    fixed = {f"{RESTART}type": "fixed-delay", f"{RESTART}fixed-delay.attempts": written}
    assert settings(fixed).restart == FixedDelay(None, 1)
    key = f"{EXPONENTIAL}attempts-before-reset-backoff"
    assert settings({f"{CHK}interval": "1 s", key: written}).restart == ExponentialDelay()


@pytest.mark.parametrize(
    ("written", "scope"),
    [
        ("individual", Scope.INDIVIDUAL),
        ("Region", Scope.REGION),
        ("full", Scope.ALL),
        ("all", Scope.ALL),
    ],
)
def test_the_failover_strategy_is_flinks_or_ours(written: str, scope: Scope) -> None:
    assert settings({"jobmanager.execution.failover-strategy": written}).failover is scope


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        (f"{RESTART}type", "sometimes", "must be one of none (off, disable), fixed-delay"),
        (f"{RESTART}fixed-delay.attempts", -1, "at least 0"),
        (f"{RESTART}fixed-delay.attempts", "many", "must be a whole number"),
        (f"{RESTART}fixed-delay.delay", "-1 s", "must be a duration"),
        (f"{RESTART}failure-rate.max-failures-per-interval", 0, "at least 1"),
        (f"{RESTART}failure-rate.failure-rate-interval", "0 s", "at least 1 ms"),
        (f"{EXPONENTIAL}initial-backoff", "0 s", "at least 1 ms"),
        (f"{EXPONENTIAL}initial-backoff", "2 min", f"longer than {EXPONENTIAL}max-backoff"),
        (f"{EXPONENTIAL}max-backoff", "0.5 s", "must be a duration"),
        (f"{EXPONENTIAL}max-backoff", "500 ms", f"than {EXPONENTIAL}initial-backoff (1 s)"),
        (f"{EXPONENTIAL}backoff-multiplier", 1, "must be more than 1"),
        (f"{EXPONENTIAL}backoff-multiplier", "1e999", "must be more than 1"),
        (f"{EXPONENTIAL}reset-backoff-threshold", 0, "at least 1 ms"),
        (f"{EXPONENTIAL}jitter-factor", -0.1, "at least 0"),
        (f"{EXPONENTIAL}jitter-factor", 1.1, "at most 1"),
        (f"{EXPONENTIAL}attempts-before-reset-backoff", 0, "at least 1"),
        ("restart-strategy.fixed-delay.attemps", 3, "did you mean restart-strategy.fixed-delay"),
        ("jobmanager.execution.failover-strategy", "some", "one of individual, region, full"),
        ("heartbeat.interval", "1 min", "must not be longer than heartbeat.timeout"),
        ("heartbeat.timeout", "9 s", "must not be shorter than heartbeat.interval (10 s)"),
        ("heartbeat.interval", 0, "at least 1 ms"),
        ("heartbeat.rpc-failure-threshold", 3, "a runner whose pipe is closed is gone"),
        ("web.exception-history-size", 0, "at least 1"),
        ("holdfast.bounded.restart", "never", "must be one of checkpoint, scratch"),
    ],
)
def test_what_flink_would_not_take_is_refused_with_what_is_allowed(
    key: str, value: object, allowed: str
) -> None:
    said = refusal({key: value})
    assert said.startswith("a setting is wrong")
    assert f"{key} = " in said
    assert allowed in said


def test_a_runner_may_be_allowed_to_be_stuck() -> None:
    assert settings({"holdfast.stuck-timeout": 0}).stuck_timeout is None
    assert settings({"holdfast.stuck-timeout": "1 h"}).stuck_timeout == 3600


def test_rules_are_a_list_in_a_file_or_one_text(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.toml"
    file.write_text(
        '"holdfast.failure-rules" = ["Environment: type=java.net.*", '
        '"non-recoverable: condition=DIVIDE_BY_ZERO, text=x"]\n'
    )
    text = "Environment: type=java.net.*; NonRecoverable: condition=DIVIDE_BY_ZERO, text=x;"
    assert settings(file=file).failure_rules == (
        Rule(
            FailureClass.ENVIRONMENT,
            type="java.net.*",
            why=f"{RULES} says so (Environment: type=java.net.*)",
        ),
        Rule(
            FailureClass.NON_RECOVERABLE,
            condition="DIVIDE_BY_ZERO",
            text="x",
            why=f"{RULES} says so (non-recoverable: condition=DIVIDE_BY_ZERO, text=x)",
        ),
    )
    assert rules(text) == [
        (FailureClass.ENVIRONMENT, "java.net.*", None, None),
        (FailureClass.NON_RECOVERABLE, None, "DIVIDE_BY_ZERO", "x"),
    ]


def test_the_text_of_a_rule_may_hold_what_separates_rules() -> None:
    written = "Recoverable: type=a.B, text=x, y; z: 1 = 2; PARTITION_DATA_MISSING: text=(a|b);?"
    assert rules(written) == [
        (FailureClass.RECOVERABLE, "a.B", None, "x, y; z: 1 = 2"),
        (FailureClass.PARTITION_DATA_MISSING, None, None, "(a|b);?"),
    ]


@pytest.mark.parametrize("written", ["", " ; ", []])
def test_there_may_be_no_rules(written: object) -> None:
    assert rules(written) == []


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("Harmless: type=X", "'Harmless' is none of them"),
        ("Environment: type=X; Recovrable: type=Y", "'Recovrable' is none of them"),
        ("type=X", "is none of them"),
        ("Environment", "'' cannot be read"),
        ("Environment:", "'' cannot be read"),
        ("Environment: typ=X", "'typ=X' cannot be read"),
        ("Environment: type=", "'type=' cannot be read"),
        ("Environment: type=X, type=Y", "'type=Y' cannot be read"),
        ("Environment: type=X or Y", "'X or Y' is not the name of a class"),
        ("Environment: condition=no good", "'no good' is not one of Spark's conditions"),
        ("Environment: text=(", "no regular expression"),
    ],
)
def test_a_rule_that_cannot_be_read_is_refused_with_what_is_wrong(written: str, said: str) -> None:
    assert said in refusal({RULES: written})


def test_at_most_once_takes_no_checkpoints() -> None:
    found = settings({f"{CHK}mode": "AT_MOST_ONCE"}).checkpointing
    assert (found.mode, found.interval) == (Mode.AT_MOST_ONCE, None)
    said = refusal(
        {
            f"{CHK}mode": "at-most-once",
            f"{CHK}interval": "1 s",
            f"{CHK}unaligned": True,
            "holdfast.checkpoint.every-batch": True,
            "holdfast.bounded.restart": "scratch",
        }
    )
    assert said.startswith("4 settings are wrong:")
    assert f"{CHK}interval = '1 s' (code): asks for checkpoints" in said
    assert "every-batch = 'true' (code): asks for checkpoints" in said
    assert f"needs {CHK}mode exactly-once" in said
    assert "holdfast.bounded.restart = 'scratch' (code): counts rows again" in said


def test_a_mode_that_cannot_be_read_causes_no_second_complaint() -> None:
    said = refusal({f"{CHK}mode": "once", f"{CHK}interval": "1 s"})
    assert said.startswith("a setting is wrong")
