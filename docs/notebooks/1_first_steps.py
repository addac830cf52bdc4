# %% [markdown]
# # 1. First steps
#
# From a robot and its sensors to torques with standard deviations, in one sitting. Needs
# `pip install 'dynsys-robotics[plot,tables]'`.

# %% [markdown]
# A robot: here an arm of three links that comes with the package. A file is read by
# `dynsys.load("arm.urdf")`, and looks the same.

# %%
import numpy as np

import dynsys
import problems
import sensors

arm = dynsys.synthetic.chain(3)
arm

# %% [markdown]
# Its sensors: torques in two joints of three. The layout also states what is known without a
# sensor, that nothing touches the arm.

# %%
nothing_touches = sensors.zero_external_wrench_except(arm)
two = [sensors.JointTorque(f"{name}/torque", name, std=0.1) for name in arm.joint_names[:2]]
layout = sensors.Layout(arm, [*two, *nothing_touches])
layout.names

# %% [markdown]
# What do they determine? The verdict needs no data: it names what no sensor sees, and the
# smallest additions that repair it.

# %%
verdict = problems.Estimation(arm, layout).verdict()
assert not verdict.is_well_posed
verdict

# %% [markdown]
# A repair holds sensors that can be added as they are. With the first one all is determined.

# %%
repaired = layout.with_sensors([*layout.sensors, *verdict.repairs[0].sensors])
assert problems.Estimation(arm, repaired).verdict().is_well_posed
verdict.repairs[0].words

# %% [markdown]
# Better have more sensors than needed, so that they check each other: torques and
# accelerations of all joints. The arm moves for two seconds; its readings are made up from
# inverse dynamics, with noise.

# %%
time = np.linspace(0.0, 2.0, 100)
speed, phase = np.array([2.0, 3.0, 5.0]), np.array([0.0, 1.0, 2.0])
angle = time[:, None] * speed + phase
q, qd, qdd = 0.6 * np.sin(angle), 0.6 * speed * np.cos(angle), -0.6 * speed**2 * np.sin(angle)
truth = dynsys.rnea(arm, q, qd, qdd)

many = [
    *sensors.all_joint_torques(arm, std=0.3),
    *sensors.all_joint_accelerations(arm, std=0.5),
]
layout = sensors.Layout(arm, [*many, *nothing_touches])
rng = np.random.default_rng(0)
readings = {}
for k, joint in enumerate(arm.joint_names):
    readings[f"{joint}/torque"] = truth[:, k] + 0.3 * rng.normal(size=100)
    readings[f"{joint}/acceleration"] = qdd[:, k] + 0.5 * rng.normal(size=100)
assert set(readings) < set(layout.names)

# %% [markdown]
# The estimate of all samples at once. Its deviations are honest: the truth lies within two of
# them nearly always, and they are smaller than those of the torque sensors.

# %%
estimation = problems.Estimation(arm, layout)
estimate = estimation.solve_batch(q, qd, readings)
error = estimate.torque.array - truth
assert 0.9 < np.mean(np.abs(error) < 2 * estimate.std.torque.array) < 0.99
assert (estimate.std.torque.array < 0.3).all()
estimate

# %% [markdown]
# The torques over time with their 95 % bands.

# %%
estimate.plot(time=time)

# %% [markdown]
# The same as a table of pandas, with deviations and the p-value of every sample.

# %%
estimate.to_pandas("torque", "std.torque", "p_value", time=time).head()

# %% [markdown]
# A sensor that lies is noticed at once, and named: one sample with its second torque 10 N m
# too large.

# %%
one = {name: values[50] for name, values in readings.items()}
one["link_2/torque"] += 10.0
lied = estimation.solve(q[50], qd[50], one)
assert lied.p_value < 1e-6
assert lied.suspects[0].sensor == "link_2/torque"
lied
