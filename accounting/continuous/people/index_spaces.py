"""The index spaces of an account, each with a type of its own: what stands at one is not read at another.

    person --cell--> cell --account--> account --* draws--> chain
                     cell --of_cell--> group (of one account), unit (of one share and one kind of chain)

N people by name are in B cells; a cell is of one account and one share of the work. A accounts have A * D
chains, D for each. G groups are people with the same figures, U units those who are paid for together. An
array with one value for each of them has its length, and says so: ``stands_for`` (N,), ``account`` (B,).

For example people a, b, c, of whom a and c have one prior, in one share: cells 0, 1, 0 of accounts 0, 1.
"""

from __future__ import annotations

from typing import NewType

import numpy as np
from numpy.typing import NDArray

PersonPositions = NewType("PersonPositions", NDArray[np.int64])
CellPositions = NewType("CellPositions", NDArray[np.int64])
AccountPositions = NewType("AccountPositions", NDArray[np.int64])
ChainPositions = NewType("ChainPositions", NDArray[np.int64])
GroupPositions = NewType("GroupPositions", NDArray[np.int64])
UnitPositions = NewType("UnitPositions", NDArray[np.int64])
