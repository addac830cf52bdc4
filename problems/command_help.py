"""What ``dynsys COMMAND --help`` shows below the options: lines to copy, exit status."""

from __future__ import annotations

__all__ = ["EXAMPLES", "STATUS", "epilog"]

STATUS = """\
exit status: 0 done, 1 the answer is "no", 2 bad input, 130 interrupted"""

EXAMPLES = {
    "info": """\
  dynsys info arm.urdf
  dynsys info example:humanoid --floating-base
  dynsys info synthetic:random_tree:8:seed=3 --json""",
    "check": """\
  dynsys check catalogue:nao           what two feet on load cells leave unseen
  dynsys check problem.yaml --quick    without the search for bad postures
  dynsys check problem.yaml --json | jq .repairs""",
    "solve": """\
  dynsys solve problem.yaml log.mcap -o torques.parquet
  dynsys solve catalogue:nao_slippery log.npz -o out.npz --outputs torque
  dynsys solve problem.yaml log.parquet -o out.parquet --workers 8""",
    "place": """\
  dynsys place catalogue:nao        the least that determines all torques
  dynsys place catalogue:nao --budget 2 --picture curve.png
  dynsys place problem.yaml --candidates shop.yaml --goal torque.l_knee""",
    "plan": """\
  dynsys plan example:humanoid --floating-base -o fd.plan.json
  dynsys plan synthetic:chain:8 --problem published:sie_friction --evaluations 9
  dynsys plan synthetic:chain:6 synthetic:chain:8 --campaign results --seeds 4 \\
      --problem published:sie_friction --evaluations 500 --workers 2""",
    "compare": """\
  dynsys compare example:humanoid --problem fd
  dynsys compare synthetic:chain:8 --problem published:sie_friction --plot png
  dynsys compare arm.urdf --problem id --no-time --json""",
    "export": """\
  dynsys export arm.urdf --problem id -o controller/dynamics
  dynsys export example:humanoid --floating-base --outputs qdd,joint_wrench -o c
  dynsys export catalogue:nao_slippery --outputs torque,std.torque -o c""",
    "simulate": """\
  dynsys simulate catalogue:nao_slippery -o log.npz --truth
  dynsys simulate problem.yaml -o log.parquet --duration 3600 --workers 8""",
    "report": """\
  dynsys report catalogue:nao -o report.html
  dynsys report problem.yaml --log log.npz -o report.html""",
    "studio": """\
  dynsys studio catalogue:nao
  dynsys studio problem.yaml --port 8080""",
    "doctor": """\
  dynsys doctor
  dynsys doctor --json | jq '.components[] | select(.found == null) | .remedy'""",
    "demo": """\
  dynsys demo
  dynsys demo --json""",
    "completion": """\
  eval "$(dynsys completion bash)"     in ~/.bashrc
  eval "$(dynsys completion zsh)"      in ~/.zshrc, after compinit
  dynsys completion fish > ~/.config/fish/completions/dynsys.fish""",
}
"""Lines to copy, by command."""


def epilog(command: str) -> str:
    """Return what stands below the options of a command."""
    lines = EXAMPLES.get(command)
    return f"examples:\n{lines}\n\n{STATUS}" if lines else STATUS
