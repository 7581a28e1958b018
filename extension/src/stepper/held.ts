import type { How, PausedView, RunView } from '../schema';
import type { Asides } from './asides';
import { conditions } from './notes';
import type { StepRequests } from './step_requests';
import { StepperContext, stepsBegun } from './stepper_state';
import type { StepperStore } from './stepper_store';

/** The loop of the run that is shown, while it is held at a pause. */
export class Held {
  constructor(store: StepperStore, steps: StepRequests, asides: Asides, context: StepperContext) {
    this._store = store;
    this._steps = steps;
    this._asides = asides;
    this._context = context;
  }

  /** Whether the step after a step is one that the paused loop has yet to do. */
  isLast(step: number): boolean {
    const { held, run } = this._store.state;
    return held !== null && step >= stepsBegun(run) - 1;
  }

  /** Let the paused loop go on; with `toMatch`, to the next step that matches the search or a marked line. */
  resume(how: How, toMatch = false): void {
    const { held, notes, run } = this._store.state;
    if (held !== null) {
      this._context.resume?.(how, toMatch ? conditions(notes, run) : []);
    }
  }

  /** Edit states of the paused loop, with which its next step begins. */
  async edit(states: { [name: string]: string }): Promise<boolean> {
    const { step } = this._store.state;
    const run = await this._asides.ask('edit', { states, sequence: step?.sequence ?? null });
    if (run && step) {
      this._steps.clear();
      this._store.update({ run });
      await this._steps.again(step.step);
    }
    return run !== null;
  }

  /** The loop was paused, went on, or has ended: the run has more steps. */
  grow(run: RunView, held: PausedView | null): void {
    this._steps.clear();
    this._store.update({ run, held });
  }

  /** The paused loop goes on. */
  release(): void {
    this._store.update({ held: null });
  }

  private _store: StepperStore;
  private _steps: StepRequests;
  private _asides: Asides;
  private _context: StepperContext;
}
