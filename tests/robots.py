"""Real robots for tests."""

from experiments.example_robots import ROBOTS, all_urdf_files, robot_path, robots_folder

__all__ = ["ROBOTS", "all_urdf_files", "robot_path", "robots_folder"]
