"""Contact felt without a sensor at the contact: events, alarms, and the momentum observer."""

from problems.detection.alarm import Alarm, calibrate_alarm
from problems.detection.contacts import Contact, ContactDetector
from problems.detection.momentum import MomentumObserver

__all__ = ["Alarm", "Contact", "ContactDetector", "MomentumObserver", "calibrate_alarm"]
