import type { StepRequests } from './step_requests';
import { canAsk, StepperContext, stepsBegun } from './stepper_state';
import type { StepperStore } from './stepper_store';

/** Moves from the run of a probe at one training step to that at another. */
export class TrainingSteps {
  constructor(store: StepperStore, steps: StepRequests, context: StepperContext) {
    this._store = store;
    this._steps = steps;
    this._context = context;
  }

  /** Request the run at another training step, at the same step of the loop if it has that many. */
  goto(at: number): void {
    const { run, step, line, trail, trainingTarget } = this._store.state;
    if (canAsk(this._store.state) && run.training && at !== (trainingTarget ?? run.training.step)) {
      const { wanted = 0 } = this._context;
      const here = this._steps.wanted.step;
      const isCut = here === stepsBegun(run) - 1 && wanted > here;
      this._store.update({ trainingTarget: at });
      this._context.train?.(at, { step: isCut ? wanted : here, sequence: step?.sequence ?? null, trail, line });
    }
  }

  /** Request the run at the next (+1) or previous (-1) training step. */
  move(way: 1 | -1): void {
    const { run, trainingTarget } = this._store.state;
    const { steps = [], step = 0 } = run.training ?? {};
    const at = steps[steps.indexOf(trainingTarget ?? step) + way];
    if (at !== undefined) {
      this.goto(at);
    }
  }

  private _store: StepperStore;
  private _steps: StepRequests;
  private _context: StepperContext;
}
