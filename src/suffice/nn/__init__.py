"""What someone who trains a head imports: losses, class statistics, monitors, and bounds on whole runs."""

from suffice.nn.drift import Drifted, TrajectoryReport
from suffice.nn.filtered import FilterCertificate, FilteredCrossEntropy
from suffice.nn.monitor import ToleranceMonitor
from suffice.nn.monitored import MonitorReport
from suffice.nn.proco import ProCoLoss
from suffice.nn.statistics import ClassStatistics
from suffice.nn.supervised import SupervisedVMFLoss
from suffice.nn.trajectory import TrajectoryBound

__all__ = [
    "ClassStatistics",
    "Drifted",
    "FilterCertificate",
    "FilteredCrossEntropy",
    "MonitorReport",
    "ProCoLoss",
    "SupervisedVMFLoss",
    "ToleranceMonitor",
    "TrajectoryBound",
    "TrajectoryReport",
]
