"""Run ``privacy``: show a model's guarantee, epsilon, or noise.

Epsilon is of a run, and the noise for a target.
"""

import json
from collections.abc import Callable
from typing import Any

from ... import accounting
from ...accounting import PrivacyEvent
from ...accounting.dp_events import export_event
from ...accounting.printing import percent, rounded_up
from ...engine.sampling import check_steps, make_sampler, run_event
from ...jobs.places import kind_in
from ...models.privacy_file import ledger_bounds, privacy_json
from ...report import paragraph, table
from ..arguments import Guarantee
from ..inputs import verifier
from ..messages import print_object, width
from ..output import privacy_object, warn_of_delta, warn_of_taints
from ..signature import refuse_unused

#: What the options of a run must say.
_NEEDED = ("n_records", "n_steps", "delta")


def privacy(args: Guarantee) -> int:
    """Print a model's guarantee, or a run's epsilon or noise multiplier."""
    if (folder := args.model) is not None:
        others = {one.name for one in args.options()} - {"model", "verify_key", "export", "json"}
        refuse_unused(args, others, f"expected without DIR, {folder}")
        return _of_model(args, folder)
    if args.json and (args.export or args.rows_per_person):
        raise ValueError("--json: leave out --export and --rows-per-person")
    if args.verify_key is not None or args.export == "json":
        raise ValueError("--verify-key, --export json: add DIR, the folder of a model")
    if args.n_records is None or args.n_steps is None or args.delta is None:
        missing = [one.flag for one in args.options() if one.name in _NEEDED and getattr(args, one.name) is None]
        raise ValueError(f"the following arguments are required: {', '.join(missing)}; or DIR, the folder of a model")
    if args.noise_multiplier is None and args.epsilon is None and args.target_attack_success is None:
        raise ValueError("one of the arguments --noise-multiplier --epsilon --attack-success is required")
    return _of_run(args, args.n_records, args.n_steps, args.delta)


def _of_model(args: Guarantee, folder: str) -> int:
    """Print the statement of a saved model, computed from its ledger."""
    model = kind_in(folder).load(folder, verify=verifier(args.verify_key))
    warn_of_taints(model)
    if args.json:
        print_object({"model": folder, **privacy_object(model)})
    elif args.export is None:
        print(paragraph(model.privacy_.statement(), width()))
    elif args.export == "json":
        print(privacy_json(model._fitted()), end="")
    else:
        bounds = ledger_bounds(model.ledger_, model.privacy_.delta)
        parts = {part: export_event(event) for part, event, _ in bounds}
        print(_json({"parts": parts} if model.ledger_.parts else parts.get(None)))
    return 0


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True, allow_nan=False)


def _of_run(args: Guarantee, n_records: int, n_steps: int, delta: float) -> int:
    """Print epsilon, or the noise multiplier, of a run."""
    sampler = make_sampler(args.sampling, args.relation, n_records, args.batch_size)
    check_steps(sampler, n_steps)

    def event(noise_multiplier: float, steps: int = n_steps) -> PrivacyEvent:
        return run_event(sampler, noise_multiplier, steps)

    noise = args.noise_multiplier
    if noise is None:
        noise = _noise(args, event)
        noise = float(rounded_up(noise, 6))  # epsilon belongs to the printed noise
    if args.export is not None:
        print(_json(export_event(event(noise))))
        return 0
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
