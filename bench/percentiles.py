"""Statistics of latencies: percentiles by nearest rank, so that each is a value that was measured."""
import math


def percentile(ascending, percent):
    """The least value that at least `percent` of all values do not exceed."""
    return ascending[max(0, math.ceil(len(ascending) * percent / 100) - 1)]


def summary(latencies):
    """p50, p95, p99, least and mean, in the latencies' own unit."""
    ascending = sorted(latencies)
    return {**{f"p{percent}": percentile(ascending, percent) for percent in (50, 95, 99)}, "least": ascending[0],
            "mean": sum(ascending) / len(ascending)}
