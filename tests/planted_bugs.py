"""The planted bugs of ``tests.mutants``, and the tests that should notice."""

from pathlib import PurePosixPath
from typing import NamedTuple

_PARTITION, _SELECTION = "mechanisms/partition", "mechanisms/selection"
_FROBENIUS = f"{_PARTITION}/test_frobenius.py"


class Mutant(NamedTuple):
    """A planted bug.

    Attributes:
      bug: what it does wrong, in a few words.
      path: the file that has it.
      old: a piece of that file, which occurs in it once.
      new: what stands there instead.
      tests: files or tests that should notice, below tests/; by default, those of the file.
    """

    bug: str
    path: str
    old: str
    new: str
    tests: str = ""

    @property
    def targets(self) -> list[str]:
        """The tests, with the default filled in."""
        path = PurePosixPath(self.path.removeprefix("dp_transforms/"))
        tests = self.tests or str(path.with_name(f"test_{path.name}"))
        return [f"tests/{test}" for test in tests.split()]


MUTANTS = (
    Mutant(
        "an enclosure's product is rounded up at both ends",
        "dp_transforms/mechanisms/enclosure.py",
        "return Enclosure(down.mul(x.lower, y.lower), up.mul(x.upper, y.upper))",
        "return Enclosure(up.mul(x.lower, y.lower), up.mul(x.upper, y.upper))",
        "mechanisms/test_enclosure.py::test_operations_on_numbers_that_fill_their_precision",
    ),
    Mutant(
        "how many partitions users have is released with half of its noise",
        "dp_transforms/mechanisms/user_degrees.py",
        "DiscreteLaplace(1 / Fraction(self.epsilon))",
        "DiscreteLaplace(1 / (2 * Fraction(self.epsilon)))",
        "mechanisms/test_user_degree_mechanism.py",
    ),
    Mutant(
        "sensitivity off by a factor of two: epsilon / sensitivity for epsilon / (2 sensitivity)",
        "dp_transforms/mechanisms/partition/mechanism.py",
        "return epsilon / (self.factors * self.sensitivity)",
        "return epsilon / self.sensitivity",
        f"{_PARTITION}/test_known_total.py::test_neighbours_keep_the_ratio_of_probabilities",
    ),
    Mutant(
        "lists of any total below the public one are released",
        "dp_transforms/mechanisms/partition/narrowed.py",
        "return abs(missing) <= tolerance",
        "return missing >= -tolerance",
        f"{_PARTITION}/test_known_total.py",
    ),
    Mutant(
        "the first coordinate has no noise",
        "dp_transforms/mechanisms/partition/frobenius.py",
        "noise.sample(tape, arm, count, begin)",
        "noise.sample(tape, arm, count, begin) * (indices > 1)",
        f"{_FROBENIUS}::test_the_noise_of_each_coordinate_has_its_distribution",
    ),
    Mutant(
        "an arm is cut where the private list ends",
        "dp_transforms/mechanisms/partition/frobenius.py",
        "return drawn[:end]",
        "return drawn[: min(end, coordinates.square + 3)]",
        f"{_FROBENIUS}::test_an_arm_ends_where_the_rule_says_of_the_noisy_numbers_alone",
    ),
    Mutant(
        "both arms have the same noise",
        "dp_transforms/mechanisms/partition/frobenius.py",
        "noise.sample(tape, arm, count, begin)",
        "noise.sample(tape, ROWS, count, begin)",
        f"{_FROBENIUS}::test_neighbours_share_the_noise_of_a_tape_and_arms_do_not",
    ),
    Mutant(
        "a coordinate counts the cell on the diagonal twice",
        "dp_transforms/mechanisms/noisy_coordinates.py",
        "self._list.at_least(indices) - indices",
        "self._list.at_least(indices) - indices + 1",
    ),
    Mutant(
        "the geometric mechanism marks corners with the t of another q",
        "dp_transforms/mechanisms/partition/walk/geometric_walk.py",
        "return power / (1 + power)",
        "return power / (2 + power)",
    ),
    Mutant(
        "the exponential mechanism's price is that of kappa = 1",
        "dp_transforms/mechanisms/partition/exponential.py",
        "return rate_of(epsilon / self.sensitivity)",
        "return rate_of(epsilon)",
        f"{_PARTITION}/test_exponential_price.py",
    ),
    Mutant(
        "lists are released as if each user had one partition",
        "dp_transforms/mechanisms/partition/mechanism.py",
        "return epsilon / (self.factors * self.sensitivity)",
        "return epsilon / self.factors",
        f"{_PARTITION}/test_geometric.py",
    ),
    Mutant(
        "node privacy with the sensitivity of the degrees of one end",
        "dp_transforms/mechanisms/degree_projection.py",
        "(3 if directed else 2) * positive_integer",
        "(2 if directed else 1) * positive_integer",
    ),
    Mutant(
        ">= for > at the threshold of noisy counts",
        f"dp_transforms/{_SELECTION}/threshold_distribution.py",
        "drop = self.noise.above(statistic - self.threshold - 1, precision)",
        "drop = self.noise.above(statistic - self.threshold, precision)",
        f"{_SELECTION}/test_noisy_thresholds.py {_SELECTION}/test_audits.py",
    ),
    Mutant(
        "> for >= where a number equals the probability of being dropped",
        f"dp_transforms/{_SELECTION}/keep_distribution.py",
        "keep = words > last[cells]",
        "keep = words >= last[cells]",
    ),
    Mutant(
        "one partition more than kappa",
        "dp_transforms/columnar/bounding.py",
        "np.arange(at_most)).ravel()",
        "np.arange(at_most + 1)).ravel()",
    ),
    Mutant(
        "a line of two JSON objects is two records",
        "dp_transforms/files/json_lines.py",
        "return table if table.num_rows == len(ends) else None",
        "return table",
        "files/test_json_and_avro.py",
    ),
    Mutant(
        "a limit on priorities is that of another user",
        "dp_transforms/columnar/bounding.py",
        "priorities <= most[owners.codes]",
        "priorities <= most.min()",
    ),
    Mutant(
        "every job draws the same secret",
        "dp_transforms/runtime/job_secret.py",
        "return cls(secrets.token_bytes(SECRET_BYTES))",
        "return cls(bytes(SECRET_BYTES))",
    ),
    Mutant(
        "all purposes under one secret share their noise",
        "dp_transforms/mechanisms/randomness.py",
        "hashlib.shake_256(prefix + secret + context.encode())",
        "hashlib.shake_256(prefix + secret)",
        "runtime/test_job_secret.py transforms/test_release.py",
    ),
    Mutant(
        "all channels of a tape share their numbers",
        "dp_transforms/mechanisms/randomness.py",
        'index.to_bytes(16, "big") + channel.encode()',
        'index.to_bytes(16, "big")',
        "mechanisms/test_discrete_noise.py",
    ),
    Mutant(
        "kappa is not enforced where a user's records are bounded for a frequency list",
        "dp_transforms/transforms/contributions.py",
        'distinct_pairs, at_most=self._max_partitions, key=secret.key("bound contributions")',
        'distinct_pairs, key=secret.key("bound contributions")',
        "transforms/test_contributions.py::test_no_user_is_in_more_than_kappa_partitions",
    ),
    Mutant(
        "kappa is not enforced in process",
        "dp_transforms/runtime/in_process.py",
        "distinct_pairs, at_most=max_partitions, key=key",
        "distinct_pairs, at_most=None, key=key",
        "pipelines/test_release_frequency_list.py",
    ),
    Mutant(
        "records that a number of other users needs are not bounded for the names",
        "dp_transforms/runtime/in_process.py",
        "            if not spec.already_bounded:\n",
        "            if False:\n",
        "pipelines/test_engines.py",
    ),
    Mutant(
        "kappa is not enforced in rounds with weights",
        "dp_transforms/runtime/selecting.py",
        "bound(pairs, at_most=strategy.max_partitions_per_user)",
        "bound(pairs, at_most=None)",
        "transforms/test_selection.py::test_selections_agree_with_the_reference",
    ),
    Mutant(
        "kappa is not enforced in a selection from records that are not bounded",
        "dp_transforms/transforms/selection.py",
        "(known is None or known > max_partitions)",
        "(known is not None and known > max_partitions)",
    ),
    Mutant(
        "what leaves the window of a question looked ahead from weighs nothing",
        "dp_transforms/mechanisms/partition/walk/precise.py",
        "if least > leak or most < down.minus(leak):",
        "if least > 0 or most < 0:",
        # Others ask on for ever, up to the limit of time.
        f"{_PARTITION}/walk/test_levels.py::test_numbers_beside_a_threshold_are_settled_ahead",
    ),
    Mutant(
        "walks that leave the window are cut off, without a delta",
        "dp_transforms/mechanisms/partition/walk/walk.py",
        "            raise Undecided(width if width < 1 else 1.0)\n    raise Undecided",
        "            raise Undecided(width if width < 1 else 1.0)\n    return len(lo) - 1",
    ),
    Mutant(
        "a question that floats do not settle is guessed",
        "dp_transforms/mechanisms/partition/walk/walk.py",
        "if upper <= below:",
        "if upper <= (below + above) / 2:",
    ),
    Mutant(
        "moves from the two ends of a run may collide",
        "dp_transforms/mechanisms/partition/walk/blocks.py",
        "accepted = inside <= (tops - bottoms)[waiting]",
        "accepted = inside <= (tops - bottoms)[waiting] + 1",
    ),
    Mutant(
        "dist taken as L1: distances are halved",
        "dp_transforms/mechanisms/frequency_list.py",
        "return sum(width * abs(a - b)",
        "return sum(width * abs(a - b) // 2",
        "mechanisms/test_partition_bounds.py",
    ),
    Mutant(
        "the order of partitions that all users share differs from round to round by nothing",
        "dp_transforms/runtime/selecting.py",
        'f"{context}, round {index}" if strategy.shared_order(index) else context',
        "context",
        "transforms/test_selection.py::test_selections_agree_with_the_reference",
    ),
    Mutant(
        "the last round weighs by other steps than its distribution allows",
        "dp_transforms/runtime/selecting.py",
        "weights = functools.partial(strategy.weights, index, named=rows_of(beside))",
        "weights = functools.partial(strategy.weights, index, named=1 << 30)",
        "transforms/test_selection.py::test_selections_agree_with_the_reference",
    ),
    Mutant(
        "intervals of noisy counts forget that only large ones are released",
        f"dp_transforms/{_SELECTION}/threshold_distribution.py",
        "> (miss * named).lower",
        "> miss",
        f"{_SELECTION}/test_count_intervals.py",
    ),
    Mutant(
        "early rounds are exposed beside the whole exposure of the last",
        f"dp_transforms/{_SELECTION}/renyi_calibration.py",
        "self.exposure * exposure)",
        "self.exposure)",
        f"{_SELECTION}/test_renyi_distributions.py::test_rounds_share_the_budget",
    ),
    Mutant(
        "users add twice the step that a Renyi distribution allows",
        f"dp_transforms/{_SELECTION}/rounds.py",
        "np.array([weight(int(d)) for",
        "2 * np.array([weight(int(d)) for",
        f"{_SELECTION}/test_audits.py::test_weighted_rounds_with_their_transcript",
    ),
    Mutant(
        "every round of Renyi distributions spends the whole budget",
        f"dp_transforms/{_SELECTION}/rounds.py",
        "tuple(total.share(*share) for share in of_rounds)",
        "tuple(total for share in of_rounds)",
        f"{_SELECTION}/test_audits.py::test_weighted_rounds_with_their_transcript",
    ),
    Mutant(
        "a Renyi distribution bounds the divergence in one direction alone",
        f"dp_transforms/{_SELECTION}/renyi_distribution.py",
        "<= self._most\n                and",
        "<= self._most\n                or",
        f"{_SELECTION}/test_renyi_distributions.py::test_worst_delta_of_counts",
    ),
    Mutant(
        "each partition of a user's own is exposed with the whole of lambda",
        f"dp_transforms/{_SELECTION}/renyi_distribution.py",
        "gmpy2.mpq(budget.exposure) / partitions",
        "gmpy2.mpq(budget.exposure)",
        f"{_SELECTION}/test_renyi_distributions.py::test_worst_delta_of_counts",
    ),
    Mutant(
        "the statistic of users has half of its noise",
        f"dp_transforms/{_SELECTION}/measured.py",
        "DiscreteLaplace(self._scale)",
        "DiscreteLaplace(self._scale / 2)",
    ),
    Mutant(
        "the statistic of users is not paid for",
        f"dp_transforms/{_SELECTION}/measured.py",
        "_ByCounts(left, ",
        "_ByCounts(strategy.epsilon, ",
    ),
    Mutant(
        "the numbers of users by class are not paid for",
        f"dp_transforms/{_SELECTION}/measured.py",
        "_PlannedRounds(left, ",
        "_PlannedRounds(strategy.epsilon, ",
    ),
    Mutant(
        "what a plan spends before its last round leaves that one as exposed",
        f"dp_transforms/{_SELECTION}/renyi_calibration.py",
        "eta = exposure - left - delta",
        "eta = exposure - 0 * left - delta",
        f"{_SELECTION}/test_measured.py",
    ),
    Mutant(
        "the last round's exposure is as if the rounds before it showed nothing",
        f"dp_transforms/{_SELECTION}/renyi_calibration.py",
        "eta = eta / enclosed((order - 1) * early, _PRECISION).exp()",
        "pass",
        f"{_SELECTION}/test_renyi_distributions.py::test_worst_delta_of_rounds",
    ),
    Mutant(
        "a user of as many partitions as an edge is counted in two classes",
        f"dp_transforms/{_SELECTION}/measured.py",
        "np.searchsorted(edges, has)",
        "np.concatenate([np.searchsorted(edges, has), np.searchsorted(edges, has[has < 2])])",
    ),
    Mutant(
        "all numbers of users by class have the same noise",
        f"dp_transforms/{_SELECTION}/measured.py",
        '"statistic of users", len(counts)).tolist()',
        '"statistic of users", 1).tolist() * len(counts)',
    ),
    Mutant(
        "users of other partitions have half of their noise",
        "dp_transforms/specs.py",
        'positive_rational("others_epsilon", self.others_epsilon)',
        'positive_rational("others_epsilon", 2 * self.others_epsilon)',
        "transforms/test_selection.py::test_the_number_of_other_users_has_the_noise_of_its_epsilon",
    ),
    Mutant(
        "users of other partitions are not paid for",
        "pipelines/select_partitions.py",
        "names = whole if others is None else whole - others",
        "names = whole",
    ),
    Mutant(
        "1 - pi in floats, past the crossover at epsilon = 20",
        f"dp_transforms/{_SELECTION}/keep_distribution.py",
        "return self._shrinking(n - self.crossover, precision)",
        "return (1 - gmpy2.mpq(float(1 - self._shrinking(n - self.crossover, precision)[0])),) * 2",
        f"{_SELECTION}/test_optimal_distribution.py",
    ),
    Mutant(
        "both releases get the whole budget",
        "pipelines/release_all.py",
        "for_list = whole - for_selection",
        "for_list = PrivacyBudget(whole.epsilon)",
    ),
    Mutant(
        "each of kappa partitions gets the whole budget",
        f"dp_transforms/{_SELECTION}/count_strategies.py",
        "return epsilon / parts, delta / parts",
        "return epsilon, delta",
        f"{_SELECTION}/test_audits.py",
    ),
    Mutant(
        "what is reserved but not committed is spent again",
        "dp_transforms/budget/budget.py",
        "costs = [*spent, cost]\n",
        "costs = [cost]\n",
        "budget/test_ledger.py",
    ),
    Mutant(
        "public partitions without users are never selected",
        "dp_transforms/columnar/counting.py",
        "_capped(found, cap) for name, found in sums.items()})",
        "_capped(found, cap) for name, found in sums.items()}).filter(pa.array(sums[COUNT] > 0))",
    ),
    Mutant(
        "the PRF that bounds users leaves out the partition",
        "dp_transforms/columnar/bounding.py",
        "prf(self.key, of_owners[owner], hashes)",
        "prf(self.key, of_owners[owner], of_owners[owner])",
    ),
    Mutant(
        "the PRF that bounds users leaves out the user",
        "dp_transforms/columnar/bounding.py",
        "prf(self.key, of_owners[owner], hashes)",
        "prf(self.key, hashes, hashes)",
    ),
    Mutant(
        "the noise of a partition does not depend on its name",
        "dp_transforms/columnar/hashing.py",
        "            state.update(name)\n",
        "",
        "columnar/test_hashing.py",
    ),
    Mutant(
        "a retry draws the list's noise again",
        "dp_transforms/runtime/job_secret.py",
        "return release_frequency_list(frequency_list, mechanism, secret, context)",
        "return release_frequency_list(frequency_list, mechanism, JobSecret.from_os(), context)",
        "transforms/test_release.py",
    ),
    Mutant(
        "a retry bounds a user in another way",
        "dp_transforms/columnar/bounding.py",
        "    return prf(self.key, ",
        '    return prf(__import__("os").urandom(32), ',
    ),
    Mutant(
        "a retry decides about a partition again",
        "dp_transforms/runtime/selecting.py",
        "uniforms = KeyedUniforms(partitions, key, needed)",
        'uniforms = KeyedUniforms(partitions, __import__("os").urandom(32), needed)',
        "transforms/test_selection.py",
    ),
    Mutant(
        "an error tells what a record holds",
        "dp_transforms/files/delimited_text.py",
        'raise InputError(f"{part.path}: {self._fault(error, layout)}") from None',
        'raise InputError(f"{part.path}: {error}") from None',
        "pipelines/test_bad_inputs.py",
    ),
    Mutant(
        "one user's bytes make bytes of all names of a batch",
        "dp_transforms/runtime/python_values.py",
        "        if len(kinds) > 1:",
        "        if False:",
    ),
    Mutant(
        "composites take the names of the first one's fields",
        "dp_transforms/runtime/python_values.py",
        "    names = set(map(_fields, values))",
        "    names = {_fields(values[0])}",
    ),
    Mutant(
        "text may follow a closing quote",
        "dp_transforms/files/delimited_text.py",
        "self._at_end[after[closing]].all()",
        "True",
    ),
    Mutant(
        "a user far in the future is one user for each unit of time",
        "dp_transforms/files/logical_types.py",
        "        raise pa.ArrowInvalid\n    return text",
        "        pass\n    return text",
    ),
    Mutant(
        "each window's list costs what all of them together should",
        "dp_transforms/specs.py",
        "each = PrivacyBudget(self.epsilon).epsilon / self.periods_per_user",
        "each = PrivacyBudget(self.epsilon).epsilon",
        "transforms/test_windowed.py",
    ),
    Mutant(
        "a user has as many names in all windows as in one",
        "dp_transforms/specs.py",
        "self.periods_per_user * self.max_partitions_per_user,",
        "self.max_partitions_per_user,",
        "transforms/test_windowed.py",
    ),
    Mutant(
        "records are readable on the disk",
        "dp_transforms/runtime/local.py",
        "memoryview(self._cipher.encrypt(_nonce(place), plain, None))",
        "memoryview(plain + bytes(_TAG_BYTES))",
        "runtime/test_spilling.py",
    ),
    Mutant(
        "two segments of a disk have one nonce",
        "dp_transforms/runtime/local.py",
        'return place.to_bytes(_NONCE_BYTES, "little")',
        "return bytes(_NONCE_BYTES)",
        "runtime/test_spilling.py",
    ),
    Mutant(
        "what is spilled has a name that outlives the process",
        "dp_transforms/runtime/local.py",
        "tempfile.TemporaryFile(dir=self._directory)",
        "tempfile.NamedTemporaryFile(dir=self._directory, delete=False)",
        "runtime/test_spilling.py",
    ),
    Mutant(
        "a user counts in any number of windows",
        "dp_transforms/runtime/named_lists.py",
        "kept = distinct_pairs(pa.table(coded), most_periods, period_key)",
        "kept = distinct_pairs(pa.table(coded))",
        "transforms/test_windowed.py",
    ),
    Mutant(
        "the bounds of collections that are put together do not add up",
        "dp_transforms/runtime/bounds.py",
        "partitions=sum(known) if alike else None",
        "partitions=max(known) if alike else None",
    ),
    Mutant(
        "what is known to be less bounded than claimed is released all the same",
        "dp_transforms/runtime/bounds.py",
        "    if bound.partitions > claimed:",
        "    if False:",
    ),
    Mutant(
        "a step that may do anything keeps the bound",
        "dp_transforms/runtime/bounds.py",
        "            bound_after = Bound(counted=True if before.counted else None)",
        "            bound_after = before",
    ),
    Mutant(
        "a filter of declared counts keeps the bound",
        "dp_transforms/runtime/bounds.py",
        "and before.counted is False",
        "and not before.counted",
    ),
    Mutant(
        "a second run of a pipeline repeats the secret",
        "dp_transforms/runtime/job_secret.py",
        "    _run_only_once(pipeline)\n",
        "",
    ),
    Mutant(
        "a secret serves any number of pipelines",
        "dp_transforms/runtime/job_secret.py",
        "    secret.claim(pipeline)\n",
        "",
    ),
    Mutant(
        "selected names come in the order in which records arrived",
        "dp_transforms/columnar/columns.py",
        "    return table.take(in_order(single(table[name])))",
        "    return table",
        "transforms/test_order.py",
    ),
    Mutant(
        "windows beside the global one slip through a Flatten",
        "dp_transforms/runtime/records.py",
        "            merged += before",
        "            pass",
    ),
    Mutant(
        "a ledger takes epsilon to be the range of every loss",
        "dp_transforms/budget/ledger.py",
        "cost = Cost(PrivacyBudget(epsilon, delta), loss_range)",
        "cost = Cost(PrivacyBudget(epsilon, delta), epsilon)",
    ),
    Mutant(
        "what has begun to be written is given back",
        "dp_transforms/budget/ledger_file.py",
        "return self.state is State.RESERVED and self.announces and not self.begun",
        "return self.state is State.RESERVED and self.announces",
        "budget/test_ledger.py",
    ),
    Mutant(
        "what is not announced is given back",
        "dp_transforms/budget/ledger_file.py",
        "return self.state is State.RESERVED and self.announces and not self.begun",
        "return self.state is State.RESERVED and not self.begun",
        "budget/test_ledger.py",
    ),
    Mutant(
        "a release is begun under what was given back",
        "dp_transforms/budget/ledger.py",
        "        if not found or found[0].state is not State.RESERVED:",
        "        if not found:",
    ),
    Mutant(
        "a job writes its release without a note in the ledger",
        "dp_transforms/files/output.py",
        "            begin_release(statement)\n",
        "",
        "pipelines/test_spending.py",
    ),
    Mutant(
        "a ledger takes losses of another unit",
        "dp_transforms/budget/ledger.py",
        "        if request.unit is not self.unit:",
        "        if False:",
    ),
    Mutant(
        "a tape serves any number of releases",
        "dp_transforms/mechanisms/randomness.py",
        "        self._claimed.add(release)\n",
        "",
        "mechanisms/test_released_list.py",
    ),
    Mutant(
        "a step that is repeated deletes the finished release before it writes it again",
        "dp_transforms/files/output.py",
        "            if len(done) == len(contents):\n                return\n",
        "",
    ),
)
