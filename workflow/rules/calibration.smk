"""Calibration of the study's emulated cluster. It runs alone on the machine.

in:    the configuration
out:   results/<study>/calibration/calibration.json, even if the machine does not permit emulated
       nodes. Nothing for studies without emulated cells, nor for studies of committed records, which
       come with their calibration. If `nodewise calibrate` was run on hosts, its result is used
steps: calibrate
"""

from nodewise.cluster.kinds.emulated import Emulated
from nodewise.study.config import CALIBRATION

CALIBRATED = STUDY.calibrated_cluster()
EMULATED = CALIBRATED is not None and isinstance(CALIBRATED[0], Emulated)
CALIBRATIONS = [str(path) for path in STUDY.calibrations()]
if EMULATED:
    CALIBRATIONS = [f"{RESULTS}/{CALIBRATION}"]

if EMULATED:

    rule calibrate:
        output:
            f"{RESULTS}/calibration/calibration.json",
        log:
            f"{RESULTS}/logs/calibrate.log",
        # It runs before the first cell, because it shows whether measuring cells is worthwhile.
        priority: BEFORE_CELLS
        localrule: True
        threads: workflow.cores
        params:
            # It is repeated for another cluster or more nodes, not for other changes of the study.
            cluster=[str(one) for one in CALIBRATED],
            measures=MEASURES,
            versions=VERSIONS,
        shell:
            # The command limits its own time. After Ctrl-C it has 10 s to end, even if it hangs.
            "timeout --foreground --kill-after=10 0"
            " nodewise calibrate --config {CONFIG:q} > {log:q} 2>&1"
