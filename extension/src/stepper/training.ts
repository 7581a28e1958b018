import { Latest } from '../kernel/latest';
import type { IRequests } from '../kernel/requests';
import type { RunItem, RunView, StepView } from '../schema';
import type { Stepper } from './stepper';
import type { Place } from './stepper_state';

interface Wish {
  run: number;
  at: number;
  place: Place;
  watch: readonly string[];
}

/** Opens the run of a probe at another training step; while a slider is dragged, one request at a time. */
export class Training {
  constructor(
    requests: IRequests,
    show: (run: RunView, at: Place, first: StepView | null) => void,
    complain: (error: unknown) => void
  ) {
    this._requests = requests;
    this._show = show;
    this._complain = complain;
  }

  /** The training step that waits for its turn. */
  get target(): number | null {
    return this._latest.next?.at ?? null;
  }

  /** Request the run of the same loop at the training step `at`. */
  go(run: number, at: number, place: Place, watch: readonly string[]): void {
    this._latest.want({ run, at, place, watch });
  }

  /** There are new runs: the probe whose run is shown may have more of them. */
  async learn(shown: Stepper, runs: readonly RunItem[]): Promise<void> {
    const { run, gone } = shown.state;
    const newest = runs.find(item => item.loop === run.loop)?.run;
    if (run.training && !gone && newest !== undefined && newest !== this._newest) {
      this._newest = newest;
      try {
        shown.learn(await this._requests.request('run', { run: run.run }));
      } catch {
        return; // the run was dropped
      }
    }
  }

  /** Forget the request that waits: something else is shown. */
  drop(): void {
    this._latest.drop();
  }

  private async _ask({ run, at, place, watch }: Wish): Promise<void> {
    const { step, sequence } = place;
    try {
      const found = await this._requests.request('training', { run, at, step, sequence, watch });
      this._show(found.run, place, found.step);
    } catch (error) {
      this._complain(error);
    }
  }

  private _requests: IRequests;
  private _show: (run: RunView, at: Place, first: StepView | null) => void;
  private _complain: (error: unknown) => void;
  /** The newest run of the probe that was shown. */
  private _newest: number | null = null;
  private _latest = new Latest<Wish>(
    wish => this._ask(wish),
    () => false
  );
}

/** Whether a run is the newest of its probe; null for other runs. */
export function isLatest({ training }: RunView): boolean | null {
  return training ? training.steps.every(step => step <= training.step) : null;
}
