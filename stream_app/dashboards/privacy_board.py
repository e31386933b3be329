"""The *Privacy* dashboard: for the officer. How many people, how it moves, what causes it, what is left."""

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
    mean_over_people,
)
from stream_app.watching.wording import DISTANCE

_CAUTION = ((None, "blue"), (0.1, "yellow"), (0.25, "orange"))

_NOW = Row(
    "Now",
    (
        Panel(
            "People accounted",
            "Everybody whose movement prior is loaded and whose risk is bounded at each step.",
            "short",
            (
                Query("sum(tallyguard_people{$SELECT})", "people"),
                Query(
                    "sum(tallyguard_people{$SELECT} * tallyguard_habits_assumed{$SELECT})",
                    "where habits are assumed, not measured",
                ),
            ),
            kind="stat",
            width=4,
            height=6,
        ),
        Panel(
            "Limit of the risk budget",
            "What [release.budget] allows anybody: added risk, or certified risk in all. Without a limit "
            "no alert about one fires.",
            "percentunit",
            (Query("max by (of) (tallyguard_budget_limit{$SELECT}) < Inf", "{{of}}"),),
            kind="stat",
            width=4,
            height=6,
            nothing="no limit is set",
        ),
        Panel(
            "People over the limit",
            "Because of releases and by habit alone, beside how many the budget's share allows. If releases "
            "put more people over it, the alert TallyguardRiskBudgetExceeded fires.",
            "short",
            PEOPLE_OVER_LIMIT,
            kind="stat",
            width=6,
            height=6,
        ),
        Panel(
            "Highest added risk",
            "What the releases added, at most, to the risk of the most affected person.",
            "percentunit",
            (Query('max(tallyguard_added_risk_quantile{$SELECT, quantile="1"})', "added").upwards(),),
            kind="stat",
            decimals=2,
            width=4,
            height=6,
            limits=_CAUTION,
            maximum=1.0,
        ),
        Panel(
            "People at or above each risk",
            "People whose ceiling is at or above the threshold: if habits are as assumed, nobody who "
            "knows them, and where everyone else is, reconstructs their last steps more often. If a check "
            "refuted the priors, the ceiling is within the radius that it left.",
            "short",
            (Query("sum by (threshold) (tallyguard_people_at_risk{$SELECT})", "risk {{threshold}} or more"),),
            kind="bargauge",
            width=12,
            height=6,
        ),
        Panel(
            "People whose risk releases raised by at least",
            "People by how much releases may have raised their chance of being traced.",
            "short",
            (
                Query(
                    "sum by (threshold) (tallyguard_people_added_risk{$SELECT})",
                    "added {{threshold}} or more",
                ),
            ),
            kind="bargauge",
            width=12,
            height=6,
        ),
    ),
)

_OVER_TIME = Row(
    "Over time",
    (
        Panel(
            "Guess, attack and ceiling",
            "Ceiling: if habits are as assumed, no method does better, given all releases. "
            "Guess: the best guess from habits alone. The distance between the two is the most that "
            "releases added, unless a check refuted the priors: then the ceiling is within the radius that "
            "it left, and nothing bounds what was added. Attack: how often one method does it that is tried "
            f"on drawn people. {DISTANCE} "
            "Means over everybody, whichever worker accounts them.",
            "percentunit",
            GUESS_ATTACK_CEILING,
            width=24,
            decimals=2,
        ),
        Panel(
            "Mean added risk",
            "Ceiling less guess, over everybody: at most this much is due to the releases.",
            "percentunit",
            (mean_over_people("tallyguard_added_risk_mean", "added").upwards(),),
            decimals=2,
        ),
        Panel(
            "People at risk",
            "People whose ceiling is at or above each threshold.",
            "short",
            (Query("sum by (threshold) (tallyguard_people_at_risk{$SELECT})", "{{threshold}} or more"),),
        ),
        NOT_REACHED,
        Panel(
            "People over the limit, over time",
            "By releases and by habit alone, beside how many the budget's share allows.",
            "short",
            PEOPLE_OVER_LIMIT,
        ),
        Panel(
            "Decisions by reason",
            "Steps decided within an hour under a risk budget, by reason. A contradiction "
            "suppressed a sensor that must be raw.",
            "short",
            (Query("sum by (because) (increase(tallyguard_decisions_total{$SELECT}[1h]))", "{{because}}"),),
        ),
        Panel(
            "How the added risk is spread",
            "This share of people has at most this added risk; 1 is the most affected person.",
            "percentunit",
            (
                Query(
                    "max by (quantile) (tallyguard_added_risk_quantile{$SELECT})", "{{quantile}} of people"
                ).upwards(),
            ),
            decimals=2,
        ),
        Panel(
            "How the risk is spread",
            "This share of people has at most this ceiling; 1 is the most exposed person.",
            "percentunit",
            (
                Query(
                    "max by (quantile) (tallyguard_risk_quantile{$SELECT})", "{{quantile}} of people"
                ).upwards(),
            ),
            decimals=2,
        ),
    ),
)

