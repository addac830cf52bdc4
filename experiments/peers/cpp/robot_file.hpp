// Reads the robot files that experiments/peers/robots.py writes. Include Pinocchio first.
//
// One line per joint, in Pinocchio's order:
//   kind parent  axis(3)  rotation(9, by rows)  translation(3)  mass com(3) inertia(9, by rows)
// kind: "free", "revolute" or "prismatic". Inertia is about the centre of mass.
#pragma once

#include <fstream>
#include <stdexcept>
#include <string>

namespace peer {

using Vector3 = Eigen::Vector3d;
using Matrix3 = Eigen::Matrix<double, 3, 3, Eigen::RowMajor>;

template <class Matrix>
void read(std::istream& in, Matrix& m) {
  for (Eigen::Index k = 0; k < m.size(); ++k) in >> m.data()[k];
}

// Joints about a coordinate axis have faster models of their own, as in Pinocchio's URDF reader.
inline pinocchio::JointModel joint(const std::string& kind, const Vector3& axis) {
  const bool x = axis == Vector3::UnitX(), y = axis == Vector3::UnitY(), z = axis == Vector3::UnitZ();
  if (kind == "free") return pinocchio::JointModelFreeFlyer();
  if (kind == "revolute") {
    if (x) return pinocchio::JointModelRX();
    if (y) return pinocchio::JointModelRY();
    if (z) return pinocchio::JointModelRZ();
    return pinocchio::JointModelRevoluteUnaligned(axis);
  }
  if (kind == "prismatic") {
    if (x) return pinocchio::JointModelPX();
    if (y) return pinocchio::JointModelPY();
    if (z) return pinocchio::JointModelPZ();
    return pinocchio::JointModelPrismaticUnaligned(axis);
  }
  throw std::runtime_error("unknown joint kind " + kind);
}

inline pinocchio::Model read_robot(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot read " + path);
  pinocchio::Model model;
  std::string kind;
  while (in >> kind) {
    std::size_t parent;
    Vector3 axis, translation, com;
    Matrix3 rotation, inertia;
    double mass;
    in >> parent;
    read(in, axis);
    read(in, rotation);
    read(in, translation);
    in >> mass;
    read(in, com);
    read(in, inertia);
    if (!in) throw std::runtime_error("broken line in " + path);
    const auto id = model.addJoint(parent, joint(kind, axis), pinocchio::SE3(rotation, translation),
                                   "joint_" + std::to_string(model.njoints));
    model.appendBodyToJoint(id, pinocchio::Inertia(mass, com, Eigen::Matrix3d(inertia)),
                            pinocchio::SE3::Identity());
  }
  return model;
}

}  // namespace peer
