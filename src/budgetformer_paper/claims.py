"""What the paper claims, checked on the rows of one scale: held, failed, or not decided by these rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from budgetformer.reporting.tables import Table

from .claims_of_cost import memory_falls, training_costs
from .claims_of_figures import classes_and_layers, difficulty_rises, maps_are_sharper
from .recipes import BUDGETS, SHAPES, SHARES
from .summary import Summary
from .verdict import (
    ACCURATE,
    ADAPTIVE,
    AGREE,
    CLAIMS,
    FAILED,
    FALLS,
    HELD,
    LARGER,
    LESS_DATA,
    OPEN,
    RANDOM,
    RANDOM_TRAINED,
    UNKNOWN,
    Verdict,
)

MARGIN = 0.01
"""How far below the Transformer an accuracy may lie that is "at least" the Transformer's: a point. Ours; the largest
loss in the paper's Table II, where it makes this claim, is 0.0077 (AG News)."""
BUDGET_STEP = 0.01
"""The smallest difference of mean budgets that counts. Ours: one seed does not say how far it lies from others."""
CURVES_AGREE = 0.05
"""How far the budgets of training and validation may end apart."""


def verdicts(found: Sequence[Summary], *, whole: bool = False) -> list[Verdict]:
    """All claims that rows speak about; ``whole`` lists those without rows too. Raises ValueError for rows of several
    scales.

    A difference of accuracies counts when it is larger than its 95 % interval (of unpaired rows), in either direction;
    one of budgets when it is larger than ``BUDGET_STEP`` and than the interval between seeds. At the smoke scale
    nothing is decided.
    """
    scales = {s.scale for s in found}
    if len(scales) > 1:
        raise ValueError(f"claims are checked at one scale, got {', '.join(sorted(scales))}")
    made = [verdict for data in dict.fromkeys(s.data for s in found) for verdict in _of_data(found, data)]
    if scales == {"smoke"}:
        made = [Verdict(claim=v.claim, data=v.data, answer=OPEN, why=f"smoke scale; {v.why}") for v in made]
    spoken = {verdict.claim for verdict in made}
    for claim, experiment in CLAIMS.items() if whole else ():
        if claim not in spoken:
            command = " ".join([f"budgetformer reproduce {experiment}", *(f"--scale {scale}" for scale in scales)])
            made.append(Verdict(claim=claim, data="–", answer=UNKNOWN, why=command))
    return made


def claims_table(made: Sequence[Verdict], scale: str) -> Table:
    """The verdicts as a table."""
    rows = [[v.claim, v.data, v.answer, v.why] for v in made]
    return Table(
        caption=f"The paper's claims at scale {scale}.", columns=("claim", "data", "verdict", "figures"), rows=rows
    )


def _of_data(found: Sequence[Summary], data: str) -> Iterator[Verdict]:
    by = {(s.experiment, s.variant): s for s in found if s.data == data}
    yield from _table2(by, data)
    for experiment, mark in (("table3", ""), ("minilm", " (MiniLM)")):
        yield from _table3(by, data, experiment, mark)
    for experiment, mark in (("table4", ""), ("minilm", " (MiniLM)")):
        yield from _table4(by, data, experiment, mark)
    if ("figure2", "difficulty") in by:
        yield from difficulty_rises(by["figure2", "difficulty"])
    if ("figure3", "classes") in by:
        yield from classes_and_layers(by["figure3", "classes"])
    if ("figure4", "maps") in by:
        yield from maps_are_sharper(by["figure4", "maps"])
    if ("cost", "step") in by:
        pair = (by.get(("table2", name)) for name in ("budgetformer", "transformer"))
        yield from training_costs(by["cost", "step"], *pair)
        yield from memory_falls(by["cost", "step"])
    sizes = [by["table5", f"{L}L-{H}H"] for L, H in SHAPES if ("table5", f"{L}L-{H}H") in by]
    yield from _budgets_fall(LARGER, sizes, data)
    shares = [by["table6", f"{share:.0%}"] for share in SHARES if ("table6", f"{share:.0%}") in by]
    yield from _budgets_fall(LESS_DATA, shares, data)


