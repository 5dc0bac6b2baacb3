"""The planted bugs of ``tests.mutants``, and the tests that should notice."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple


class Mutant(NamedTuple):
    """A planted bug: what it does wrong, its file, a piece of it that it has once and what stands
    there instead, and the files or tests that should notice."""

    bug: str
    path: str
    old: str
    new: str
    targets: tuple[str, ...]


_BUG = re.compile(r"^([^-+].*)\n((?:- .*\n)+)((?:\+ .*\n)*)", re.MULTILINE)


def _mutants(text: str) -> Iterator[Mutant]:
    for section in text.split("\n# ")[1:]:
        where, _, bugs = section.partition("\n")
        path, _, tests = where.partition(": ")
        own = PurePosixPath(path.removeprefix("dp_transforms/"))
        named = [test if "/" in test else f"{own.parent}/{test}" for test in tests.split()]
        targets = tuple(f"tests/{test}" for test in named or [own.with_name(f"test_{own.name}")])
        for bug, *pieces in _BUG.findall(f"{bugs}\n"):
            old, new = (re.sub("^..", "", piece, flags=re.MULTILINE) for piece in pieces)
            yield Mutant(bug, path, old.removesuffix("\n"), new.removesuffix("\n"), targets)


# Each file, and the tests that should notice: below tests/, or in the folder of the file's own
# test, which it is if none is named. Then its bugs: what goes (-), and what comes instead (+).
_BUGS = r"""
# dp_transforms/mechanisms/enclosure.py: test_enclosure.py::test_operations_on_numbers_that_fill_their_precision
an enclosure's product is rounded up at both ends
- return Enclosure(down.mul(x.lower, y.lower), up.mul(x.upper, y.upper))
+ return Enclosure(up.mul(x.lower, y.lower), up.mul(x.upper, y.upper))
# dp_transforms/postprocessing/all_records_bounds.py: test_all_records_bounds.py
of a cell in which some users have more than kappa partitions nobody lost records
- beyond = [int(end > kappa) for end in ends]
+ beyond = [int(degree > kappa) for degree in lowest]
noise among numbers of users moves no proved interval about all records
- noise = sum_of_noises(rate, np.array(weights, np.float64), failure * _ROUNDING)
+ noise = 0.0
all dropped records are taken to be outside of the top
- _quotient(share.high * users + min(pairs, most_of_top), users + pairs, empty=1)
+ _quotient(share.high * users, users + pairs, empty=1)
a kappa that noisy degrees chose is taken for one that was set before
- self._possibilities *= len(degrees.lowest)
+ pass
# dp_transforms/postprocessing/dropped_users.py: test_dropped_users.py
the round that ended a survey is taken for the only one
- each = failure * _ROUNDING / (len(noisy) * degrees.rounds)
+ each = failure * _ROUNDING / len(noisy)
# dp_transforms/releases/list_and_names.py: ./test_engine_conformance.py::test_names_beside_a_list_are_made_for_its_bound
names beside a list are made for fewer partitions of a user than the list's records have
- if bound != kappa:
+ if bound > kappa:
# dp_transforms/releases/name_statements.py: pipelines/test_release_all.py
what follows from names and a list is stated at the cost of the names
- epsilon += times * _exact_epsilon(other)
+ epsilon += 0 * _exact_epsilon(other)
# dp_transforms/releases/name_answers.py: test_name_answers.py::test_a_name_of_another_type_is_not_taken_for_one_that_is_not_named
a number is looked up among names that are text, and counts as not named
- (pa.types.is_string, str, "text"),
+ (pa.types.is_string, object, "text"),
# dp_transforms/releases/frequency_list.py: test_names_beside_lists.py
intervals of a list begin where names have raised it
- value = number_of(self.as_drawn, name, index)
+ pass
# dp_transforms/releases/name_answers.py: test_name_answers.py::test_the_estimates_are_loaded_with_their_names
estimates from degrees are stated without what the degrees cost
- return {"epsilon": degrees.epsilon, "neighbours": NEIGHBOURS}
+ return {"epsilon": 0.0, "neighbours": NEIGHBOURS}
# dp_transforms/files/record_files.py: frames/test_sessions.py
an error about a repeated column shows the names of the others
- column, f"that is given twice: {rule}", f"{rule}, and {column!r} is given twice"
+ "", f"that is given twice: {rule}", f"{rule}, got {', '.join(columns)}"
# dp_transforms/releases/name_answers.py: test_names_beside_lists.py
names and a list of two jobs are taken to keep the same records
- return self.is_of_one_job and kappa <= statement["max_partitions_per_user"]
+ return bool(kappa <= statement["max_partitions_per_user"])
names that are public are taken to have users
- if self._are_public:
+ if False:
# dp_transforms/budget/ledger.py
a reservation pays for several releases
- if self._entered or not self._open:
+ if False:
# dp_transforms/beam/bounds.py
records that were declared to be bounded are released as counts
- if bound.counted is None and bound.partitions is not None:
+ if False:
# dp_transforms/beam/grouped.py: test_bounds.py
counts are taken for records of users in releases of groups
- refuse_bounded(records, "ReleaseGroupedAllRecords")
+ pass
# dp_transforms/beam/windowed.py
records that lost their times in a grouping step are in no window
- if timestamp == MIN_TIMESTAMP or timestamp >= _END_OF_TIME:
+ if timestamp == MIN_TIMESTAMP:
# dp_transforms/files/public_groups.py: pipelines/test_release_hierarchy.py
records are taken for a public table of groups
- if str(user) in table.column_names:
+ if False:
# dp_transforms/releases/hierarchy.py: ./test_every_job_is_private.py::test_a_level_costs_its_share_whatever_the_number_of_its_groups
the lowest level of a hierarchy is not charged
- for title, mechanism in zip(self._titles, self.mechanisms, strict=True)
+ for title, mechanism in zip(self._titles[:-1], self.mechanisms[:-1], strict=True)
each level of a hierarchy is released with the whole epsilon
- return parts_by_shares(whole, self.shares, levels + 1)
+ return (whole,) * (levels + 1)
# dp_transforms/engines/hierarchy_kernels.py: ./test_every_job_is_private.py::test_a_level_costs_its_share_whatever_the_number_of_its_groups
a user counts in kappa partitions of each group
- return listed(kept, place.filter(is_known).cast(pa.string()))
+ return listed(kept.set_column(0, USER, pc.binary_join_element_wise(kept[USER].cast(pa.string()), place.filter(is_known).cast(pa.string()), " ")), place.filter(is_known).cast(pa.string()))
# dp_transforms/engines/hierarchy_kernels.py: releases/test_hierarchy.py::test_equal_lists_of_a_hierarchy_have_independent_noise
groups of a level with equal lists have the same noise
- tape_of_list(frequency_list, mechanism, secret, purpose_of_group(depth, path))
+ tape_of_list(frequency_list, mechanism, secret, purpose_of_level(depth))
levels of a hierarchy with equal lists have the same noise
- tape_of_list(frequency_list, mechanism, secret, purpose_of_group(depth, path))
+ tape_of_list(frequency_list, mechanism, secret, purpose_of_group(0, path[:1]))
# dp_transforms/mechanisms/tape_contexts.py
a survey of other data has the same noise
- _context(purpose, json.dumps(list(numbers)).encode(), mechanism)
+ _context(purpose, b"", mechanism)
a survey and a choice of a degree bound have the same noise as others of their content
- return f"{purpose} {hashlib.sha256(content).hexdigest()} by {identifier(mechanism)}"
+ return f"{hashlib.sha256(content).hexdigest()} by {identifier(mechanism)}"
# dp_transforms/mechanisms/identifier.py: test_identifier.py
mechanisms that differ in their last parameter alone share their noise
- for field in dataclasses.fields(mechanism)
+ for field in dataclasses.fields(mechanism)[:-1]
# dp_transforms/mechanisms/user_degrees.py: test_user_degree_mechanism.py
how many partitions users have is released with half of its noise
- DiscreteLaplace(1 / Fraction(self.epsilon))
+ DiscreteLaplace(1 / (2 * Fraction(self.epsilon)))
# dp_transforms/mechanisms/partition/mechanism.py: test_known_total.py::test_neighbours_keep_the_ratio_of_probabilities
sensitivity off by a factor of two: epsilon / sensitivity for epsilon / (2 sensitivity)
- return epsilon / (self.factors * self.sensitivity)
+ return epsilon / self.sensitivity
# dp_transforms/mechanisms/partition/mechanism.py: test_geometric.py
lists are released as if each user had one partition
- return epsilon / (self.factors * self.sensitivity)
+ return epsilon / self.factors
# dp_transforms/mechanisms/partition/restricted.py: test_known_total.py
lists of any total below the public one are released
- if released.total == self.total:
+ if released.total <= self.total:
# dp_transforms/mechanisms/partition/frobenius.py: test_frobenius.py::test_the_noise_of_each_coordinate_has_its_distribution
the first coordinate has no noise
- noise.sample(tape, arm, count, begin)
+ noise.sample(tape, arm, count, begin) * (indices > 1)
# dp_transforms/mechanisms/partition/frobenius.py: test_frobenius.py::test_an_arm_ends_where_the_rule_says_of_the_noisy_numbers_alone
an arm is cut where the private list ends
- return drawn[:end]
+ return drawn[: min(end, coordinates.square + 3)]
# dp_transforms/mechanisms/partition/frobenius.py: test_frobenius.py::test_neighbours_share_the_noise_of_a_tape_and_arms_do_not
both arms have the same noise
- noise.sample(tape, arm, count, begin)
+ noise.sample(tape, ROWS, count, begin)
# dp_transforms/mechanisms/noisy_coordinates.py
a coordinate counts the cell on the diagonal twice
- self._list.at_least(indices) - indices
+ self._list.at_least(indices) - indices + 1
# dp_transforms/mechanisms/partition/walk/geometric_walk.py
the geometric mechanism marks corners with the t of another q
- return power / (1 + power)
+ return power / (2 + power)
# dp_transforms/mechanisms/partition/exponential.py: test_exponential_price.py
the exponential mechanism's price is that of kappa = 1
- return rate_of(epsilon / self.sensitivity)
+ return rate_of(epsilon)
# dp_transforms/mechanisms/degree_bound_choice.py
scores of degree bounds are compared as if all changed by one edge
-                 (costs[bound] - costs[other]) * (self.bounds[-1] // max(bound, other))
+                 (costs[bound] - costs[other]) * self.bounds[-1]
noise on scores of degree bounds is that of undirected graphs for directed ones
- sensitivity = (2 if self.directed else 1) * self.bounds[-1]
+ sensitivity = self.bounds[-1]
# dp_transforms/releases/node_degrees.py: ./test_every_job_is_private.py::test_lists_under_each_bound_that_may_be_chosen_cost_their_part
the list under a chosen degree bound costs epsilon again
- return whole * CHOICE_SHARE, whole * (1 - CHOICE_SHARE)
+ return whole * CHOICE_SHARE, whole
# dp_transforms/mechanisms/degree_projection.py
node privacy with the sensitivity of the degrees of one end
- (3 if directed else 2) * positive_integer
+ (2 if directed else 1) * positive_integer
# dp_transforms/mechanisms/selection/threshold_distribution.py: test_noisy_thresholds.py test_audits.py
>= for > at the threshold of noisy counts
- drop = self.noise.above(statistic - self.threshold - 1, precision)
+ drop = self.noise.above(statistic - self.threshold, precision)
# dp_transforms/mechanisms/selection/threshold_distribution.py: frames/test_parity.py
the last end of intervals of public names leaves out nobody
- span = _FAR * beyond + max(0, distribution.smallest - distribution.threshold)
+ span = _FAR * beyond
# dp_transforms/mechanisms/selection/threshold_distribution.py: test_count_intervals.py
intervals of noisy counts forget that only large ones are released
- > (miss * named).lower
+ > miss
# dp_transforms/mechanisms/selection/keep_distribution.py
> for >= where a number equals the probability of being dropped
- keep = words > last[cells]
+ keep = words >= last[cells]
# dp_transforms/mechanisms/selection/keep_distribution.py: test_optimal_distribution.py
1 - pi in floats, past the crossover at epsilon = 20
- return self._shrinking(n - self.crossover, precision)
+ return (1 - gmpy2.mpq(float(1 - self._shrinking(n - self.crossover, precision)[0])),) * 2
# dp_transforms/columnar/bounding.py
one partition more than kappa
- np.arange(at_most)).ravel()
+ np.arange(at_most + 1)).ravel()
a limit on priorities is that of another user
- priorities <= most[owners.codes]
+ priorities <= most.min()
the PRF that bounds users leaves out the partition
- prf(self.key, of_owners[owner], hashes)
+ prf(self.key, of_owners[owner], of_owners[owner])
the PRF that bounds users leaves out the user
- prf(self.key, of_owners[owner], hashes)
+ prf(self.key, hashes, hashes)
a retry bounds a user in another way
- prf(self.key, of_owners[owner], hashes)
+ prf(__import__("os").urandom(32), of_owners[owner], hashes)
# dp_transforms/files/json_lines.py: test_json_and_avro.py
a line of two JSON objects is two records
- return table if table.num_rows == len(ends) else None
+ return table
# dp_transforms/beam/submission.py: pipelines/test_set_up_faults.py
errors of a runner that reads records while it runs are told whole
- return isinstance(runner, PortableRunner) or type(runner).__name__ == "DataflowRunner"
+ return True
# dp_transforms/errors.py: pipelines/test_set_up_faults.py
an error that may quote a job's description is told whole
- if _DESCRIPTION.search(text):
+ if False:
# dp_transforms/errors.py: frames/test_errors_keep_no_originals.py
the text of the error that an error replaces travels with it
- error.__context__ = error.__cause__ = None
+ pass
# dp_transforms/beam/pipeline_secret.py: runtime/test_job_secret.py
a second run of a pipeline repeats the secret
-     _run_only_once(pipeline)
# dp_transforms/runtime/job_secret.py
every job draws the same secret
- return cls(secrets.token_bytes(SECRET_BYTES))
+ return cls(bytes(SECRET_BYTES))
a secret serves any number of pipelines
-     secret.claim(pipeline)
a secret serves any number of selections
- served = self._uses.data.setdefault(use, weakref.ref(data))()
+ served = self._uses.data.setdefault(use, weakref.ref(data))() if use == "pipeline" else data
a copy of a secret serves another release
- if served is not data or self._uses.process != os.getpid():
+ if served is not data:
a secret that is made again of the same bytes serves another pipeline
- uses = _uses_by_secret.setdefault(digest, _Uses(os.getpid()))
+ uses = _Uses(os.getpid())
a secret of the same bytes serves another pipeline once the first is gone
-         _kept_uses.add(self._uses)
# dp_transforms/beam/pipeline_secret.py: runtime/test_sealing.py
the secret is stored in the description of a job whose runner has a seal
-     secret.seal(seal_name_of(pipeline.runner))
# dp_transforms/runtime/job_secret.py: runtime/test_sealing.py
keys derived from the secret are stored in the description of a job whose runner has a seal
- return SecretBytes(key, self._seal_name)
+ return key
tapes derived from the secret are stored in plain
- return RandomTape(SecretBytes(tape_key(self.secret, context), self._seal_name))
+ return RandomTape(tape_key(self.secret, context))
# dp_transforms/runtime/sealing.py
all of a job's secrets are encrypted with the same numbers
- nonce = secrets.token_bytes(_NONCE_BYTES)
+ nonce = bytes(_NONCE_BYTES)
an error about a step shows its key
-     def __repr__(self) -> str:
-         return "<hidden>"
- 
-     __str__ = __repr__
a seal that other users can read is accepted
- elif mode & (stat.S_IRWXG | stat.S_IRWXO):
+ elif mode & stat.S_IRWXG:
# dp_transforms/runtime/job_secret.py: beam/test_release.py
a retry draws the list's noise again
- return release_frequency_list(frequency_list, mechanism, secret, context)
+ return release_frequency_list(frequency_list, mechanism, JobSecret.from_os(), context)
# dp_transforms/mechanisms/randomness.py: runtime/test_job_secret.py beam/test_release.py
all purposes under one secret share their noise
- hashlib.shake_256(prefix + secret + context.encode())
+ hashlib.shake_256(prefix + secret)
# dp_transforms/mechanisms/randomness.py: test_discrete_noise.py
all channels of a tape share their numbers
- index.to_bytes(16, "big") + channel.encode()
+ index.to_bytes(16, "big")
# dp_transforms/mechanisms/randomness.py: test_released_list.py
a tape serves any number of releases
-         self._claimed.add(release)
a tape serves a release in each fork of a process
- if self._process != os.getpid():
+ if self._process is None:
a copy of a tape serves a release
- return vars(self) | {"_process": None}
+ return vars(self)
# dp_transforms/beam/contributions.py: test_contributions.py::test_no_user_is_in_more_than_kappa_partitions
kappa is not enforced where a user's records are bounded for a frequency list
- distinct_pairs, at_most=self._max_partitions, key=secret.key(BOUND_CONTRIBUTIONS)
+ distinct_pairs, key=secret.key(BOUND_CONTRIBUTIONS)
# dp_transforms/engines/in_process.py: releases/test_all_records.py::test_the_list_is_that_of_records_bounded_by_the_chosen_kappa
the list that follows a survey has users with more than kappa partitions
- kept = map_ahead(bound, pairs)
+ kept = pairs
fewer ranks of a user are kept than kappa may take
- self._bounded(spec.most_partitions)
+ self._bounded(spec.survey.max_degree)
# dp_transforms/releases/all_records.py: releases/test_all_records.py::test_kappa_and_cost_follow_from_public_numbers_alone
a survey costs nothing
- cost = Cost(PrivacyBudget(self.epsilon))
+ cost = Cost(PrivacyBudget(self.epsilon - self.survey.epsilons[0]))
# dp_transforms/releases/all_records.py: releases/test_all_records.py::test_kappa_and_cost_follow_from_public_numbers_alone
kappa is chosen by the true degrees
- kappa = self.kappa_after(degrees)
+ kappa = max(users_by_degree)
# dp_transforms/releases/all_records.py: ./test_every_job_is_private.py::test_a_survey_and_a_list_cost_epsilon_at_every_kappa
the number of users beyond kappa is not paid by the list
- return left - self._beyond_epsilon(spent) if counts_beyond else left
+ return left
a list costs what the first round of a survey leaves, however many there were
- left = positive_rational("epsilon", self.epsilon) - spent
+ left = positive_rational("epsilon", self.epsilon) - self.survey.epsilons[0]
# dp_transforms/releases/all_records.py: releases/test_all_records.py::test_a_largest_degree_is_enforced_also_on_the_survey
a largest degree is believed and not enforced
-         if self.largest_degree is not None:
-             return self.largest_degree
-         return max
+         return max
# dp_transforms/releases/all_records.py: releases/test_all_records.py::test_users_beyond_the_bound_are_counted_up_to_any_kappa
users with more partitions than a large kappa are not seen to have more
- max(self._possible_kappas) + 1
+ max(self._possible_kappas)
# dp_transforms/engines/survey_kernels.py: releases/test_periods.py
surveys of all periods have the same noise
- tape_of = functools.partial(tape_within, named.context, secret.tape)
+ tape_of = secret.tape
a user counts in a period beyond the kappa of its survey
- bounded_in_lists(table.filter(is_in), kappa, key)
+ bounded_in_lists(table.filter(is_in), 1 << 30, key)
# dp_transforms/engines/survey_kernels.py: releases/test_grouped_all_records.py
a group's survey and list cost what those of all users cost
- of_list = spec.for_all if name == ALL_USERS else spec.for_group
+ of_list = spec.for_all
# dp_transforms/releases/grouped_all_records.py: releases/test_grouped_all_records.py
each attribute gets the budget of all groups
- return self.spec_at(self.of_attribute.epsilon)
+ return self.spec_at(PrivacyBudget(self.epsilon_groups).epsilon)
# dp_transforms/mechanisms/users_beyond.py: mechanisms/test_users_beyond.py
the number of users beyond kappa has half the noise
- DiscreteLaplace(1 / Fraction(self.epsilon))
+ DiscreteLaplace(1 / Fraction(self.epsilon) / 2)
another bound has the same noise
- context = context_of_numbers(USERS_BEYOND, numbers, self)
+ context = context_of_numbers(USERS_BEYOND, numbers, 0)
# dp_transforms/mechanisms/gradual_noise.py: test_gradual_survey.py
rounds of a survey are independent, so that each costs epsilon
- noise = noise + np.where((a > 0) & (b <= 0), 0, c)
+ noise = c
a round of a survey is the one before and a little noise
- noise = noise + np.where((a > 0) & (b <= 0), 0, c)
+ noise = noise + np.where((a > 0), 0, c)
# dp_transforms/engines/in_process.py: pipelines/test_release_frequency_list.py
kappa is not enforced in process
- distinct_pairs, at_most=max_partitions, key=self._key_of_bound
+ distinct_pairs, at_most=None, key=self._key_of_bound
# dp_transforms/engines/in_process.py: pipelines/test_engines.py
records that a number of other users needs are not bounded for the names
- if not spec.already_bounded:
+ if False:
# dp_transforms/engines/round_kernels.py: beam/test_selection.py::test_selections_agree_with_the_reference
kappa is not enforced in rounds with weights
- bound(pairs, at_most=strategy.max_partitions_per_user)
+ bound(pairs, at_most=None)
the order of partitions that all users share differs from round to round by nothing
- context = bound_in_round(index) if shared_order else BOUND_CONTRIBUTIONS
+ context = BOUND_CONTRIBUTIONS
the last round weighs by other steps than its distribution allows
- weights = functools.partial(strategy.weights, index, named=rows_of(named))
+ weights = functools.partial(strategy.weights, index, named=1 << 30)
# dp_transforms/engines/selection_kernels.py: beam/test_selection.py
a retry decides about a partition again
- uniforms = KeyedUniforms(partitions, key, needed)
+ uniforms = KeyedUniforms(partitions, __import__("os").urandom(32), needed)
# dp_transforms/beam/selection.py
kappa is not enforced in a selection from records that are not bounded
- (known is None or known > most)
+ (known is not None and known > most)
# dp_transforms/mechanisms/partition/walk/precise.py: test_levels.py::test_numbers_beside_a_threshold_are_settled_ahead
what leaves the window of a question looked ahead from weighs nothing
- if least > leak or most < down.minus(leak):
+ if least > 0 or most < 0:
# dp_transforms/mechanisms/partition/walk/walk.py
walks that leave the window are cut off, without a delta
-             raise Undecided(width if width < 1 else 1.0)
-     raise Undecided
+             raise Undecided(width if width < 1 else 1.0)
+     return len(lo) - 1
a question that floats do not settle is guessed
- if upper <= below:
+ if upper <= (below + above) / 2:
# dp_transforms/mechanisms/partition/walk/blocks.py
moves from the two ends of a run may collide
- accepted = inside <= (tops - bottoms)[waiting]
+ accepted = inside <= (tops - bottoms)[waiting] + 1
# dp_transforms/mechanisms/frequency_list.py: test_partition_bounds.py
dist taken as L1: distances are halved
- return sum(width * abs(a - b)
+ return sum(width * abs(a - b) // 2
# dp_transforms/mechanisms/selection/renyi_calibration.py: test_renyi_distributions.py::test_rounds_share_the_budget
early rounds are exposed beside the whole exposure of the last
- self.exposure * exposure)
+ self.exposure)
# dp_transforms/mechanisms/selection/renyi_calibration.py: test_measured.py
what a plan spends before its last round leaves that one as exposed
- eta = exposure - left - delta
+ eta = exposure - 0 * left - delta
# dp_transforms/mechanisms/selection/renyi_calibration.py: test_renyi_distributions.py::test_worst_delta_of_rounds
the last round's exposure is as if the rounds before it showed nothing
- eta = eta / enclosed((order - 1) * early, _PRECISION).exp()
+ pass
# dp_transforms/mechanisms/selection/rounds.py: test_audits.py::test_weighted_rounds_with_their_transcript
users add twice the step that a Renyi distribution allows
- np.array([weight(int(d)) for
+ 2 * np.array([weight(int(d)) for
every round of Renyi distributions spends the whole budget
- tuple(total.share(*share) for share in of_rounds)
+ tuple(total for share in of_rounds)
# dp_transforms/mechanisms/selection/renyi_distribution.py: test_renyi_distributions.py::test_worst_delta_of_counts
a Renyi distribution bounds the divergence in one direction alone
- <= self._most
-                 and
+ <= self._most
+                 or
each partition of a user's own is exposed with the whole of lambda
- gmpy2.mpq(budget.exposure) / partitions
+ gmpy2.mpq(budget.exposure)
# dp_transforms/mechanisms/selection/measured.py
a refined look is paid for as the first one
- FIRST_LOOK * (1 << level) * Fraction
+ FIRST_LOOK * Fraction
plans have what the first look leaves
- Fraction(self.epsilon) - self.look_epsilon(level)
+ Fraction(self.epsilon) - self.look_epsilon(0)
numbers of users have half of their noise
- return each / FOR_USERS,
+ return each / FOR_USERS / 2,
numbers of users and tails have the same noise
- gradual_noise(noises[1], of_cells, "tails"
+ gradual_noise(noises[0], of_cells, "tails"
# dp_transforms/mechanisms/selection/planned_rounds.py: test_measured.py
counts get more than the rounds leave
- of_rounds * share / (1 - share)
+ of_rounds * share / (1 - share) ** 2
# dp_transforms/mechanisms/selection/population.py: test_measured.py
a user of as many partitions as an edge is counted in two cells
- places = np.searchsorted(np.array(edges), partitions)
+ places = np.searchsorted(np.array(edges), np.concatenate([partitions, partitions[:1]]))
a partition moves two tails by each of its users
- values, partitions = np.unique(users, return_counts=True)
+ values, partitions = np.unique(2 * users, return_counts=True)
# dp_transforms/mechanisms/selection/rounds.py: test_measured.py
rounds leave nothing for the counts that follow
- for_rounds = 1 - self.counts_share
+ for_rounds = 1
# dp_transforms/mechanisms/selection/later_counts.py: test_measured.py
the noise of later counts does not grow with how many of a user's count
- self.budget.order * self.partitions / (2
+ self.budget.order / (2
# dp_transforms/beam/engine.py: test_engine.py
steps that the engine on Beam adds itself go by a secret that no seal protects
- self._secret = secret_for(pipeline, secret)
+ self._secret = secret
# dp_transforms/engines/round_kernels.py: mechanisms/selection/test_measured.py
users count in all of their named partitions
- bound(decoded(counted), at_most=later.partitions)
+ bound(decoded(counted), at_most=None)
all partitions of a user count in the tails of a look
- distinct_pairs(decoded(pairs), at_most=1, key=key)
+ distinct_pairs(decoded(pairs), at_most=2, key=key)
# dp_transforms/mechanisms/selection/count_strategies.py: test_audits.py
each of kappa partitions gets the whole budget
- return epsilon / parts, delta / parts
+ return epsilon, delta
# dp_transforms/releases/names.py: beam/test_selection.py::test_the_number_of_other_users_has_the_noise_of_its_epsilon
users of other partitions have half of their noise
- positive_rational("others_epsilon", self.others_epsilon)
+ positive_rational("others_epsilon", 2 * self.others_epsilon)
# dp_transforms/releases/periods.py: beam/test_windowed.py
each window's list costs what all of them together should
- return PrivacyBudget(self.epsilon).epsilon / self.periods_per_user
+ return PrivacyBudget(self.epsilon).epsilon
a user has as many names in all windows as in one
- of_all = self.periods_per_user * kappa
+ of_all = kappa
# dp_transforms/engines/list_kernels.py: ./test_every_job_is_private.py::test_a_look_and_names_of_all_periods_cost_epsilon_and_delta
a user of two periods is two users to the look and to its plan
- return listed(table, single(table[LIST]))
+ owners = pa.StructArray.from_arrays([*map(single, (table[USER], table[LIST]))], [USER, LIST])
+     return listed(table.set_column(0, USER, owners), single(table[LIST]))
# dp_transforms/releases/writing.py: pipelines/test_periods.py
statements of names by period leave out what a look chose
- write(budget_entry, released[period], entries)
+ write(budget_entry, released[period])
# dp_transforms/releases/name_answers.py: test_name_answers.py
names of a period take a survey of that period for one of all
- if "periods" in mine:
+ if False:
# dp_transforms/releases/names.py: pipelines/test_select_partitions.py
users of other partitions are not paid for
- names -= others
+ pass
# dp_transforms/releases/list_and_names.py: frames/test_parity.py
both releases of a function get the whole budget
- for_list = whole - for_names
+ for_list = whole
# dp_transforms/releases/list_and_names.py: pipelines/test_release_all.py
both releases get the whole budget
- for_list = whole - for_names
+ for_list = PrivacyBudget(whole.epsilon)
# pipelines/worker_pool.py
ports for the workers of a local run are open to a network
- if multi_processing:
+ if False:
# dp_transforms/budget/budget.py: test_ledger.py
what is reserved but not committed is spent again
- costs = [*spent, cost]
+ costs = [cost]
# dp_transforms/columnar/counting.py
public partitions without users are never selected
- _capped(column, cap) for name, column in sums.items()})
+ _capped(column, cap) for name, column in sums.items()}).filter(pa.array(sums[COUNT] > 0))
# dp_transforms/columnar/hashing.py
the noise of a partition does not depend on its name
-             state.update(name)
# dp_transforms/columnar/columns.py: beam/test_order.py
selected names come in the order in which records arrived
- return table.take(in_order(single(table[name])))
+ return table
# dp_transforms/mechanisms/arguments.py: ./test_errors_show_no_data.py
an error shows a column that stands where a name should
- return f"a value of the type {kind.__name__}"
+ return f"{value}"
# dp_transforms/files/frame_records.py: ./test_empty_input.py::test_records_in_memory
a frame states types that its library has found in the rows
- self._schema = unstated(record_schema(self.pattern, first.schema, self._columns))
+ self._schema = record_schema(self.pattern, first.schema, self._columns)
# dp_transforms/files/json_lines.py: ./test_empty_input.py::test_files
JSON lines state the types of their values
- return unstated(record_schema(path, pa.schema(fields), list(kinds)), valueless)
+ return record_schema(path, pa.schema(fields), list(kinds))
# dp_transforms/files/database.py: ./test_empty_input.py::test_queries
a column of SQLite has the type that its values have
- field if affinities[field.name] == _ANY else schema.field(field.name)
+ schema.field(field.name)
a number of SQLite with a point is an error, which an empty table is not
- _NUMERIC: _NUMBERS | _TEXTS,
+ _NUMERIC: _INTEGERS | _TEXTS,
# dp_transforms/files/frame_records.py: frames/test_parity.py::test_public_names_of_another_type_are_no_free_answer
public names of another type tell for nothing that there is a record
- _public_error = ValuesError
+ _public_error = InputError
# dp_transforms/files/database.py: ./test_empty_input.py::test_queries_of_files
a query of DuckDB states the types that it has found in the rows of a file
- if not is_typed:
+ if False:
# dp_transforms/files/delimited_text.py: ./test_empty_input.py::test_files
a file without names of columns is refused only if it has no records
- if self.header and not is_empty:
+ if self.header:
# dp_transforms/files/delimited_text.py: pipelines/test_bad_inputs.py
an error tells what a record holds
- raise InputError(f"{part.path}: {self._fault(error, layout)}") from None
+ raise InputError(f"{part.path}: {error}") from None
# dp_transforms/files/delimited_text.py
text may follow a closing quote
- self._at_end[after[closing]].all()
+ True
# dp_transforms/files/logical_types.py
a user far in the future is one user for each unit of time
-         raise pa.ArrowInvalid
-     return text
+         pass
+     return text
# dp_transforms/files/output.py: pipelines/test_spending.py
a job writes its release without a note in the ledger
-             budget_entry.begin()
# dp_transforms/files/output.py
a step that is repeated deletes the finished release before it writes it again
-             if len(done) == len(contents):
-                 return
# dp_transforms/runtime/python_values.py
one user's bytes make bytes of all names of a batch
- if len(kinds) > 1:
+ if False:
composites take the names of the first one's fields
- names = set(map(_fields, values))
+ names = {_fields(values[0])}
# dp_transforms/engines/local_shuffle.py: test_spilling.py
records are readable on the disk
- memoryview(self._cipher.encrypt(_nonce(place), plain, None))
+ memoryview(plain + bytes(_TAG_BYTES))
two segments of a disk have one nonce
- return place.to_bytes(_NONCE_BYTES, "little")
+ return bytes(_NONCE_BYTES)
what is spilled has a name that outlives the process
- tempfile.TemporaryFile(dir=self._directory)
+ tempfile.NamedTemporaryFile(dir=self._directory, delete=False)
# dp_transforms/releases/attributes.py: beam/test_attributes.py::test_lists_are_those_of_the_definition
each attribute's list gets the whole epsilon
- parts = PrivacyBudget(self.epsilon).split_by(weights)
+ parts = dict.fromkeys(weights, PrivacyBudget(self.epsilon))
# dp_transforms/releases/attributes.py: frames/test_attributes.py::test_a_session_pays_for_every_attribute
only one attribute is paid for
- for label, mechanism in zip(self.labels, self.mechanisms, strict=True)
-         )
- 
-     def release
+ for label, mechanism in [(self.labels[0], self.mechanisms[0])]
+         )
+ 
+     def release
# dp_transforms/engines/attribute_kernels.py: beam/test_attributes.py::test_what_a_user_keeps_can_be_chosen_in_parts_and_depends_on_no_other_user
records of others decide which value of a user counts
- kept = decoded(distinct_pairs(valued, at_most=1, key=key))
+ kept = decoded(distinct_pairs(valued))
# dp_transforms/engines/attribute_kernels.py: ./test_every_job_is_private.py::test_lists_of_attributes_cost_the_sum_of_their_prices
lists of attributes share their random numbers
- purpose_of_attribute(label))
+ "list of an attribute")
a user counts with every value of an attribute
- return functools.partial(keep_one_value, keys=keys)
+ return lambda table: table
# dp_transforms/postprocessing/entropies.py: test_entropies.py::test_no_list_within_bounds_on_its_success_rates_is_outside
bounds on entropies are those of functions that are not concave
- if (high - low) * (x - before) > (y - low) * (middle - before):
+ if True:
# dp_transforms/postprocessing/intervals.py: test_intervals.py::test_an_interval_whose_values_are_all_refuted_is_no_point
an interval whose values are all refuted is one point
- noise = 2 * noise + 1
+ return self.released.distinct, self.released.distinct
# dp_transforms/postprocessing/intervals.py: test_entropies.py::test_small_partitions_are_as_certain_as_they_say
the noise of what small partitions are cut down to has no weight
- noise = _one_weighted(self._rate, weight, weight, each)
+ noise = _one_weighted(self._rate, weight, 1, each)
# dp_transforms/engines/list_kernels.py: beam/test_windowed.py
a user counts in any number of windows
- kept = distinct_pairs(pa.table(coded), most_periods, period_key)
+ kept = distinct_pairs(pa.table(coded))
# dp_transforms/beam/bounds.py
the bounds of collections that are put together do not add up
- partitions=sum(known) if alike else None
+ partitions=max(known) if alike else None
what is known to be less bounded than claimed is released all the same
- if bound.partitions > claimed:
+ if False:
a subclass of Flatten, which may change elements, keeps the bound
- elif type(step.transform) in (beam.Flatten, beam.Reshuffle):
+ elif isinstance(step.transform, (beam.Flatten, beam.Reshuffle)):
a step that may do anything keeps the bound
- bound_after = Bound(counted=True if before.counted else None)
+ bound_after = before
a filter of declared counts keeps the bound
- and before.counted is False
+ and not before.counted
# dp_transforms/beam/degrees.py: beam/test_bounds.py
edges that were chosen by other edges are counted as if they were all
- if refuse_counts(edges, transform).partitions is not None:
+ if refuse_counts(edges, transform).partitions == 0:
# dp_transforms/mechanisms/selection/strategy.py: mechanisms/test_released_list.py
a tape serves any number of selections
- tape.claim(channel).words
+ tape.words
# dp_transforms/beam/records.py
windows beside the global one slip through a Flatten
- merged += before
+ pass
# dp_transforms/budget/ledger.py
a ledger takes epsilon to be the range of every loss
- cost = Cost(PrivacyBudget(epsilon, delta), loss_range)
+ cost = Cost(PrivacyBudget(epsilon, delta), epsilon)
a release is begun under what was given back
- if line.state is not State.RESERVED:
+ if False:
a ledger takes losses of another unit
- if request.unit is not self.unit:
+ if False:
# dp_transforms/budget/failures.py: pipelines/test_spending.py
whether a total is right is asked for by failed jobs, which cost nothing
- _CHARGED = (ValuesError, UnsuitableListError, NothingDrawnError)
+ _CHARGED = (NothingDrawnError,)
a total is found by halving, in jobs that fail at a tiny price
- if free_failures_left <= 0 and epsilon < least:
+ if False:
# pipelines/release_job.py: pipelines/test_first_records.py
first lines, which are records, are read before a row is in the ledger
- with first_records(flags.ledger if doing else None, doing):
+ with first_records(None, doing):
# dp_transforms/files/filenames.py: frames/test_questions.py::test_days_left_out_are_left_out_of_weeks_and_months
records of days that are left out count in a first week
- is_in = pc.and_(pc.greater_equal(days, first), pc.less_equal(days, last))
+ is_in = pc.less_equal(days, last)
# pipelines/release_job.py: pipelines/test_spending.py
a dry run of Dataflow is paid for
- None if never_runs else flags.ledger,
+ flags.ledger,
that no list was drawn costs nothing where the disk is full
- if release.may_fail:
+ if False:
# dp_transforms/files/database.py: pipelines/test_spending.py::test_a_query_that_fails_on_a_value_is_paid_for
a query that fails where a condition holds costs nothing
- with as_input_error(_FAILED, error_type=ValuesError):
-             for table in self._read():
+ with as_input_error(_FAILED):
+             for table in self._read():
# dp_transforms/budget/ledger_rows.py: test_ledger.py
what has begun to be written is given back
- return self.state is State.RESERVED and self.announces and not self.begun
+ return self.state is State.RESERVED and self.announces
a job that ends while another one reserves is counted once, and given back once
- return self.state in spent and not self.is_lost
+ return self.state in spent and not (self.may_be_given_back and has_ended(self.process))
failed jobs are given back without limit
- is_lost = left > 0 and line.may_be_given_back and line.has_lapsed
+ is_lost = line.may_be_given_back and line.has_lapsed
a charged failure does not use up a free one
- return self.state in (State.FAILED, State.CHARGED) or self.is_lost or ended_in_writing
+ return self.state is State.FAILED or self.is_lost or ended_in_writing
what is not announced is given back
- return self.state is State.RESERVED and self.announces and not self.begun
+ return self.state is State.RESERVED and not self.begun
# dp_transforms/budget/ledger_rows.py: test_leases.py
a lease decides of a process that can be seen to run
- if is_of_this_machine(self.process):
+ if False:
# dp_transforms/budget/ledger_postgresql.py: test_ledger.py::test_concurrent_jobs_spend_all_of_it_and_no_more
jobs that reserve in a database at the same time do not wait for each other
- connection.execute(f"LOCK TABLE {reservations} IN SHARE ROW EXCLUSIVE MODE")
+ pass
# dp_transforms/budget/entry.py: pipelines/test_spending.py
a worker begins in another ledger of the same name
- if ledger.identity != self.content["ledger_id"]:
+ if False:
a statement lists jobs that failed
- stated = [line.closed(State.COMMITTED) for line in lines if line.counts]
+ stated = [line.closed(State.COMMITTED) for line in lines]
a statement tells of jobs that failed and are not given back
- stated = [line.closed(State.COMMITTED) for line in lines if line.counts]
+ stated = [line for line in lines if line.counts]
# dp_transforms/frames/run.py: frames/test_releases.py::test_the_time_of_a_release_does_not_depend_on_how_long_records_take
the time of a release is read after its records
- about = time_entry(source.opened) | entry.statement
+ about = time_entry() | entry.statement
# dp_transforms/beam/same_choice.py: beam/test_same_choice.py
two workers weigh and decide by different plans
- if (sums != users * mark).any():
+ if False:
two workers bound by different values of kappa
- if any(sum_of_marks != count * mark for count, sum_of_marks in by_marks):
+ if False:
# pipelines/release_job.py: pipelines/test_submission.py
a job whose workers do not reach the ledger is given back while they may write
- before_it_runs = budget_entry.begin
+ pass
# dp_transforms/beam/submission.py: pipelines/test_submission.py
a request that a service may have carried out counts as refused
- _REFUSALS = (400, 401, 403, 404)
+ _REFUSALS = (400, 401, 403, 404, 409)
"""  # noqa: E501

MUTANTS = tuple(_mutants(_BUGS))
