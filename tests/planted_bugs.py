"""The planted bugs of ``tests.mutants``, and the tests that should notice."""

from __future__ import annotations

from typing import NamedTuple

_SELECTION = "dp_transforms/mechanisms/partition_selection"
_TEST_SELECTION = "tests/mechanisms/partition_selection"


class Mutant(NamedTuple):
    """A planted bug.

    Attributes:
      bug: what it does wrong, in a few words.
      path: the file that has it.
      old: a piece of that file, which occurs in it once.
      new: what stands there instead.
      tests: files or tests that should notice.
    """

    bug: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]


MUTANTS = (
    Mutant(
        "a corner-weighted label is carried over a straight step",
        "dp_transforms/mechanisms/labelled_walk/labels.py",
        "before[1:-1, HELD_ZERO] = stay + move_held",
        "before[1:-1, HELD_ZERO] = stay_held + move_held",
        ("tests/mechanisms/labelled_walk/test_law.py",),
    ),
    Mutant(
        "corners that walls hold count in the corner-weighted law",
        "dp_transforms/mechanisms/labelled_walk/labels.py",
        "before[wall, HELD_ONE] = before[wall, OPEN]",
        "pass",
        ("tests/mechanisms/labelled_walk/test_law.py",),
    ),
    Mutant(
        "walks beyond the window weigh nothing in corner-weighted messages",
        "dp_transforms/mechanisms/labelled_walk/labels.py",
        "before[0] = self.loop * after[0] + self.costs[self.window] * after[1, OPEN]",
        "before[0] = self.loop * after[0]",
        ("tests/mechanisms/labelled_walk/test_sampler.py",),
    ),
    Mutant(
        "s in place of s / (1 - s) in the corner-weighted price",
        "dp_transforms/mechanisms/integer_partition/corner_price.py",
        "down.sub(gmpy2.mpq(3, 4), up.div(gmpy2.mpq(1, 4), q[0]))",
        "down.sub(gmpy2.mpq(4, 5), up.div(gmpy2.mpq(1, 5), q[0]))",
        ("tests/mechanisms/integer_partition/test_corner_price.py",),
    ),
    Mutant(
        "the product in the corner-weighted price is cut short",
        "dp_transforms/mechanisms/integer_partition/corner_price.py",
        "for i in range(1, terms + 1):",
        "for i in range(1, terms // 8 + 1):",
        ("tests/mechanisms/integer_partition/test_corner_price.py",),
    ),
    Mutant(
        "a peak is counted twice in the corner-weighted price",
        "dp_transforms/mechanisms/integer_partition/corner_price.py",
        "up.mul(k[1], up.div(power[1], rest[0]))",
        "up.mul(k[1] * k[1], up.div(power[1], rest[0]))",
        ("tests/mechanisms/integer_partition/test_corner_price.py",),
    ),
    Mutant(
        "a peak is counted twice in the weight of a corner-weighted release",
        "dp_transforms/mechanisms/laws/corner_law.py",
        "chains = corner_chains(released)",
        "chains = corner_chains(released) + 1",
        ("tests/mechanisms/laws/test_corner_law.py",),
    ),
    Mutant(
        "the ends of long corner-weighted runs are taken for independent too soon",
        "dp_transforms/mechanisms/labelled_walk/decoupling.py",
        "base ** (length - 1 - s - t)",
        "base ** (2 * length - 1 - s - t)",
        ("tests/mechanisms/labelled_walk/test_decoupling.py",),
    ),
    Mutant(
        "corner-weighted messages are not scaled back",
        "dp_transforms/mechanisms/labelled_walk/float_walk.py",
        "self.factors[:, index] *= scale",
        "pass",
        ("tests/mechanisms/labelled_walk/test_sampler.py",),
    ),
    Mutant(
        "error bars of corner-weighted releases forget that a release strays from its first stage",
        "dp_transforms/mechanisms/laws/corner_law.py",
        "4 / 3 * 3.0 ** -(moved + 1.0 - places)",
        "0.0 ** (moved + 1.0 - places)",
        ("tests/mechanisms/laws/test_corner_law.py",),
    ),
    Mutant(
        "sensitivity off by a factor of two: epsilon / sensitivity for epsilon / (2 sensitivity)",
        "dp_transforms/mechanisms/integer_partition/mechanism.py",
        "return epsilon / (2 * self.sensitivity)",
        "return epsilon / self.sensitivity",
        ("tests/evaluation/test_auditing.py",),
    ),
    Mutant(
        "the geometric mechanism marks corners with the t of another q",
        "dp_transforms/mechanisms/sampler/corner_decisions.py",
        "return down.div(lo, up.add(1, lo)), up.div(hi, down.add(1, hi))",
        "return down.div(lo, up.add(2, lo)), up.div(hi, down.add(2, hi))",
        ("tests/mechanisms/sampler/test_corner_walk.py",),
    ),
    Mutant(
        "a chain of corners is not reset by a straight bit",
        "dp_transforms/mechanisms/sampler/corner_walk.py",
        "chain = chain + 1 if vertex == (STRAIGHT if away else TURNED) else 0",
        "chain = chain + (vertex == (STRAIGHT if away else TURNED))",
        ("tests/mechanisms/sampler/test_corner_walk.py",),
    ),
    Mutant(
        "the path back to the list is one cell too short",
        "dp_transforms/mechanisms/sampler/corner_walk.py",
        "return distance + number - 1",
        "return distance + max(number - 2, 0)",
        ("tests/mechanisms/sampler/test_corner_walk.py",),
    ),
    Mutant(
        "the exponential mechanism's price is that of kappa = 1",
        "dp_transforms/mechanisms/integer_partition/exponential.py",
        "return exponential_price.rate_of(epsilon / self.sensitivity)",
        "return exponential_price.rate_of(epsilon)",
        ("tests/mechanisms/integer_partition/test_exponential_price.py",),
    ),
    Mutant(
        "the geometric mechanism does not divide epsilon by the sensitivity",
        "dp_transforms/mechanisms/integer_partition/geometric.py",
        "return epsilon / self.sensitivity",
        "return epsilon",
        ("tests/mechanisms/integer_partition/test_geometric.py",),
    ),
    Mutant(
        "node privacy with the sensitivity of the degrees of one end",
        "dp_transforms/mechanisms/degree_projection.py",
        "(3 if directed else 2) * degree_bound",
        "(2 if directed else 1) * degree_bound",
        ("tests/mechanisms/test_degree_projection.py",),
    ),
    Mutant(
        ">= for > at the threshold of noisy counts",
        f"{_SELECTION}/threshold_law.py",
        "lo, hi = self._at_most(self.threshold - statistic, precision)",
        "lo, hi = self._at_most(self.threshold - statistic - 1, precision)",
        (f"{_TEST_SELECTION}/test_noisy_thresholds.py", f"{_TEST_SELECTION}/test_audits.py"),
    ),
    Mutant(
        "> for >= where a number equals the probability of being dropped",
        f"{_SELECTION}/keep_law.py",
        "keep = words > last[cells]",
        "keep = words >= last[cells]",
        (f"{_TEST_SELECTION}/test_keep_law.py",),
    ),
    Mutant(
        "one partition more than kappa",
        "dp_transforms/columnar/bounding.py",
        "np.arange(at_most)).ravel()",
        "np.arange(at_most + 1)).ravel()",
        ("tests/columnar/test_bounding.py",),
    ),
    Mutant(
        "every job draws the same secret",
        "dp_transforms/job_secret.py",
        "return cls(secrets.token_bytes(SECRET_BYTES))",
        "return cls(bytes(SECRET_BYTES))",
        ("tests/test_job_secret.py",),
    ),
    Mutant(
        "all purposes under one secret share their noise",
        "dp_transforms/mechanisms/randomness.py",
        "hashlib.shake_256(prefix + secret + purpose.encode())",
        "hashlib.shake_256(prefix + secret)",
        ("tests/test_job_secret.py", "tests/test_frequency_release.py"),
    ),
    Mutant(
        "all channels of a tape share their numbers",
        "dp_transforms/mechanisms/randomness.py",
        'index.to_bytes(16, "big") + channel.encode()',
        'index.to_bytes(16, "big")',
        ("tests/mechanisms/noise/test_discrete_noise.py", "tests/statistical"),
    ),
    Mutant(
        "kappa is not enforced where a user's records are bounded for a frequency list",
        "dp_transforms/contributions.py",
        'distinct_pairs, at_most=self._kappa, key=secret.key("bound contributions")',
        'distinct_pairs, key=secret.key("bound contributions")',
        ("tests/test_contributions.py::test_no_user_is_in_more_than_kappa_partitions",),
    ),
    Mutant(
        "kappa is not enforced in rounds with weights",
        "dp_transforms/weighted_rounds.py",
        "            at_most=self._strategy.max_partitions_per_user,\n",
        "            at_most=None,\n",
        ("tests/test_selection.py", "tests/test_selection_laws.py"),
    ),
    Mutant(
        "kappa is not enforced in a selection from records that are not bounded",
        "dp_transforms/selection.py",
        "(known is None or known > kappa)",
        "(known is not None and known > kappa)",
        ("tests/test_selection.py",),
    ),
    Mutant(
        "walks that leave the window are cut off, without a delta",
        "dp_transforms/mechanisms/sampler/walk.py",
        "            raise Undecided(width if width < 1 else 1.0)\n    raise Undecided(1.0)",
        "            raise Undecided(width if width < 1 else 1.0)\n    return len(lo) - 1",
        (
            "tests/mechanisms/sampler/test_walk.py",
            "tests/mechanisms/integer_partition/test_exponential.py",
        ),
    ),
    Mutant(
        "messages beyond the window's edge count as nothing",
        "dp_transforms/mechanisms/sampler/float_messages.py",
        "return values.item(last, 1), ratio * (1 + 2.0**-18)",
        "return 0.0, ratio * (1 + 2.0**-18)",
        ("tests/mechanisms/sampler/test_float_messages.py",),
    ),
    Mutant(
        "a question that floats do not settle is guessed",
        "dp_transforms/mechanisms/sampler/walk.py",
        "if upper <= below:",
        "if upper <= (below + above) / 2:",
        (
            "tests/mechanisms/sampler/test_walk.py",
            "tests/mechanisms/integer_partition/test_exponential.py",
        ),
    ),
    Mutant(
        "moves from the two ends of a run may collide",
        "dp_transforms/mechanisms/sampler/blocks.py",
        "accepted = inside <= lengths[waiting]",
        "accepted = inside <= lengths[waiting] + 1",
        ("tests/mechanisms/sampler/test_blocks.py",),
    ),
    Mutant(
        "long runs weigh as much from the wrong side of zero as their upper bounds say",
        "dp_transforms/mechanisms/sampler/float_transfer.py",
        "            product[self.centre + 1 :, 0] = 0\n",
        "            pass\n",
        ("tests/mechanisms/sampler/test_float_messages.py",),
    ),
    Mutant(
        "dist taken as L1: distances are halved",
        "dp_transforms/mechanisms/frequency_list.py",
        "return sum(width * abs(a - b)",
        "return sum(width * abs(a - b) // 2",
        ("tests/mechanisms/sampler/test_walk.py", "tests/statistical"),
    ),
    Mutant(
        "dist taken as L1: an evaluation prints the L1 distance as dist",
        "pipelines/evaluate.py",
        "original.l1_distance(released) / 2",
        "original.l1_distance(released)",
        ("tests/pipelines/test_evaluate.py",),
    ),
    Mutant(
        "1 - pi in floats, at epsilon = 20",
        f"{_SELECTION}/optimal.py",
        "return down.sub(1, hi), up.sub(1, lo)",
        "return (gmpy2.mpq(1 - float(hi)),) * 2",
        (f"{_TEST_SELECTION}/test_optimal_law.py",),
    ),
    Mutant(
        "users add twice the step that a Renyi law allows",
        f"{_SELECTION}/renyi_strategies.py",
        "return self.law.step(partitions)",
        "return 2 * self.law.step(partitions)",
        (f"{_TEST_SELECTION}/test_audits.py::test_weighted_rounds_with_their_transcript",),
    ),
    Mutant(
        "every round of Renyi laws spends the whole budget",
        f"{_SELECTION}/renyi_strategies.py",
        "tuple(best.share(share) for share in shares)",
        "tuple(best for share in shares)",
        (f"{_TEST_SELECTION}/test_audits.py::test_weighted_rounds_with_their_transcript",),
    ),
    Mutant(
        "a Renyi law bounds the divergence in one direction alone",
        f"{_SELECTION}/renyi_law.py",
        "return bool(there <= self._most and back <= self._most)",
        "return bool(back <= self._most)",
        (f"{_TEST_SELECTION}/test_renyi_laws.py::test_worst_delta_of_counts",),
    ),
    Mutant(
        "each partition of a user's own is exposed with the whole of lambda",
        f"{_SELECTION}/renyi_law.py",
        "gmpy2.mpq(budget.exposure) / partitions",
        "gmpy2.mpq(budget.exposure)",
        (f"{_TEST_SELECTION}/test_renyi_laws.py::test_worst_delta_of_counts",),
    ),
    Mutant(
        "1 - pi in floats, past the crossover at epsilon = 20",
        f"{_SELECTION}/optimal.py",
        "return self._shrinking(n - self.crossover, precision)",
        "return (1 - gmpy2.mpq(float(1 - self._shrinking(n - self.crossover, precision)[0])),) * 2",
        (f"{_TEST_SELECTION}/test_optimal_law.py",),
    ),
    Mutant(
        "both releases get the whole budget",
        "pipelines/release_all.py",
        "for_list = whole - for_selection",
        "for_list = PrivacyBudget(whole.epsilon)",
        ("tests/pipelines/test_release_all.py",),
    ),
    Mutant(
        "each of kappa partitions gets the whole budget",
        f"{_SELECTION}/composition.py",
        "return epsilon / parts, delta / parts",
        "return epsilon, delta",
        (f"{_TEST_SELECTION}/test_audits.py",),
    ),
    Mutant(
        "what is reserved but not committed is spent again",
        "dp_transforms/budget/filter.py",
        "costs = [*spent, cost]\n",
        "costs = [cost]\n",
        ("tests/budget/test_ledger.py",),
    ),
    Mutant(
        "the PRF that bounds users leaves out the partition",
        "dp_transforms/columnar/bounding.py",
        "prf(key, owner_hashes[owner[positions]], member_hashes[member[positions]])",
        "prf(key, owner_hashes[owner[positions]], owner_hashes[owner[positions]])",
        ("tests/columnar/test_bounding.py",),
    ),
    Mutant(
        "the PRF that bounds users leaves out the user",
        "dp_transforms/columnar/bounding.py",
        "prf(key, owner_hashes[owner[positions]], member_hashes[member[positions]])",
        "prf(key, member_hashes[member[positions]], member_hashes[member[positions]])",
        ("tests/columnar/test_bounding.py", "tests/test_contributions.py"),
    ),
    Mutant(
        "the noise of a partition does not depend on its name",
        "dp_transforms/columnar/named_uniforms.py",
        "            state.update(name)\n",
        "",
        ("tests/columnar/test_named_uniforms.py",),
    ),
    Mutant(
        "a retry draws the list's noise again",
        "dp_transforms/frequency_release.py",
        "return release_frequency_list(frequency_list, mechanism, secret, purpose)",
        "return release_frequency_list(frequency_list, mechanism, JobSecret.from_os(), purpose)",
        ("tests/test_frequency_release.py",),
    ),
    Mutant(
        "a retry bounds a user in another way",
        "dp_transforms/columnar/bounding.py",
        "    priorities = prf(key, ",
        '    priorities = prf(__import__("os").urandom(32), ',
        ("tests/columnar/test_bounding.py", "tests/test_contributions.py"),
    ),
    Mutant(
        "a retry decides about a partition again",
        "dp_transforms/count_selection.py",
        "uniforms = NamedUniforms(partitions, key, needed)",
        'uniforms = NamedUniforms(partitions, __import__("os").urandom(32), needed)',
        ("tests/test_selection.py",),
    ),
    Mutant(
        "an error tells what a record holds",
        "pipelines/files/delimited_text.py",
        'raise InputError(f"{part.path}: {self._fault(error, layout)}") from None',
        'raise InputError(f"{part.path}: {error}") from None',
        ("tests/pipelines/test_bad_inputs.py",),
    ),
    Mutant(
        "each window's list costs what all of them together should",
        "dp_transforms/windowed_lists.py",
        "each = PrivacyBudget(epsilon).epsilon / self._most",
        "each = PrivacyBudget(epsilon).epsilon",
        ("tests/test_windowed_lists.py",),
    ),
    Mutant(
        "a user counts in any number of windows",
        "dp_transforms/columnar/periods.py",
        "kept = distinct_pairs(pa.table(coded), most_periods, period_key)",
        "kept = distinct_pairs(pa.table(coded))",
        ("tests/test_windowed_lists.py",),
    ),
    Mutant(
        "the bounds of collections that are put together do not add up",
        "dp_transforms/runtime/bounds.py",
        "partitions=sum(known) if alike else None",
        "partitions=max(known) if alike else None",
        ("tests/runtime/test_bounds.py",),
    ),
    Mutant(
        "what is known to be less bounded than claimed is released all the same",
        "dp_transforms/runtime/bounds.py",
        "    if bound.partitions > claimed:",
        "    if False:",
        ("tests/runtime/test_bounds.py",),
    ),
    Mutant(
        "a step that may do anything keeps the bound",
        "dp_transforms/runtime/bounds.py",
        "            told = Bound(counted=True if before.counted else None)",
        "            told = before",
        ("tests/runtime/test_bounds.py",),
    ),
    Mutant(
        "a second run of a pipeline repeats the secret",
        "dp_transforms/job_secret.py",
        "    _run_only_once(pipeline)\n",
        "",
        ("tests/test_job_secret.py",),
    ),
    Mutant(
        "a secret serves any number of pipelines",
        "dp_transforms/job_secret.py",
        "    secret.serve(pipeline)\n",
        "",
        ("tests/test_job_secret.py",),
    ),
    Mutant(
        "selected names come in the order in which records arrived",
        "dp_transforms/columnar/columns.py",
        "    return table.take(order)",
        "    return table",
        ("tests/test_order.py",),
    ),
    Mutant(
        "windows beside the global one slip through a Flatten",
        "dp_transforms/runtime/records.py",
        "            merged += before",
        "            pass",
        ("tests/runtime/test_records.py",),
    ),
    Mutant(
        "a ledger takes epsilon to be the range of every loss",
        "dp_transforms/budget/ledger.py",
        "cost = Cost(PrivacyBudget(epsilon, delta), loss_range)",
        "cost = Cost(PrivacyBudget(epsilon, delta), epsilon)",
        ("tests/budget/test_ledger.py",),
    ),
    Mutant(
        "a ledger takes losses of another unit",
        "dp_transforms/budget/ledger.py",
        "        if unit is not self._unit:",
        "        if False:",
        ("tests/budget/test_ledger.py",),
    ),
    Mutant(
        "a tape serves any number of releases",
        "dp_transforms/mechanisms/randomness.py",
        "        self._served.add(release)\n",
        "",
        ("tests/mechanisms/test_released_list.py",),
    ),
    Mutant(
        "a step that is repeated deletes the finished release before it writes it again",
        "pipelines/files/output.py",
        "            if len(done) == len(contents):\n                return\n",
        "",
        ("tests/pipelines/files/test_output.py",),
    ),
)
