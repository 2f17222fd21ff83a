"""Python's garbage collector stalls the event loop for up to 180 ms: none of it while a cell is measured."""

import gc


def freeze() -> None:
    """Collects once, sets aside everything alive, and switches collection off until `thaw`."""
    gc.collect()
    gc.freeze()
    gc.disable()


def thaw() -> None:
    """Switches collection on again and collects what the cell left behind."""
    gc.unfreeze()
    gc.enable()
    gc.collect()
