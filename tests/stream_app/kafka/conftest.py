"""A deployment on the four locations of :mod:`tests.stream_app.engine_support`."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.kafka.deployment.deployment import Deployment
from tests.stream_app.kafka.deployments import deployment_in


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return deployment_in(tmp_path)
