"""What a run has released, as files for the public: described tables by day, and the last step."""

from stream_app.analysis.export.open_data import Exported, ExportFormat, export_run

__all__ = ["ExportFormat", "Exported", "export_run"]
