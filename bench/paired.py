"""What paired measurements say of a goal: runs side by side, in turns, hit by the same noise."""
import random
import statistics

DRAWS = 200


def interval_of(added):
    """Holds 95 of 100 medians of as many pairs, drawn from those measured, with repetition, again
    and again (bootstrap)."""
    draw = random.Random(1)
    drawn = sorted(statistics.median(draw.choices(added, k=len(added))) for _ in range(DRAWS))
    return drawn[DRAWS * 25 // 1000], drawn[DRAWS * 975 // 1000]


def holds(interval, goal):
    """None: the goal lies inside the interval, the machine was too noisy to tell."""
    low, high = interval
    return True if high <= goal else False if low > goal else None