_TRUST = Row(
    "Can the habits be trusted",
    (
        PRIORS_REFUTED,
        Panel(
            "Evidence of volunteers",
            "What volunteers' true places say against the priors; guesses are counted in twenties. "
            "Right priors ever reach 1 / panel_level (20 unless set otherwise) with at most the probability "
            "panel_level.",
            "short",
            (
                Query("max by (instance) (tallyguard_panel_evidence{$SELECT})", "{{instance}}: evidence"),
                Query("max by (instance) (tallyguard_panel_guesses{$SELECT})", "{{instance}}: guesses"),
            ),
            kind="stat",
            height=5,
            nothing="no panel is set",
        ),
    ),
)

_CAUSES = Row(
    "What causes it",
    (
        Panel(
            "Sensors that reveal most",
            "How many bits each sensor's last release, taken alone, reveals about an average person's place. "
            "Several sensors may reveal the same thing: rank by it, do not add it up.",
            "short",
            (Query("topk(10, max by (sensor) (tallyguard_sensor_information_bits{$SELECT}))", "{{sensor}}"),),
            kind="bargauge",
            height=10,
        ),
        Panel(
            "Expected error of what is published",
            "By how many people a count published in the last step is off on average, from the noise alone; "
            "0 is published as counted. A sensor that published nothing is not shown.",
            "short",
            (
                Query(
                    "topk(10, max by (sensor) (tallyguard_published_error_expected{$SELECT} < +Inf))",
                    "{{sensor}}",
                ),
            ),
            kind="bargauge",
            height=10,
        ),
        Panel(
            "Releases by mechanism",
            "Sensor-steps released each second. Suppressed ones publish nothing and cost nobody anything.",
            "ops",
            (
                Query(
                    "sum by (mechanism) (rate(tallyguard_releases_total{$SELECT}[$__rate_interval]))",
                    "{{mechanism}}",
                ),
            ),
        ),
        Panel(
            "Information by sensor",
            "How many bits each sensor's release, taken alone, reveals about where an average person is: the "
            "eight sensors that revealed most over the time shown.",
            "short",
            (
                Query(
                    "max by (sensor) (tallyguard_sensor_information_bits{$SELECT}) and topk(8, "
                    "max by (sensor) (avg_over_time(tallyguard_sensor_information_bits{$SELECT}[$__range] "
                    "@ end())))",
                    "{{sensor}}",
                ),
            ),
        ),
    ),
)

_CROWD = Row(
    "What the crowd hides for nothing",
    (
        Panel(
            "Hidden by the crowd, by sensor",
            "How much noise, in people, would hide as much of the sensor's last count as the crowd did, "
            "against whoever does not know where the others are. 0: nobody is hidden, or no crowd is "
            "computed (crowd.on); a sensor that counted nothing in the last step is not shown. It holds if "
            "the others move as their priors say, each alone.",
            "short",
            (
                Query(
                    "bottomk(20, max by (sensor) (tallyguard_sensor_crowd_sigma{$SELECT} < +Inf))",
                    "{{sensor}}",
                ),
            ),
            kind="bargauge",
            height=10,
        ),
        Panel(
            "People at risk in the crowd",
            "People whose ceiling against whoever does not know where the others are is at or above each "
            "threshold; no series where that is not computed.",
            "short",
            (
                Query(
                    "sum by (threshold) (tallyguard_people_at_crowd_risk{$SELECT} < Inf)",
                    "{{threshold}} or more",
                ),
            ),
            height=10,
        ),
    ),
)

_DIFFERENTIAL = Row(
    "Differential privacy: the worst case, for any observer and any habits",
    (
        Panel(
            "Epsilon spent",
            "Epsilon at the configured delta since the log began, by sensor group. It only grows. "
            "+Inf means no guarantee: counts were published exactly, and the page says of which sensor. The "
            "risk above is the figure to steer by.",
            "short",
            (Query("max by (group) (tallyguard_dp_epsilon{$SELECT})", "{{group}}"),),
        ),
        Panel(
            "zCDP rho spent",
            "The same spend in zero-concentrated differential privacy; it adds up over releases.",
            "short",
            (Query("max by (group) (tallyguard_dp_rho{$SELECT})", "{{group}}"),),
        ),
    ),
)

PRIVACY = Dashboard(
    "tallyguard-privacy",
    "tallyguard / Privacy",
    "How much of each person's movements could be reconstructed from what is published. Computed from priors "
    "and the released schedule, never from a count.",
    (_NOW, _OVER_TIME, _TRUST, _CAUSES, _CROWD, _DIFFERENTIAL),
)
