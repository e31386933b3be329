"""The noise key of a log on Kafka: no run in a folder uses it and no other log, as far as its note says."""

from __future__ import annotations

import asyncio

from models.keys import NoiseKey
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.log_reader import topic_ids
from stream_app.setup.run_folder.key_record import claim_for_kafka, record_file


async def claim_key(deployment: Deployment, key: NoiseKey, partition: int, next_step: int) -> None:
    """:class:`stream_app.exceptions.KeyUsedError` where something else has published with the key.

    A key that is in no file has no note, but where `key_record` says.
    """
    settings, releases = deployment.settings, deployment.topics.releases
    if settings.noise_key is None and settings.key_record is None:
        return
    identity = (await asyncio.to_thread(topic_ids, deployment.connection, [releases]))[releases]
    path = record_file(settings, None, key)
    await asyncio.to_thread(claim_for_kafka, path, identity, partition, next_step)
