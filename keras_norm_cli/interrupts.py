"""End a command at Ctrl-C or SIGTERM, also if Keras or TensorFlow catches KeyboardInterrupt."""

import contextlib
import signal
import sys
import time
from collections.abc import Iterator

RAISE_AGAIN = 0.1  # The number of seconds between two KeyboardInterrupts.

# An exception handler has this number of seconds to clean up before the next KeyboardInterrupt.
CLEANUP = 5.0


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt at SIGINT or SIGTERM, again and again until the `with` block ends.

    Keras swallows every exception when it computes a shape or tries to build a layer. So the
    KeyboardInterrupt is raised again every RAISE_AGAIN seconds until the block ends. An exception
    handler may be the cleanup, so an interrupt inside a handler waits CLEANUP seconds. It must not
    wait forever: a lock that the first interrupt left locked could block the cleanup. TensorFlow
    turns an interrupt during tracing into another exception. So an Exception that leaves the block
    after an interrupt becomes a KeyboardInterrupt.
    """
    # Time of the last KeyboardInterrupt, and whether the `with` block has ended.
    interrupted, ended = 0.0, False

    def interrupt(*_: object) -> None:
        nonlocal interrupted
        if ended:
            return
        set_timer(RAISE_AGAIN)
        now = time.monotonic()
        if not sys.exception() or now >= interrupted + CLEANUP:
            interrupted = now
            raise KeyboardInterrupt

    def set_timer(seconds: float) -> None:
        if has_timer:
            signal.setitimer(signal.ITIMER_REAL, seconds)

    # Windows has no setitimer, so an interrupt is not raised again.
    has_timer = hasattr(signal, "setitimer")
    handled = [s for s in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(s) != signal.SIG_IGN]
    handled += [signal.SIGALRM] if has_timer else []
    before = {number: signal.signal(number, interrupt) for number in handled}
    try:
        yield
    except Exception as error:
        if interrupted:
            raise KeyboardInterrupt from error
        raise
    finally:
        ended = True
        set_timer(0.0)
        for number, handler in before.items():
            signal.signal(number, handler)
