"""What is secret is opened here, for its owner only: counts, priors, keys, decisions."""

from models.private_files.files import (
    OPEN_FOLDER,
    PRIVATE_FILE,
    PRIVATE_FOLDER,
    new_file,
    new_folder,
    open_kept,
    private_draft,
    private_file,
    readable_by_others,
    refuse_others_link,
    sync_folder,
)

__all__ = [
    "OPEN_FOLDER",
    "PRIVATE_FILE",
    "PRIVATE_FOLDER",
    "new_file",
    "new_folder",
    "open_kept",
    "private_draft",
    "private_file",
    "readable_by_others",
    "refuse_others_link",
    "sync_folder",
]
