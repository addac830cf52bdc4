# %% [markdown]
# # 3. Plans
#
# The order in which the unknowns are eliminated decides what an answer costs. It depends on
# robot and sensors only, so it is found once, kept in a file, executed ever after, and exported
# as C.

# %% [markdown]
# Orders of elimination of forward dynamics side by side, operations counted exactly. This is
# what `dynsys compare synthetic:chain:4 --no-time` prints, ours beside the recursions first.

# %%
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import dynsys
import problems
import sensors
from dynsys.plan.search.search import Search
from problems.order_comparison import compare
from problems.planning import read_request

rows = compare(read_request("synthetic:chain:4", "fd"), states=2, seed=0, timed=False)
columns = ["name", "executed", "fill", "safety"]
table = pd.DataFrame([row.to_json() for row in rows])[columns]
table

# %% [markdown]
# Symmetric pairs execute less than any order of the plain system. On an arm as short as this
# CRBA with sparse factors of H is cheaper still.

# %%
executed = dict(zip(table.name, table.executed, strict=True))
ours, plain = executed["symmetric pairs (ours)"], table.executed[table.fill.notna()]
assert ours < plain.min()
assert executed["CRBA + LTDL"] < ours < executed["ABA, the recursion"]

# %% [markdown]
# Dynamics needs no search: its plan is at the cost of the recursive algorithms, and safe by
# argument, every pivot the inertia of a joint.

# %%
arm = dynsys.synthetic.chain(4)
plan = problems.ForwardDynamics(arm).plan()
assert plan.is_safe_by_argument
plan

# %% [markdown]
# Sensors have no such structure. Here torques, an inertial unit at the tip and a force sensor
# inside, more than needed: a search of 60 orders finds a cheaper one than rules construct.

# %%
layout = sensors.Layout(
    arm,
    [
        *sensors.all_joint_torques(arm, std=0.1),
        sensors.Imu("tip", "link_4", xyz=(0.1, 0, 0), std=0.1),
        sensors.ForceTorque("inside", "link_2", std=0.2),
        *sensors.zero_external_wrench_except(arm),
    ],
)
searched = problems.Estimation(arm, layout).plan(search=Search(evaluations=60))
assert searched.operations.total < searched.options["constructive"]
searched

# %% [markdown]
# Saved, read again and given to the problem: whatever solves it now executes this plan.

# %%
temporary = tempfile.TemporaryDirectory()  # gone at the end
folder = Path(temporary.name)
searched.save(folder / "arm.plan.json")
again = dynsys.Plan.load(folder / "arm.plan.json")
planned = problems.Estimation(arm, layout, plan=again)
assert planned.compile().operations == searched.operations

# %% [markdown]
# The plan changes what an answer costs, not the answer.

# %%
rng = np.random.default_rng(0)
q, qd, y = arm.random_configuration(rng), rng.normal(size=arm.nv), rng.normal(size=layout.size)
y = np.where(layout.exact, layout.constants, y)
default = problems.Estimation(arm, layout)
one, other = (problem.solve(q, qd, y).torque.array for problem in (planned, default))
assert np.allclose(one, other)

# %% [markdown]
# For any other robot it is refused.

# %%
longer = dynsys.synthetic.chain(5)
torques = sensors.all_joint_torques(longer, std=0.1)
try:
    problems.Estimation(longer, sensors.Layout(longer, torques), plan=again).compile()
except dynsys.PlanMismatchError as error:
    refused = str(error)
assert "robot" in refused
refused

# %% [markdown]
# The same elimination as C99: no heap, no branches, every entry of its arrays named in the
# header, and a self-test with answers of extended precision.

# %%
files = planned.export_c(folder / "controller", name="arm_torques")
[path.name for path in files]

# %% [markdown]
# Compiled and tested, where there is a C compiler.

# %%
cc, status = shutil.which("cc"), 0
if cc:
    sources = sorted(map(str, (folder / "controller").glob("*.c")))
    program = str(folder / "selftest")
    subprocess.run([cc, "-std=c99", "-O1", *sources, "-lm", "-o", program], check=True)
    status = subprocess.run([program], capture_output=True).returncode
assert status == 0
