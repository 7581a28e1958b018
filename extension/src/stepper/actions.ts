import { Stepper } from './stepper';

type Method = {
  [M in keyof Stepper]: Stepper[M] extends (...args: never[]) => unknown ? M : never;
}[keyof Stepper];

/** Methods that only the owner of a stepper calls. */
const OF_OWNER = ['complain', 'grow', 'learn', 'lose', 'release', 'dispose'] as const;

/** What views may do with a stepper: all of its methods except those of its owner. */
export type StepperActions = Pick<Stepper, Exclude<Method, (typeof OF_OWNER)[number]>>;

const NO_ACTIONS: readonly string[] = ['constructor', ...OF_OWNER];

const known = new WeakMap<Stepper, StepperActions>();

/** The actions of a stepper, always as the same object, so that views can compare it. */
export function actionsOf(stepper: Stepper): StepperActions {
  const actions = known.get(stepper) ?? bound(stepper);
  known.set(stepper, actions);
  return actions;
}

function bound(stepper: Stepper): StepperActions {
  const properties = Object.entries(Object.getOwnPropertyDescriptors(Stepper.prototype));
  const methods = properties.filter(([name, { value }]) => typeof value === 'function' && !name.startsWith('_'));
  const actions = methods.filter(([name]) => !NO_ACTIONS.includes(name));
  return Object.fromEntries(actions.map(([name, { value }]) => [name, value.bind(stepper)])) as StepperActions;
}
