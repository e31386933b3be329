"""Says in one sentence that a user's own ``models.py`` hides our package of that name.

It runs where it is imported, before anything of ours is: the import that fails otherwise gives no reason.
"""

from importlib.util import find_spec
from pathlib import Path

_beside_us = Path(__file__).parent.parent
for _name in ("models", "accounting", "stream_app"):
    _found = find_spec(_name)
    _places = [_found.origin, *(_found.submodule_search_locations or ())] if _found else []
    if _places and not any(Path(place).is_relative_to(_beside_us / _name) for place in _places if place):
        raise ImportError(
            f"{_places[0]} hides tallyguard's own package `{_name}`: rename the file, "
            "or start Python from another folder"
        )
