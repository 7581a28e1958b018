import type { Stepper } from './stepper';
import type { StepperActions } from './views/stepper';

/** What the views may ask of a stepper. */
export function actionsOf(stepper: Stepper): StepperActions {
  return {
    goto: step => stepper.goto(step),
    first: () => stepper.first(),
    previous: () => stepper.previous(),
    next: () => stepper.next(),
    last: () => stepper.last(),
    choose: sequence => stepper.choose(sequence),
    look: line => stepper.look(line),
    lookOn: direction => stepper.lookOn(direction)
  };
}
