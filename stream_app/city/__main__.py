"""``python -m stream_app.city FOLDER`` writes the city's ``sensors.json`` and ``locations.txt``.

They fit `tallyguard persons load --city-people N` and `tallyguard produce --city-people N` of the same number
of people and seed: a deployment to try out before there are sensors.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from stream_app.city import CityOptions, build_city
from stream_app.city.simulation import locations_text, sensors_json


def generated(options: CityOptions) -> dict[str, str]:
    """Text of each file by its name."""
    city = build_city(options)
    return {"sensors.json": sensors_json(city), "locations.txt": locations_text(city)}


def main() -> None:
    """Write the files into a folder."""
    parser = argparse.ArgumentParser(prog="python -m stream_app.city", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--people", type=int, default=CityOptions.people)
    parser.add_argument("--seed", type=int, default=CityOptions.seed)
    arguments = parser.parse_args()
    for name, text in generated(CityOptions(people=arguments.people, seed=arguments.seed)).items():
        (arguments.folder / name).write_text(text)
        print(arguments.folder / name)


if __name__ == "__main__":
    main()
