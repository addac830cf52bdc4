"""Other tools beside dynsys: orders of q and v, and problems as functions they differentiate.

:mod:`.orders` converts to and from Pinocchio's and MuJoCo's orders of q and v;
``casadi_function``, ``jax_function`` and ``torch_function`` make of a problem of dynamics a
function of CasADi, JAX or PyTorch, with its derivatives (:mod:`.functions`).
"""

from dynsys.interop.orders import MujocoMap, PinocchioMap, from_pinocchio
from dynsys.interop.with_casadi import casadi_function
from dynsys.interop.with_jax import jax_function
from dynsys.interop.with_torch import torch_function

__all__ = [
    "MujocoMap",
    "PinocchioMap",
    "casadi_function",
    "from_pinocchio",
    "jax_function",
    "torch_function",
]
