"""Lambda^-1 = YD Yd^T with the sparse factors of H = L^T D L ([OSI] section 6)."""

from __future__ import annotations

from typing import final

import numpy as np

from dynsys.operational.method import AbstractMethod
from dynsys.operational.tasks import TreeState
from dynsys.operational.y_factor import lambda_inverse, yd_factors
from dynsys.types import Array

__all__ = ["Method"]


@final
class Method(AbstractMethod):
    """CRBA, LTDL, Yd and YD, product: O(n d^2 + m d^2 + m^2 d)."""

    def lambda_inv(self, state: TreeState) -> Array:
        L, diag = state.ltdl
        supports, parent = self.space.supports, self.tree.freedom_parent
        Yd, YD = yd_factors(self.space.jacobian(state), L, diag, supports, parent)
        return np.asarray(lambda_inverse(YD, Yd, supports))
