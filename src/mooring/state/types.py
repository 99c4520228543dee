"""Type aliases of numpy arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: Amounts and scores.
Ints = npt.NDArray[np.int64]
#: Row numbers of a table.
Rows = npt.NDArray[np.intp]
#: A mask over rows.
Bools = npt.NDArray[np.bool_]
