import type { RunItem, RunView } from '../schema';
import type { IShown } from './shown';
import type { Crumb, StepperState } from './stepper_state';
import { isLatest } from './training';

/** Following a training takes this share of the time at most, and shows a run at least once in so many ms. */
const SHARE = 0.05;
const SELDOM = 2500;

/** Shows new runs of the loop that is shown, as they are recorded. */
export class Follower {
  constructor(shown: IShown) {
    this._shown = shown;
  }

  /** Whether somebody looks. While a cell runs, new runs are followed only then, as that takes time from the cell. */
  set watched(on: boolean) {
    if (on !== this._watched) {
      this._watched = on;
      this.follow();
    }
  }

  /** This run is shown now; whether it is the newest of its loop decides whether newer ones will be. */
  begin(run: RunView, trail: readonly Crumb[]): void {
    const family = familyOf(run, this._shown.runs);
    this._isPostponed = false;
    this._follows = trail.length === 0 && (isLatest(run) ?? (family.length === 0 || family[0].run <= run.run));
  }

  /** Any newest run may take the place of the one that is shown: the user has removed it. */
  release(): void {
    this._follows = true;
  }

  /** The newest run of the loop that is shown; null if there are no runs. */
  get newest(): number | null {
    const { runs, stepper } = this._shown;
    const family = stepper ? familyOf(stepper.state.run, runs) : [];
    return (family[0] ?? runs[0])?.run ?? null;
  }

  /** Show the newest run of the current loop if its newest run was shown before; else say whether it was dropped. */
  follow(): void {
    const { runs, stepper } = this._shown;
    const { newest } = this;
    const shown = stepper?.state ?? null;
    if (newest === null) {
      this._follows = true;
      if (shown !== null && (!shown.gone || shown.dropped)) {
        stepper?.lose();
      }
    } else if (!this._follows || (this._isPostponed &&= this._isBusy)) {
      if (shown !== null && !shown.gone && !isKept(shown, runs)) {
        stepper?.lose(true);
      }
    } else if ((shown === null || shown.gone || shown.run.run !== newest) && this._mayFollow()) {
      void this._openOnce(newest);
    }
  }

  dispose(): void {
    clearTimeout(this._resting);
  }

  /** Whether a new run may be shown now; if it is too early, `follow` is called later. */
  private _mayFollow(): boolean {
    const isBusy = this._isBusy;
    const isGone = this._shown.stepper?.state.gone ?? true;
    const early = isGone ? 0 : this._restUntil - performance.now();
    clearTimeout(this._resting);
    if (isBusy && this._watched && early > 0) {
      this._resting = setTimeout(() => !this._shown.isDisposed && this.follow(), early);
    }
    return !isBusy || (this._watched && early <= 0);
  }

  /** Open a run, unless another one is being opened: then the list is looked at again. */
  private async _openOnce(run: number): Promise<void> {
    if (this._isOpening) {
      return;
    }
    const newest = this._shown.runs[0]?.run;
    this._isOpening = true;
    const begin = performance.now();
    this._isPostponed = !(await this._shown.open(run, null, true));
    this._isOpening = false;
    this._restUntil = begin + Math.min((performance.now() - begin) / SHARE, SELDOM);
    this._follows ||= this._shown.stepper?.state.run.run === run; // the newest when it was asked for
    if (this._shown.runs[0]?.run !== newest && this._shown.paused === null) {
      this.follow();
    }
  }

  private get _isBusy(): boolean {
    return this._shown.connection.busy && this._shown.paused === null;
  }

  private _shown: IShown;
  private _watched = true;
  private _follows = true;
  /** Whether the kernel shows no newer run before the running cell has ended. */
  private _isPostponed = false;
  private _isOpening = false;
  private _restUntil = 0;
  private _resting: ReturnType<typeof setTimeout> | undefined;
}

/** Whether the run is in the list, or belongs to one that the kernel may still have. */
function isKept({ run, trail }: StepperState, runs: readonly RunItem[]): boolean {
  const isOfProbe = run.training && familyOf(run, runs).length > 0;
  return trail.length > 0 || isOfProbe || runs.some(item => item.run === run.run);
}

/** The runs of the same loop, newest first. */
export function familyOf({ loop }: RunView, runs: readonly RunItem[]): RunItem[] {
  return runs.filter(item => item.loop === loop);
}
