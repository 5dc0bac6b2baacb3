"""Defines short names for the types of numpy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
BoolArray = npt.NDArray[np.bool_]
ComplexArray = npt.NDArray[np.complexfloating[Any]]
FloatArray = npt.NDArray[np.float64]
Int32Array = npt.NDArray[np.int32]
IntArray = npt.NDArray[np.int64]
ObjectArray = npt.NDArray[np.object_]
WordArray = npt.NDArray[np.uint64]
