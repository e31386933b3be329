"""What :class:`tests.copies.Copy` begins with: imports, and kernels of runs and workers, on one thread."""

import inspect
import os
import sys

os.environ |= {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

# What a worker imports late, each a good part of a second of every copy.
import aiokafka.admin  # noqa: F401
import faust.assignor
import faust.tables
import faust.transport.drivers.aiokafka
import faust.worker
import kafka  # noqa: F401
import structlog  # noqa: F401

import stream_app.cli.app  # noqa: F401
from stream_app.kafka import processes  # noqa: F401
from stream_app.kafka.process import worker_warm_up
from stream_app.kafka.regions import coordinator, intake_worker  # noqa: F401

_ = faust.App, faust.Worker  # which Faust imports when they are asked for
inspect.getmodule(sys._getframe())  # reads where all modules stand, as Faust's agents do

worker_warm_up.main()
