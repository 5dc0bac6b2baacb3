"""Made-up records, and the same without one user, who may be out to give the difference away."""

import random

COLUMNS = ("user", "page", "colour", "day")
COLOURS = ["red", "blue"]
DAYS = [f"2024-01-0{day}" for day in range(1, 5)]
_STRANGE = ('say "hi"', "two\nlines", "a,b", " spaces ", "\u202eright to left", "é", "x" * 3000)


def _ordinary(rng, user):
    for _ in range(rng.randrange(1, 4)):
        yield user, f"p{int(rng.paretovariate(1)) % 30}", rng.choice(COLOURS), rng.choice(DAYS)


def _greedy(rng, user):
    """Has everything that others have, and more that nobody has."""
    for page in range(60):
        yield user, f"p{page}", rng.choice(COLOURS), rng.choice(DAYS)


def _alone(rng, user):
    """Is the only user of some things, each on each day."""
    for page in range(5):
        for day in DAYS:
            yield user, f"secret {rng.random()} {page}", "red", day


def _repeating(rng, user):
    """Has one thing a thousand times."""
    yield from [(user, "p1", "blue", DAYS[0])] * 1000


def _strange(rng, user):
    """Has texts that are hard to write."""
    for text in _STRANGE:
        yield user, text, rng.choice(COLOURS), rng.choice(DAYS)


def _outside(rng, user):
    """Is in no group and in no period."""
    yield user, "p1", "", "1999-12-31"
    yield user, "p2", "mauve", "2030-01-01"


KINDS = (_ordinary, _greedy, _alone, _repeating, _strange, _outside)


def neighbours(seed):
    """Two lists of rows, of which the second one lacks all records of one user, and that user's
    rows. Every seventh time there is nobody else."""
    rng = random.Random(seed)
    rest = []
    for user in range(0 if seed % 7 == 6 else rng.randrange(1, 60)):
        rest += _ordinary(rng, f"user {user}")
    own = list(KINDS[seed % len(KINDS)](rng, rng.choice(["user 1000", "0", "A", "zz"])))
    rows = [*rest, *own]
    # The order of the others stays: it is no secret of this user.
    places = set(rng.sample(range(len(rows)), len(own)))
    from_rest, from_own = iter(rest), iter(own)
    rows = [next(from_own if i in places else from_rest) for i in range(len(rows))]
    return rows, rest, own


def shuffled(rows, seed):
    """The rows in another order."""
    rows = list(rows)
    random.Random(seed).shuffle(rows)
    return rows
