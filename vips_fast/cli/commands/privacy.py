"""Run ``privacy``: epsilon of a run, or the noise for a target."""

from collections.abc import Callable

from ... import accounting
from ...accounting import PrivacyEvent
from ...accounting.printing import percent, rounded_up
from ...engine.sampling import check_steps, make_sampler, run_event
from ...report import paragraph, table
from ..arguments import Guarantee
from ..messages import print_object, width
from ..output import warn_of_delta


def privacy(args: Guarantee) -> int:
    """Print epsilon, or the noise multiplier, of a run."""
    n_records, n_steps, delta = args.n_records, args.n_steps, args.delta
    if args.json and args.rows_per_person:
        raise ValueError("--json: leave out --rows-per-person")
    sampler = make_sampler(args.sampling, args.relation, n_records, args.batch_size)
    check_steps(sampler, n_steps)

    def event(noise_multiplier: float, steps: int = n_steps) -> PrivacyEvent:
        return run_event(sampler, noise_multiplier, steps)

    noise = args.noise_multiplier
    if noise is None:
        noise = _noise(args, event)
        noise = float(rounded_up(noise, 6))  # epsilon belongs to the printed noise
    spent = accounting.epsilon(event(noise), delta)
    if args.json:
        said = {"records": n_records, "batch": sampler.expected_batch_size, "steps": n_steps, "delta": delta}
        right = accounting.attack_success(event(noise))
        print_object(said | {"epsilon": spent, "noise_multiplier": noise, "right_guesses": right})
        warn_of_delta(delta, n_records)
        return 0
    rows = [
        ("records", n_records),
        ("expected batch", f"{sampler.expected_batch_size:g}"),
        ("sampling probability", f"{sampler.expected_batch_size / n_records:g}"),
        ("steps", n_steps),
        ("noise multiplier", f"{noise:.6g}"),
        ("delta", f"{delta:g}"),
        ("epsilon", rounded_up(spent, 6)),
        ("right guesses at most", percent(accounting.attack_success(event(noise)))),
    ]
    k = args.rows_per_person
    if k is not None:
        target = spent if args.epsilon is None else args.epsilon
        group = accounting.epsilon(accounting.group_event(event(noise), k), delta)
        enough = _noise(args, lambda z: accounting.group_event(event(z), k), target)
        rows.append((f"epsilon of {k} records", rounded_up(group, 6)))
        aim = rounded_up(args.target_attack_success or target, 6)
        rows.append((f"noise multiplier, {k} records at {aim}", rounded_up(enough, 6)))
    print(table(rows))
    print("\n" + paragraph(accounting.describe(event(noise), delta), width()))
    warn_of_delta(delta, n_records)
    return 0


def _noise(args: Guarantee, event: Callable[[float], PrivacyEvent], epsilon: float | None = None) -> float:
    """Calibrate the noise for the target, or for an epsilon without one."""
    success = args.target_attack_success
    return accounting.calibrate_noise_multiplier(
        event,
        epsilon=None if success is not None else args.epsilon or epsilon,
        delta=args.delta,
        target_attack_success=success,
    )