def _table2(by: dict[tuple[str, str], Summary], data: str) -> Iterator[Verdict]:
    ours, dense, words = (by.get(("table2", name)) for name in ("budgetformer", "transformer", "tfidf"))
    pretrained = by.get(("minilm", "adaptive")), by.get(("minilm", "transformer"))
    for budgeted, twin, mark in ((ours, dense, ""), (*pretrained, " (MiniLM)")):
        if budgeted and twin:
            answer = _at_least(*_lead(budgeted, twin))
            why = f"{_figures(budgeted, twin)}; held when at most {MARGIN:g} lower for sure"
            yield _verdict(ACCURATE + mark, data, answer, why)
    if ours and words:
        answer = _beyond(*_lead(ours, words))
        yield _verdict("better than TF-IDF (ours; not a claim of the paper)", data, answer, _figures(ours, words))
    curves = ours or by.get(("figure1", "curves"))
    if curves:
        yield from _curves(curves, data)


def _curves(ours: Summary, data: str) -> Iterator[Verdict]:
    """Over all seeds: the budget must fall, and the curves agree, in each of them."""
    falls, apart = [], []
    for row in ours.rows:
        budgets = [entry["eval_mean_budget"] for entry in row["curves"]["validation"] if "eval_mean_budget" in entry]
        training = [entry["mean_budget"] for entry in row["curves"]["training"] if "mean_budget" in entry]
        if not budgets or not training:
            return
        falls.append(budgets[-1] - training[0])
        apart.append(abs(budgets[-1] - training[-1]))
    answer = HELD if max(falls) < -BUDGET_STEP else FAILED if min(falls) > BUDGET_STEP else OPEN
    why = f"from the first logged update to the last validation {sum(falls) / len(falls):+.3f}"
    why += f" (counted from {BUDGET_STEP:g})"
    yield _verdict(FALLS, data, answer, why)
    answer = HELD if max(apart) <= CURVES_AGREE else FAILED
    why = f"at the end they are {max(apart):.3f} apart (held up to {CURVES_AGREE})"
    yield _verdict(AGREE, data, answer, why)


def _table3(by: dict[tuple[str, str], Summary], data: str, experiment: str, mark: str) -> Iterator[Verdict]:
    adaptive = by.get((experiment, "adaptive"))
    fixed = [s for (of, name), s in by.items() if of == experiment and name.startswith("fixed-")]
    if adaptive and fixed:
        best = max(fixed, key=lambda s: s.accuracy)
        lead, chance = _lead(adaptive, best)
        there = {s.variant for s in fixed} >= {f"fixed-{budget:g}" for budget in BUDGETS}
        answer = _beyond(lead, chance)
        answer = OPEN if answer == HELD and not there else answer
        why = _figures(adaptive, best) + ("" if there else f"; of {len(BUDGETS)} budgets some have no row")
        yield _verdict(ADAPTIVE + mark, data, answer, why)
    plain, rescaled = by.get((experiment, "asked-1")), by.get((experiment, "asked-1-rescaled"))
    if adaptive and plain and rescaled:
        without, with_them = _collapse(plain, adaptive), _collapse(rescaled, adaptive)
        answer = HELD if (without, with_them) == (FAILED, HELD) else OPEN
        answer = FAILED if without == HELD or with_them == FAILED else answer
        why = (
            f"of the lead over chance {_share_kept(plain, adaptive):.0%} is left at s = 1 without rescaled gates, "
            f"{_share_kept(rescaled, adaptive):.0%} with them"
        )
        yield _verdict("our guess: the collapse at s = 1 comes from gates that grow with s", data, answer, why)


