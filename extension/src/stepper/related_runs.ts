import type { Asides } from './asides';
import type { Place } from './stepper_state';
import type { StepperStore } from './stepper_store';

/** Opens runs that belong to the one that is shown: forks of it, its parent, loops inside its steps, runs around it. */
export class RelatedRuns {
  constructor(store: StepperStore, asides: Asides, open: (run: number, at: Place) => void) {
    this._store = store;
    this._asides = asides;
    this._open = open;
  }

  /** Continue from this step with other states, as a new run. Returns whether there is one. */
  async fork(states: { [name: string]: string }): Promise<boolean> {
    const { step, trail } = this._store.state;
    const chosen = step?.beam?.hypothesis ? { hypothesis: step.beam.hypothesis } : {};
    const args = step && { step: step.step, states, sequence: step.sequence, ...chosen };
    const made = args && (await this._asides.ask('fork', args));
    if (step && made) {
      this._open(made.run, { step: step.step, sequence: step.sequence, trail });
    }
    return Boolean(made);
  }

  /** Continue from a step with a pruned candidate in the beam, as a new run. */
  async keep(step: number, candidate: number): Promise<void> {
    const { step: shown, trail } = this._store.state;
    const sequence = shown?.beam?.sequence ?? null;
    const made = await this._asides.ask('keep', { step, candidate, sequence });
    if (made) {
      this._open(made.run, { step, sequence: shown?.sequence ?? null, trail });
    }
  }

  /** Ask for the loops inside this step, or for those that begin at a line, and open the run if there is only one. */
  async enterOnly(line: number | null): Promise<void> {
    const { step } = this._store.state;
    const found = step && (await this._asides.ask('loops', { step: step.step, line }));
    if (found?.length === 1) {
      this.enter(found[0].run);
    }
  }

  /** Open the run of a loop inside this step. */
  enter(inner: number): void {
    const { run, step, trail } = this._store.state;
    const here = { run: run.run, name: run.name, step: step?.step ?? 0, sequence: step?.sequence ?? null };
    this._open(inner, { step: 0, sequence: null, trail: [...trail, here] });
  }

  /** Go back to a run that contains this one. */
  leaveTo(depth: number): void {
    const { run, step, sequence } = this._store.state.trail[depth];
    this._open(run, { step, sequence, trail: this._store.state.trail.slice(0, depth) });
  }

  /** Go to the run that this one was forked from. */
  openParent(): void {
    const { run, trail, step } = this._store.state;
    if (run.parent !== null) {
      this._open(run.parent, { step: run.forked_at ?? 0, sequence: step?.sequence ?? null, trail });
    }
  }

  private _store: StepperStore;
  private _asides: Asides;
  private _open: (run: number, at: Place) => void;
}
