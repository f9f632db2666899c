"""What someone training a von Mises-Fisher model imports: losses, class statistics, and a monitor of tolerance."""

from suffice.nn.monitor import MonitorReport, ToleranceMonitor
from suffice.nn.proco import ProCoLoss
from suffice.nn.statistics import ClassStatistics
from suffice.nn.supervised import SupervisedVMFLoss

__all__ = ["ClassStatistics", "MonitorReport", "ProCoLoss", "SupervisedVMFLoss", "ToleranceMonitor"]
