"""A city's own files of counts, understood by a declared mapping and brought to messages or plain counts."""

# mypy: implicit-reexport
# ruff: noqa: F401

from stream_app.starting.connect.archive import (
    MESSAGES,
    ArchiveSteps,
    read_archive,
    require_new_file,
    write_counts,
)
from stream_app.starting.connect.archive_file import (
    is_address_name,
    refuse_addresses,
    refuse_personal_columns,
)
from stream_app.starting.connect.presets_at_hand import preset_names, preset_text, resolved_map
