"""What :class:`tests.copies.Copy` begins with: imports, and kernels of runs and workers, on one thread.

What a command imports when it runs is here, too, or each copy would import it again.
"""

import gc
import inspect
import os
import sys

os.environ |= {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

import aiokafka.admin  # noqa: F401
import faust.app.router
import faust.assignor
import faust.fixups.django
import faust.stores.base
import faust.tables.objects
import faust.tables.sets
import faust.topics
import faust.transport.drivers.aiokafka
import faust.transport.utils
import faust.worker
import kafka  # noqa: F401
import structlog  # noqa: F401

from stream_app.cli import (
    app,  # noqa: F401
)
from stream_app.kafka import warm_up, workers  # noqa: F401
from stream_app.kafka.regions import coordinator, intake_worker  # noqa: F401
from stream_app.setup import this_process  # noqa: F401
from stream_app.starting.connect import http, intake, mqtt  # noqa: F401

_ = faust.App, faust.Worker  # which Faust imports when they are asked for

warm_up.main()
inspect.getmodule(sys._getframe())  # looks where all modules stand, as each agent of Faust does
gc.collect()
gc.freeze()  # looking through all of it in each copy would write to its memory, and so copy that
