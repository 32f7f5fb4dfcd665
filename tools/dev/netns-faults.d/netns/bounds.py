"""Upper bounds for the duration of a request, calculated from the configured timers and the injected faults."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Timing:
    """Timers in seconds. Client and server use the same heartbeat settings."""
    heartbeat: float = 0.2
    missed: int = 5
    connect: float = 3.0  # time limit of one connection attempt
    info: float = 3.0
    fence: float = 10.0
    queue: float = 60.0
    reconnect_min: float = 0.2
    reconnect_max: float = 1.0
    jitter: float = 0.2
    busy_retry: float = 0.25  # default in core/proto/config.hpp

    @property
    def detect(self):
        return (self.missed + 2) * self.heartbeat

    @property
    def comeback(self):
        """Time from the end of a fault until the path is connected again: the running attempt times out, the client waits, the server
        may reject one attempt because it still closes the old incarnation, and the next attempt succeeds."""
        return max(self.connect, self.info) + self.reconnect_max + self.jitter + self.busy_retry + self.jitter


@dataclasses.dataclass
class Bound:
    terms: list  # (description, seconds)

    @property
    def seconds(self):
        return sum(seconds for _, seconds in self.terms)

    def __str__(self):
        return " + ".join(f"{words} {seconds:.2f}" for words, seconds in self.terms) + f" = {self.seconds:.2f} s"


class Outages:
    """Periods in which the script makes a path unusable."""

    def __init__(self, paths):
        self.open = [None] * paths
        self.closed = [[] for _ in range(paths)]

    def begin(self, path, now):
        if self.open[path] is None:
            self.open[path] = now

    def end(self, path, now):
        if self.open[path] is not None:
            self.closed[path].append((self.open[path], now))
            self.open[path] = None

    def longest(self):
        return max((end - begin for path in self.closed for begin, end in path), default=0.0)

    def any(self):
        return any(self.closed) or any(begin is not None for begin in self.open)

    def longest_without_path(self, timing):
        """Returns the longest time in which every path was cut, or lost but not yet detected, or reconnecting."""
        common = None
        for path in self.closed:
            mine = merged([(begin, max(end, begin + timing.detect) + timing.comeback) for begin, end in path])
            common = mine if common is None else crossed(common, mine)
        return max((end - begin for begin, end in common or []), default=0.0)


def merged(intervals):
    result = []
    for begin, end in sorted(intervals):
        if result and begin <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((begin, end))
    return result


def crossed(left, right):
    pairs = [(max(a[0], b[0]), min(a[1], b[1])) for a in left for b in right]
    return merged([(begin, end) for begin, end in pairs if begin < end])


def slack(worst_lateness):
    """Allowance for a busy host: a request needs about ten process wake-ups, each as late as the worst one measured."""
    return 0.25 + 10 * worst_lateness


def stall_bound(timing, outages, *, may_lose, storage, lateness, partial=False, extra=()):
    """Returns the maximum duration of a request. `partial`: a path was degraded, so it may have been lost. `extra`: further
    terms."""
    terms = []
    if (outages.any() or partial) and may_lose:
        gap = outages.longest_without_path(timing)
        if gap:
            terms.append(("no path, including reconnection", gap))
        terms.append(("detection (missed + 2) x interval", timing.detect))
        terms.append(("fence: the old incarnation's storage", storage))
    elif outages.any():
        # No path may be lost. TCP retransmits the dropped packets. The retransmission timeout is at most as long as
        # the outage.
        terms.append(("outage", outages.longest()))
        terms.append(("retransmission", outages.longest()))
    terms.extend(extra)
    terms.append(("storage", storage))
    terms.append(("scheduling (0.25 + 10 x the worst delay seen)", slack(lateness)))
    return Bound([(words, seconds) for words, seconds in terms if seconds > 0])


def lost_bound(timing, lateness):
    return Bound([("detection (missed + 2) x interval", timing.detect), ("scheduling", slack(lateness))])


def settle_bound(timing, storage, lateness):
    return Bound([("detection (missed + 2) x interval", timing.detect),
                  ("running attempt", max(timing.connect, timing.info)),
                  ("delay and jitter", timing.reconnect_max + timing.jitter),
                  ("busy answer and jitter", timing.busy_retry + timing.jitter),
                  ("storage of the old incarnation", storage), ("scheduling", slack(lateness))])