def _table4(by: dict[tuple[str, str], Summary], data: str, experiment: str, mark: str) -> Iterator[Verdict]:
    learned = by.get((experiment, "learned")) or by.get((experiment, "adaptive"))
    for variant, claim in (("random", RANDOM), ("random-trained", RANDOM_TRAINED)):
        random = by.get((experiment, variant))
        if learned and random:
            share = _share_kept(random, learned)
            why = f"{share:.0%} of the lead over chance is left (held below 50 %); {_figures(learned, random)}"
            yield _verdict(claim + mark, data, _collapse(random, learned), why)


def _budgets_fall(claim: str, ordered: Sequence[Summary], data: str) -> Iterator[Verdict]:
    """Held when every step falls, failed when the last budget is above the first."""
    known = [(s, budget) for s in ordered if (budget := s.mean("mean_budget")) is not None]
    if len(known) < 2:
        return
    steps = [_fall(a, b) for a, b in pairwise(s for s, _ in known)]
    whole = _fall(known[0][0], known[-1][0])
    answer = HELD if set(steps) == {HELD} else FAILED if whole == FAILED else OPEN
    why = ", ".join(f"{s.what}: {budget:.3f}" for s, budget in known)
    yield _verdict(claim, data, answer, f"{why} (steps count from {BUDGET_STEP:g})")


def _fall(first: Summary, second: Summary) -> str:
    """Whether the second has the smaller mean budget."""
    before, after = first.mean("mean_budget"), second.mean("mean_budget")
    assert before is not None
    assert after is not None
    reach = math.hypot(first.reach_of_seeds("mean_budget"), second.reach_of_seeds("mean_budget"))
    return _beyond(before - after, max(BUDGET_STEP, reach))


def _beyond(lead: float, chance: float) -> str:
    """Whether a lead is there: held above chance, failed below it, not decided within it."""
    return HELD if lead > chance else FAILED if lead < -chance else OPEN


def _at_least(lead: float, chance: float) -> str:
    """Whether an accuracy is at least another one: failed when it is lower by more than chance; held when it is higher
    by more than chance, or when the lower end of the interval of the difference is ``-MARGIN`` or above; else not
    decided."""
    answer = _beyond(lead, chance)
    return HELD if answer == OPEN and lead - chance >= -MARGIN else answer


def _collapse(changed: Summary, whole: Summary) -> str:
    """Whether less than half of the lead over guessing a class is left, by more than chance; not decided where the
    whole model has no such lead."""
    guessed = _chance_of(whole)
    if whole.accuracy - guessed <= whole.accuracy_reach:
        return OPEN
    half = guessed + (whole.accuracy - guessed) / 2
    return _beyond(half - changed.accuracy, math.hypot(changed.accuracy_reach, whole.accuracy_reach / 2))


def _lead(first: Summary, second: Summary) -> tuple[float, float]:
    """Difference of the accuracies, and how large it may be by chance."""
    return first.accuracy - second.accuracy, math.hypot(first.accuracy_reach, second.accuracy_reach)


def _share_kept(changed: Summary, whole: Summary) -> float:
    """Share of the lead over guessing a class that is left; 1 when there was none."""
    chance = _chance_of(whole)
    lead = whole.accuracy - chance
    return max(0.0, (changed.accuracy - chance) / lead) if lead > 0 else 1.0


def _chance_of(summary: Summary) -> float:
    """Accuracy of guessing a class."""
    return 1 / summary.rows[0]["rows"]["classes"]


def _figures(first: Summary, second: Summary) -> str:
    lead, chance = _lead(first, second)
    both = f"{first.what} {first.accuracy:.4f}, {second.what} {second.accuracy:.4f}"
    return f"{both}: {lead:+.4f} (by chance ± {chance:.4f})"


def _verdict(claim: str, data: str, answer: str, why: str) -> Verdict:
    return Verdict(claim=claim, data=data, answer=answer, why=why)
