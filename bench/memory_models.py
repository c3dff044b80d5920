"""Compare the memory of a training process with its formula (target: within 15 %).

The formula is the line in a model's description, fitted to the peaks at other batch sizes.
"""

from nodewise.measure.environment import settle_environment
from nodewise.measure.fresh_process import run_fresh
from nodewise.measure.step_memory import sizes_of_training
from nodewise.models.facts import facts
from nodewise.models.registry import registry
from nodewise.study.single import SingleRun, cell_of

WITHIN = 0.15
BATCHES = {"bert_base": (8,), "densenet121": (32, 128), "resnet50": (32, 128)}
USUAL = (32, 128, 512)


def main() -> None:
    settle_environment()  # inherited by the processes that train
    for name in registry():
        memory = facts(name).memory
        if memory is None:
            print(f"{name}: not measured; first: nodewise describe-model {name}")
            continue
        for batch in BATCHES.get(name, USUAL):
            found = run_fresh(sizes_of_training, cell_of(SingleRun("single", name, 1, batch)), None)
            peak, formula = found["peak_bytes"], memory.peak_bytes(batch)
            verdict = "within" if abs(formula / peak - 1) <= WITHIN else "NOT within"
            print(
                f"{name}, batch {batch}: formula {formula / 1e6:.0f} MB, peak {peak / 1e6:.0f} MB, "
                f"ratio {formula / peak:.2f}, {verdict} {WITHIN:.0%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
