"""Random loop programs on the device give what plain torch on the CPU gives for each sequence alone."""

from __future__ import annotations

from hypothesis import HealthCheck, given

from tests.examples import examples
from tests.outside.drawing import programs
from tests.outside.test_random_loops import check, variants


@given(program=programs(), **variants)
@examples(40, derandomize=True, suppress_health_check=list(HealthCheck))
def test_a_random_loop_on_the_device_is_what_its_sequences_are_alone(device, program, hoist, record):
    check(program, hoist=hoist, record=record, device=device)
