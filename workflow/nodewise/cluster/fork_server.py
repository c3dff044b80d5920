"""Imported by the fork server of `multiprocessing` alone, which then ends with its launcher."""

import signal

from nodewise.cluster.child import end_with_parent

end_with_parent(signal.SIGKILL)
