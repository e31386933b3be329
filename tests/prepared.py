"""What :class:`tests.copies.Copy` begins with: imports, and kernels of runs and workers, on one thread."""

import os

os.environ |= {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

from stream_app.kafka import processes  # noqa: F401
from stream_app.kafka.process import worker_warm_up

worker_warm_up.main()
