# %% [markdown]
# # 2. Dynamics
#
# The classical algorithms, the same as problems of one linear system, their derivatives, a
# robot that is held, and the torque that moves its hand as wanted.

# %% [markdown]
# An arm of six joints with axes in all directions, and a state of it.

# %%
import numpy as np

import dynsys
import problems

arm = dynsys.synthetic.chain(6, generic=True)
rng = np.random.default_rng(0)
q, (qd, qdd) = arm.random_configuration(rng), rng.normal(size=(2, arm.nv))
arm

# %% [markdown]
# Inverse dynamics by RNEA, forward dynamics by ABA: one undoes the other. Both agree with the
# equation of motion H qdd + C = torque.

# %%
torque = dynsys.rnea(arm, q, qd, qdd)
assert np.allclose(dynsys.aba(arm, q, qd, torque), qdd)
bias = dynsys.rnea(arm, q, qd, np.zeros(arm.nv))
assert np.allclose(dynsys.crba(arm, q) @ qdd + bias, torque)

# %% [markdown]
# The same as a problem gives all quantities by name: what the bearing of a joint carries, and
# how every link accelerates.

# %%
inverse, forward = problems.InverseDynamics(arm), problems.ForwardDynamics(arm)
solution = inverse.solve(q, qd, qdd)
assert np.allclose(solution.torque, torque)
solution.joint_wrench["link_3"]

# %% [markdown]
# Some of each is hybrid dynamics: joint 2 follows a given acceleration, all other motors
# are off.

# %%
hybrid = problems.HybridDynamics(arm, known_acceleration=["link_2"])
known = np.array([0.0, 1.5, 0.0, 0.0, 0.0, 0.0])
mixed = hybrid.solve(q, qd, known)
assert np.isclose(mixed.qdd[1], 1.5) and np.allclose(np.delete(mixed.torque, 1), 0.0)
assert np.allclose(dynsys.aba(arm, q, qd, mixed.torque), mixed.qdd)

# %% [markdown]
# Exact derivatives, here of forward dynamics by position, beside central differences.

# %%
D = forward.derivatives(q, qd, torque)
h, step = 1e-6, np.eye(arm.nv)
differences = [
    dynsys.aba(arm, arm.integrate(q, v, h), qd, torque)
    - dynsys.aba(arm, arm.integrate(q, v, -h), qd, torque)
    for v in step
]
assert np.allclose(
    D.q, np.transpose(differences) / (2 * h), rtol=1e-5, atol=1e-5 * abs(D.q).max()
)
assert np.allclose(D.torque @ dynsys.crba(arm, q), np.eye(arm.nv))

# %% [markdown]
# A constraint: the last link is held at a point by a ball. Its force is one more answer, and
# the point does not accelerate.

# %%
ball = dynsys.FrameConstraint("ball", "link_6", components=("x", "y", "z"))
held = problems.ForwardDynamics(arm, constraints=[ball])
at_rest = np.zeros(arm.nv)
still = held.solve(q, at_rest, at_rest)
point = dynsys.jacobian(arm, q, "link_6")[3:]
assert np.allclose(point @ still.qdd, 0.0, atol=1e-8 * abs(still.qdd).max())
still.constraint_wrench["ball"]

# %% [markdown]
# What the ball determines, in words: three freedoms are left of six.

# %%
print(held.verdict())
assert np.linalg.matrix_rank(point) == 3

# %% [markdown]
# Operational space: which torque lets the hand accelerate as wanted? What forward dynamics
# makes of that torque is what was asked for.

# %%
hand = dynsys.BodyMotion("link_6", axes="world", coordinates="position")
space = dynsys.operational_space(arm, q, hand, qd)
wanted = np.array([0.5, 0.0, -0.2])
moved = dynsys.aba(arm, q, qd, space.torque(wanted))
assert np.allclose(space.J @ moved + space.Jdot_qd, wanted)
space.Lambda
