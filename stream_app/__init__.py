"""The running system: messages, the step engine, the embedded runner, metrics, pages and the command line.

Importing it first, as every command does, pins the linear algebra under numpy and scipy, which otherwise
chooses instructions by the CPU and splits sums by its cores: noise designs and fits are the same everywhere.
"""

import os
import sys

if "tallyguard" not in sys.modules:  # a library leaves the environment of who imports it as it is
    os.environ |= {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "1"}
