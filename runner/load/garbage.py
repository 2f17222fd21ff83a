"""What of Python itself stalls the event loop, kept away while a cell is measured.

The garbage collector takes up to 180 ms at a time. Another thread (the writer's) keeps the interpreter for up to 5 ms
before it lets the event loop go on.
"""

import gc
import sys

SWITCH_S = 0.00005
_usual_s = sys.getswitchinterval()


def freeze() -> None:
    """Collects once, sets aside everything alive, switches collection off; threads take short turns. Until `thaw`."""
    gc.collect()
    gc.freeze()
    gc.disable()
    sys.setswitchinterval(SWITCH_S)


def thaw() -> None:
    """Switches collection on again and collects what the cell left behind."""
    sys.setswitchinterval(_usual_s)
    gc.unfreeze()
    gc.enable()
    gc.collect()
