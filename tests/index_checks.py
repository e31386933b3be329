"""Checks of indices that compile in less time, for ``NUMBA_BOUNDSCHECK=1 pytest -p tests.index_checks``.

For each access numba makes two branches, one for indices below zero and one for those too large, each with an
error of its own. Here an access has one branch, as an index below zero is a large number without sign, and a
kernel has one error.
"""

from __future__ import annotations

from typing import Any

from numba.core import cgutils


def check_index(context: Any, builder: Any, index: Any, size: Any, axis: Any = None) -> None:
    """Leave the kernel with an :class:`IndexError` unless ``0 <= index < size``; instead of numba's own."""
    function = builder.function
    if not hasattr(function, "out_of_bounds"):
        function.out_of_bounds = function.append_basic_block("out_of_bounds")
        with builder.goto_block(function.out_of_bounds):
            context.call_conv.return_user_exc(builder, IndexError, ("index is out of bounds",))
    inside = builder.append_basic_block("inside")
    is_outside = builder.icmp_unsigned(">=", index, size)
    builder.cbranch(is_outside, function.out_of_bounds, inside).set_weights([1, 99])
    builder.position_at_end(inside)


cgutils.do_boundscheck = check_index
