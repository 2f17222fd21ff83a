"""The event loop that measures: uvloop where it exists, else asyncio's own."""

import asyncio


def new_event_loop() -> asyncio.AbstractEventLoop:
    """For `asyncio.Runner(loop_factory=new_event_loop)`."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
