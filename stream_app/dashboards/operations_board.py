"""The *Operations* dashboard: for who keeps it running. Are we releasing, how late, what is refused."""

from __future__ import annotations

from stream_app.dashboards.panels import (
    GUESS_ATTACK_CEILING,
    NOT_REACHED,
    PEOPLE_OVER_LIMIT,
    PRIORS_REFUTED,
    Dashboard,
    Panel,
    Query,
    Row,
)
from stream_app.watching.wording import DISTANCE

_SECONDS_BEHIND = "time() - max(tallyguard_last_progress_timestamp_seconds{$SELECT})"


def _latency(quantile: str) -> Query:
    """A quantile of the step latency; nothing, instead of NaN, while no step is closed."""
    buckets = "sum by (le) (rate(tallyguard_step_latency_seconds_bucket{$SELECT}[$__rate_interval]))"
    return Query(f"histogram_quantile({quantile}, {buckets}) >= 0", f"{float(quantile):.0%} of steps")


_NOW = Row(
    "Now",
    (
        Panel(
            "Running",
            "Engines that are closing steps.",
            "short",
            (Query("sum(tallyguard_running{$SELECT})", "running"),),
            kind="stat",
            width=4,
            height=5,
            limits=((None, "red"), (1.0, "blue")),
        ),
        Panel(
            "Last closed step",
            "The highest step that is closed, accounted and published.",
            "none",
            (Query("max(tallyguard_last_step{$SELECT})", "step"),),
            kind="stat",
            width=5,
            height=5,
        ),
        Panel(
            "Since the last step",
            "Time since a step was closed; up to a step's length is normal.",
            "s",
            (Query(_SECONDS_BEHIND, "ago"),),
            kind="stat",
            width=5,
            height=5,
        ),
        Panel(
            "Steps behind",
            "Steps seen but not yet closed and accounted; up to the grace is normal.",
            "none",
            (Query("max(tallyguard_accountant_lag_steps{$SELECT})", "steps"),),
            kind="stat",
            width=5,
            height=5,
            limits=((None, "blue"), (6.0, "orange")),
        ),
        Panel(
            "Clock off",
            "With grace_seconds: seconds the clock is ahead (the jump is ignored) or behind (steps wait for "
            "it); 0 is right.",
            "s",
            (Query("max by (direction) (tallyguard_clock_off_seconds{$SELECT})", "{{direction}}"),),
            kind="stat",
            width=4,
            height=5,
            limits=((None, "blue"), (5.0, "orange")),
        ),
        Panel(
            "People over the limit",
            "Of the risk budget, by releases and by habit alone, beside how many may be; the privacy "
            "dashboard has more.",
            "short",
            PEOPLE_OVER_LIMIT,
            kind="stat",
            width=8,
            height=5,
        ),
        Panel(
            "Messages rejected in the last hour",
            "Dead letters, each kept with reason and hint.",
            "short",
            (Query("sum(increase(tallyguard_rejected_total{$SELECT}[1h]))", "rejected"),),
            kind="stat",
            width=5,
            height=5,
            limits=((None, "blue"), (20.0, "orange")),
        ),
    ),
)

_FLOW = Row(
    "Are we releasing",
    (
        Panel(
            "Steps closed",
            "Steps closed and published each second.",
            "ops",
            (Query("sum(rate(tallyguard_steps_closed_total{$SELECT}[$__rate_interval]))", "steps"),),
        ),
        Panel(
            "Releases by mechanism",
            "Sensor-steps each second; a missing reading is released as nothing (suppressed).",
            "ops",
            (
                Query(
                    "sum by (mechanism) (rate(tallyguard_releases_total{$SELECT}[$__rate_interval]))",
                    "{{mechanism}}",
                ),
            ),
        ),
        Panel(
            "Readings by outcome",
            "Readings each second: accepted, repeated, or refused.",
            "ops",
            (
                Query(
                    "sum by (outcome) (rate(tallyguard_readings_total{$SELECT}[$__rate_interval]))",
                    "{{outcome}}",
                ),
            ),
        ),
        Panel(
            "Rejected by reason",
            "Messages that went to the dead letters each second, by reason.",
            "ops",
            (
                Query(
                    "sum by (reason) (rate(tallyguard_rejected_total{$SELECT}[$__rate_interval]))",
                    "{{reason}}",
                ),
            ),
        ),
    ),
)

_RISK = Row(
    "What it means for people",
    (
        Panel(
            "Guess, attack and ceiling",
            f"Means over people; the privacy dashboard has more. {DISTANCE}",
            "percentunit",
            GUESS_ATTACK_CEILING,
            decimals=2,
            width=24,
        ),
        PRIORS_REFUTED,
    ),
)

_SPEED = Row(
    "How fast",
    (
        Panel(
            "Lag",
            "Steps seen but not yet closed, by instance.",
            "short",
            (Query("max by (instance) (tallyguard_accountant_lag_steps{$SELECT})", "{{instance}}"),),
        ),
        Panel(
            "Step latency",
            "From the message that closed a step to its durable release and risks.",
            "s",
            (_latency("0.5"), _latency("0.9"), _latency("0.99")),
        ),
        Panel(
            "Person-steps accounted",
            "People times steps accounted each second.",
            "ops",
            (Query("sum(rate(tallyguard_person_steps_total{$SELECT}[$__rate_interval]))", "person-steps"),),
        ),
        NOT_REACHED,
        Panel(
            "Processor",
            "Cores in use, by instance.",
            "short",
            (
                Query(
                    "sum by (instance) (rate(process_cpu_seconds_total{$SELECT}[$__rate_interval]))",
                    "{{instance}}",
                ),
            ),
        ),
        Panel(
            "Memory",
            "Resident memory, by instance.",
            "bytes",
            (Query("max by (instance) (process_resident_memory_bytes{$SELECT})", "{{instance}}"),),
        ),
        Panel(
            "What is running",
            "Version of each instance, and what its risks refer to: horizon and mistakes.",
            "short",
            (
                Query(
                    "max by (instance, version) (tallyguard_build_info{$SELECT})", "{{instance}}: {{version}}"
                ),
                Query(
                    "max by (instance, deployment, horizon, mistakes) (tallyguard_config_info{$SELECT})",
                    "{{deployment}}: {{horizon}} steps, {{mistakes}} mistakes",
                ),
            ),
            kind="bargauge",
        ),
    ),
)

OPERATIONS = Dashboard(
    "tallyguard-operations",
    "tallyguard / Operations",
    "Whether counts are being published, how late, what is refused, and what it costs the machine.",
    (_NOW, _FLOW, _RISK, _SPEED),
)
