"""Personas where the truth is known: two closed loops, and a real home-work table on a map.

``python -m experiments.persona_loops --data FOLDER`` (or ``make personas``). Without
the folder's ``sf_survey`` and ``ny_commuting`` only the loop on the demo's city runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments.drawing import grid, save
from experiments.held_out import find_data
from experiments.measure import markdown, options, write_csv
from experiments.persona_city import HOURS, PEOPLE, CityRow, city_rows
from experiments.persona_survey import STEPS, SurveyRow, survey_rows
from models.fitting.calibration import expected_flows
from stream_app.starting.aggregates import PersonaQuestions, make_personas
from stream_app.starting.aggregates.zone_files import read_points

NOISES = ("raw", "3")
MAP = "personas-new-york.png"

_PAGE = """# Personas where the truth is known

Made by `make personas`; figures in [personas-city.csv](personas-city.csv) and
[personas-survey.csv](personas-survey.csv).
[How personas are made, and what may be said of them](../../how-to/get-a-prior.md).

## Simulated agents, aggregates only, personas

{people} people of [the demo's city](../../explanation/city.md). Known of them: a home-work table, one day
drawn of everybody as activities by kind of day (by whether one works; or, as a survey that asks for
occupations, by five ways of life), visits of locations, and how many go from where to where in each
hour. Ceilings after {hours} hours of counts for the last ten hours, one mistake allowed. *Off* is a persona's
ceiling less the true one of each agent it stands for: the mean, and from the lowest to the highest tenth.
*Understated* are agents whose ceiling should be 5 percentage points higher or more. *Radius* is the least
mean relative entropy (nats) that lifts the mean ceiling to the truth; *for 9 in 10* the least that lifts the
ceilings of nine agents in ten to theirs, each by its own: what a radius would have to be at least.

{city}

{city_words}

## Half of a survey, personas, the other half's days

One day of 3 796 people in 190 zones (`sf_survey`: survey-shaped output of a travel model, no real persons;
609 people without a trip have no known home and are left out). One half gives activity sequences, visits and
hourly trips; the home-work table is that half's, or everybody's as a census has it. The other half's days
are what an adversary armed with personas guesses, who knows where each lives and works: {steps} hours, one
mistake allowed. Zones have no coordinates; differences of their numbers stand for distances, so gravity is
poorer here than on a map. *Unknown* are moves to where the persona never goes. Predicted against realised, by
quarter of the prediction; *radius* is `kappa_min`: the data refute any smaller one, for everybody and for the
worst quarter. *Ceilings* and *guesses* are the verdicts of [priors check](../../explanation/prior-quality.md)
on the attack (in one direction) and on the best guess without counts (in both).

{survey}

{survey_words}

## New York's counties

1 954 flows between 62 counties of New York State (2011) through the OD reader, counties placed by their
polygons, days assumed: {ny_personas:,} personas for {ny_people:,.0f} people. Where they are at 3 and at
11 o'clock:

![Two maps: people at night, and at 11 o'clock gathered in Manhattan]({map})
"""


def city_table(rows: Sequence[CityRow]) -> str:
    """One line a way and noise."""
    head = [
        "counts",
        "personas",
        "classes",
        "trips",
        "guess",
        "ceiling",
        "off",
        "tenths",
        "understated",
        "radius",
        "for 9 in 10",
    ]
    cells = [
        [
            "raw" if row.noise == "raw" else f"sigma {row.noise}",
            row.way,
            str(row.classes),
            f"{row.trips:,.0f}",
            f"{row.guess:.3f}",
            f"{row.ceiling:.3f}",
            f"{row.difference:+.3f}",
            f"{row.low:+.2f} to {row.high:+.2f}",
            f"{row.understated:.0%}",
            f"{row.radius:.3f}",
            f"{row.radius_of_nine_tenths:.3f}",
        ]
        for row in rows
    ]
    return markdown(head, cells)


def survey_table(rows: Sequence[SurveyRow]) -> str:
    """One line a way and release."""
    head = ["personas", "classes", "people", "without a class", "unknown", "released", "ceiling", "realised"]
    head += ["by quarter", "ceilings", "guesses", "radius", "worst quarter"]
    cells = [
        [
            row.way,
            f"{row.classes:,}",
            f"{row.people:,}",
            f"{row.unmatched:,}",
            f"{row.unknown:.0%}",
            row.attack,
            f"{row.ceiling:.3f}",
            f"{row.attack_realised:.3f} ({row.low:.3f} to {row.high:.3f})",
            row.quarters,
            row.verdict,
            row.guess_verdict,
            f"{row.radius:.3f}",
            f"{row.radius_of_worst:.3f}",
        ]
        for row in rows
    ]
    return markdown(head, cells)


def city_words(rows: Sequence[CityRow]) -> str:
    """What the city's table shows, from its own figures."""
    raw = [row for row in rows if row.noise == "raw"]
    truth, flows, *made = raw
    fitted = made[1]
    directions = "; ".join(f"{row.way} ({row.classes} classes): {row.difference:+.3f}" for row in made)
    return (
        f"Flows alone, as one persona, say {flows.ceiling:.2f} where the truth is {truth.ceiling:.2f}: it "
        "forgets where it lives, and must not be used as a person. By home and work under raw counts, off "
        f"by: {directions}. A mean that fits hides agents on both sides of it; read the tenths. Hourly trips "
        "go to many places for one activity, of which a persona knows two: trips that no persona can make "
        f"are not made after calibration ({fitted.trips:,.0f} a day for {truth.trips:,.0f}), and who travels "
        "less is easier to guess. That errs upwards here; `priors personas` lists such cells."
    )


def survey_words(rows: Sequence[SurveyRow]) -> str:
    """What the survey's table shows, from its own figures, and what it cannot show."""
    with_classes = [row for row in rows if row.classes > 1]
    off = [row.ceiling - row.attack_realised for row in with_classes if row.unmatched == 0]
    sparse = [row for row in with_classes if row.unmatched > 0]
    largest = max(row.radius_of_worst for row in with_classes)
    missed = " and ".join(f"{row.ceiling:.2f} said, {row.attack_realised:.2f} happened" for row in sparse)
    return (
        "Where the home-work table covers the people attacked, ceilings are "
        f"{min(off):.2f} to {max(off):.2f} above what the attack achieved. Where their own pair of home "
        "and work is missing and the nearest class stands for them, the adversary is misled "
        f"({missed}): a home-work table must be of everybody, a survey need not. The largest radius that a "
        f"quarter's days ask for is {largest:.2f} nats over ten hours; that is a lower limit, and nothing in "
        "the data bounds it from above.\n\n"
        "**What this cannot show**: one day a person says how well an adversary *armed with these personas* "
        "does. One who knows a person's own habits does better, which only the first loop can show. Flows "
        "alone pass here too, because whoever believes them guesses badly; their ceilings are still far too "
        "low for anybody who knows more."
    )


def new_york(folder: Path, picture: Path) -> tuple[int, float]:
    """Personas of the counties, drawn where they are at night and by day; how many, for how many people."""
    zones = folder / "counties_2011.geojson"
    population = make_personas(folder / "flows_2011.csv", PersonaQuestions(zones=zones)).population
    presence = expected_flows(population, 24).sum(axis=2)
    points = read_points(zones, set(population.location_names))
    at = {
        name: (east, north) for name, east, north in zip(points.names, points.east, points.north, strict=True)
    }
    named = [number for number, name in enumerate(population.location_names) if name in at]
    east, north = np.array([at[population.location_names[number]] for number in named]).T
    figure, axes_of = grid(2, 2, 4.5, 3.1)
    for axis, hour in zip(axes_of, (3, 11), strict=True):
        axis.scatter(east, north, s=presence[hour, named] / 4000.0, alpha=0.5, color="#2a6f97")
        axis.set_title(f"{hour} o'clock")
        axis.set_aspect(1.33)
        axis.set_xlabel("longitude")
    axes_of[0].set_ylabel("latitude")
    save(figure, picture)
    assert population.weights is not None
    return len(population), float(population.weights.sum())


def main() -> None:
    """Run all loops there is data for, and write page, tables and map."""
    given = options(__doc__, "personas.md, .csv and .png").parse_args()
    data = find_data(given.data)
    city = city_rows(NOISES)
    print(city_table(city))
    if not (data / "sf_survey").is_dir():
        print(f"no sf_survey in {data}: the other loops are left out")
        return
    survey = survey_rows(data / "sf_survey")
    print(survey_table(survey))
    if given.results is None:
        return
    write_csv(city, given.results / "personas-city.csv")
    write_csv(survey, given.results / "personas-survey.csv")
    county = new_york(data / "ny_commuting", given.results / MAP)
    (given.results / "personas.md").write_text(page(city, survey, county))


def page(city: Sequence[CityRow], survey: Sequence[SurveyRow], county: tuple[int, float]) -> str:
    """Everything that was found, as the committed page."""
    return _PAGE.format(
        people=PEOPLE,
        hours=HOURS,
        steps=STEPS,
        city=city_table(city),
        city_words=city_words(city),
        survey=survey_table(survey),
        survey_words=survey_words(survey),
        ny_personas=county[0],
        ny_people=county[1],
        map=MAP,
    )


if __name__ == "__main__":
    main()
