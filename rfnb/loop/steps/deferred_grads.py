"""Computes the gradients of weights once after a loop: one product for all steps, instead of a sum over them.

A step multiplies its h with a weight W. Where h·W is added to frames that were computed before the steps, the
gradient of those frames is that of h·W; elsewhere frames of zeros are added. Autograd brings the gradients of all
steps together there, and the gradient of W is one product of them with the h of all steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.tape import Call, Product, Var
from rfnb.loop.program.program import Program
from rfnb.loop.program.schedule import Schedule
from rfnb.loop.steps.execute import Outcome

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend

MIN_STEPS = 4
"""Smallest number of steps for which deferring the gradients saves time."""


class DeferredGradients:
    """A Program whose weights get their gradients after the loop, once `defer()` was called.

    Args:
        stacked: the frames of each Var as one raw tensor, [steps, …].
        values: the values of the Vars on the traced frame.

    program, schedule: what to run. After `defer()` they have additional frames and outputs; the results are the same.
    """

    def __init__(
        self, program: Program, schedule: Schedule, backend: type[Backend], stacked: dict[Var, Any], values: list[Any]
    ):
        self.program = self._plain = program
        self.schedule, self.backend = schedule, backend
        self._stacked, self._values = dict(stacked), values
        self._inputs: list[Var] = []  # the operands that the weights are multiplied with
        self._waiting: list[tuple[list[Any], int]] = []  # lists to fill with the inputs of all steps; how many of them

    def frames(self) -> list[Sequence[Any]]:
        """The stacked frames, each as a sequence over the steps."""
        return [self.backend.frames_raw(raw, 0) for raw in self._stacked.values()]

    def collect(self, outcome: Outcome) -> None:
        """Takes the additional outputs out of `outcome`, for the gradients; the plain Program's outcome remains."""
        outputs = len(outcome.outputs) - len(self._inputs)
        raws = iter(outcome.outputs[outputs:])
        del outcome.outputs[outputs:]
        if outcome.error is None:
            for waiting, count in self._waiting:
                waiting += [self.backend.stack_detached_raw(next(raws)) for _ in range(count)]
        elif outcome.failed_call is not None:
            node = self.program.calls[outcome.failed_call].node
            outcome.failed_call = next((i for i, call in enumerate(self._plain.calls) if call.node is node), None)

    def defer(self) -> None:
        """Defers the gradients of weights in the steps, if gradients are on and the number of steps is known."""
        schedule = self.schedule
        if schedule.ended is None and schedule.max_steps >= MIN_STEPS and self.backend.grad_enabled_raw():
            self._defer([*schedule.new, *schedule.kept, *schedule.outputs])

    def _defer(self, wanted: list[Var]) -> None:
        calls = [self.program.calls[position] for position in self.program.needed(wanted)]
        products = [
            product
            for product in self.backend.products_raw(calls, self._values, self.program.externals)
            if self.backend.needs_gradient_raw(self.program.externals[product.weight.number])
        ]
        if not products:
            return
        change = "deferred gradients", self.program.inputs, tuple(self.program.constants), tuple(wanted)
        self.program = self.program.copy()
        self.program.analysis = self._plain.analysis.after(change)
        for frames, group in self._groups(products, calls, wanted).items():
            self._defer_group(frames, group)
        self.program.inputs += tuple(var for var in self._stacked if var not in self.program.inputs)
        self.schedule = replace(self.schedule, outputs=(*self.schedule.outputs, *self._inputs))

    def _groups(self, products: list[Product], calls: list[Call], wanted: list[Var]) -> dict[Var, list[Product]]:
        """Groups the products by the frames that they are added to; without such frames, by their own result."""
        uses = Counter(var for call in calls for var in call.reads)
        uses.update(set(wanted))
        summed = {var: var for var in self._stacked if uses[var] == 1}  # the frames, by sums of them and products only
        groups: dict[Var, list[Product]] = {}
        for product in products:
            result = _made(product)
            frames = result if product.x is None else summed.get(product.x, result)
            if frames is not result and uses[result] == 1:
                summed[result] = frames
            groups.setdefault(frames, []).append(product)
        return groups

    def _defer_group(self, frames: Var, group: list[Product]) -> None:
        weights = [self.program.externals[product.weight.number] for product in group]
        result = None
        if frames not in self._stacked:
            zeros = self.backend.no_frames_raw(self._values[frames.number], self.schedule.max_steps)
            frames, result = self._new_var(), self._new_var()
            self._stacked[frames] = zeros
        out_first = [product.out_first for product in group]
        self._stacked[frames], waiting = self.backend.deferred_raw(self._stacked[frames], weights, out_first)
        self._waiting.append((waiting, len(group)))
        for product, weight in zip(group, weights, strict=True):
            self._inputs.append(product.h)
            constant = self.program.add_external(self.backend.constant_weight_raw(weight, product.transposed))
            calls = [product.with_weight(constant, _made(product).number)]
            if result is not None:
                calls = [
                    product.with_weight(constant, result.number),
                    Call(self.backend.sum_raw, (result, frames), {}, _made(product).number, node=product.call.node),
                ]
            self.program.replace(product.call, calls)

    def _new_var(self) -> Var:
        self._values.append(None)
        return Var(len(self._values) - 1)


def _made(product: Product) -> Var:
    assert product.call.result is not None
    return Var(product.call.result)
