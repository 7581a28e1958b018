import type { Stepper } from './stepper';
import type { StepperActions } from '../views/stepper/stepper';

const known = new WeakMap<Stepper, StepperActions>();

/** What the views may ask of a stepper: always the same object, so that a view sees that nothing changed. */
export function actionsOf(stepper: Stepper): StepperActions {
  const actions = known.get(stepper) ?? make(stepper);
  known.set(stepper, actions);
  return actions;
}

function make(stepper: Stepper): StepperActions {
  return {
    goto: step => stepper.goto(step),
    first: () => stepper.first(),
    previous: () => stepper.previous(),
    next: () => stepper.next(),
    last: () => stepper.last(),
    choose: sequence => stepper.choose(sequence),
    look: line => stepper.look(line),
    lookOn: direction => stepper.lookOn(direction),
    goToHit: direction => stepper.goToHit(direction),
    cancelSearch: () => stepper.cancelSearch(),
    note: change => stepper.note(change),
    toggleStop: line => stepper.toggleStop(line),
    changeStop: (stop, change) => stepper.changeStop(stop, change),
    toggleOps: () => stepper.toggleOps(),
    lookAtOp: number => stepper.lookAtOp(number),
    stepOp: way => stepper.stepOp(way),
    fork: states => void stepper.fork(states),
    enter: () => void stepper.enter(),
    enterRun: run => stepper.enterRun(run),
    leaveTo: depth => stepper.leaveTo(depth),
    openParent: () => stepper.openParent(),
    gradients: loss => stepper.gradients(loss),
    compare: other => stepper.compare(other),
    dismiss: name => stepper.dismiss(name)
  };
}
