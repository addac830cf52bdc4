# %% [markdown]
# # 4. Identification
#
# Masses, friction and offsets of a robot from a log of its motion, with deviations, beside the
# truth. The robot is simulated, so that the truth is known.

# %% [markdown]
# The model is what the maker gives you. The robot that stands there has a heavier last link,
# and friction.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import dynsys
import problems
import sensors

model = dynsys.synthetic.chain(3)
friction = {f"{j}.{kind}": 0.4 for j in model.joint_names for kind in ("viscous", "coulomb")}
heavier = {"link_3.mass": 1.5 * model.parameters["link_3.mass"]}
real = model.with_parameters({**heavier, **friction})
real

# %% [markdown]
# The sensors measure torques in all joints. Parameters are sought of all bodies and joints but
# the rotors, which this robot has not.

# %%
noise = 0.1
layout = sensors.Layout(model, sensors.all_joint_torques(model, std=noise))
identification = problems.Identification(model, layout, rotor=False)
len(identification.parameters)

# %% [markdown]
# Which of them can be seen at all? Sums of parameters, said before the robot moves.

# %%
seen = identification.verdict()
print("seen:", *seen.seen, sep="\n  ")
assert seen.rank < len(identification.parameters)

# %% [markdown]
# And which not, in words: the first link turns about one fixed axis, so that nothing tells its
# mass or its inertia about others.

# %%
print("not seen:", *seen.unseen, sep="\n  ")
assert {"link_1.mass", "link_1.Ixx", "link_1.Iyy"} <= set(seen.never)

# %% [markdown]
# A log of twenty seconds at 50 Hz: joints swing in three harmonics each, torques have noise.

# %%
rng = np.random.default_rng(1)
time = np.arange(1000) / 50.0
w, phase = rng.uniform(0.5, 6.0, size=(3, 1, 3)), rng.uniform(0, 6, size=(3, 1, 3))
angle = w * time[:, None] + phase
q = 0.5 * np.sin(angle).sum(axis=0)
qd = 0.5 * (w * np.cos(angle)).sum(axis=0)
qdd = -0.5 * (w**2 * np.sin(angle)).sum(axis=0)
torque = dynsys.rnea(real, q, qd, qdd) + noise * rng.normal(size=q.shape)
train, test = slice(0, 600), slice(600, None)
assert identification.verdict(q[train], qd[train], qdd[train]).other_motion == 0

# %% [markdown]
# The fit of the first 12 s. It stays at the model where data tell nothing, and its inertias are
# those of bodies that can exist.

# %%
fit = identification.fit(q[train], qd[train], qdd[train], torque[train])
assert np.allclose(fit.noise, noise, rtol=0.15)

# %% [markdown]
# Deviations against the truth, for every sum that is seen: each is right within a few of its
# deviations, and the heavier link shows where the model is many of them off.

# %%
weights = np.zeros((seen.rank, len(fit.names)))
for row, combination in zip(weights, seen.combinations, strict=True):
    for name, factor in combination.terms:
        row[fit.names.index(name)] = factor
table = pd.DataFrame(
    {
        "model": weights @ [model.parameters[name] for name in fit.names],
        "found": weights @ fit.theta,
        "std": np.sqrt(np.diag(weights @ fit.covariance @ weights.T)),
        "truth": weights @ [real.parameters[name] for name in fit.names],
    },
    index=seen.seen,
)
assert (abs(table.found - table.truth) < 4 * table["std"]).all()
assert (abs(table.model - table.truth) > 5 * table["std"]).loc["link_2.mx + 0.1 link_3.mass"]
table

# %% [markdown]
# Torques that the fit has not seen: they miss by their noise, where the model misses by much
# more, and the 95 % bands hold 95 %.

# %%
held_out = q[test], qd[test], qdd[test]
checked = fit.validate(*held_out, torque[test])
assert (checked.after < 1.2 * noise).all() and (checked.before > 3 * noise).all()
assert 0.92 < np.mean(checked.inside) < 0.98
pd.DataFrame(
    {"model": checked.before, "fit": checked.after, "in the 95 % band": checked.inside},
    index=checked.labels,
)

# %% [markdown]
# The last joint: measured, predicted with its band, and what the model says.

# %%
predicted = fit.predict(*held_out)
band = 2 * predicted.std[:, 2]
figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
axes.plot(time[test], torque[test, 2], ".", markersize=3, label="measured")
axes.plot(time[test], predicted.value[:, 2], label="predicted")
axes.fill_between(
    time[test], predicted.value[:, 2] - band, predicted.value[:, 2] + band, alpha=0.3
)
axes.plot(time[test], dynsys.rnea(model, *held_out)[:, 2], "--", label="model")
axes.set(xlabel="time [s]", ylabel="torque of link_3 [N m]")
axes.legend()
