import type { RunItem, RunView } from '../schema';
import type { IShown } from './shown';
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
  begin(run: RunView): void {
    const family = familyOf(run, this._shown.runs);
    this._wasNewest = isLatest(run) ?? (family.length === 0 || family[0].run <= run.run);
  }

  /** Show the newest run of the current loop, if its newest run was shown before. */
  follow(): void {
    const { runs, stepper } = this._shown;
    const chosen = stepper?.state.run ?? null;
    if (runs.length === 0) {
      stepper?.lose();
      return;
    }
    if (!this._mayFollow()) {
      return;
    }
    if (chosen === null || stepper?.state.gone) {
      void this._openOnce(runs[0].run);
      return;
    }
    const family = familyOf(chosen, runs);
    const outermost = stepper?.state.trail[0]?.run ?? chosen.run;
    const isThere = runs.some(item => item.run === outermost) || (chosen.training && family.length > 0);
    if (!isThere) {
      void this._openOnce((family[0] ?? runs[0]).run);
    } else if (this._wasNewest && outermost === chosen.run && family[0].run !== chosen.run) {
      void this._openOnce(family[0].run);
    }
  }

  dispose(): void {
    clearTimeout(this._resting);
  }

  /** Whether a new run may be shown now; if it is too early, `follow` is called later. */
  private _mayFollow(): boolean {
    const isBusy = this._shown.connection.busy && this._shown.paused === null;
    const early = this._restUntil - performance.now();
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
    await this._shown.open(run, null, true);
    this._isOpening = false;
    this._restUntil = begin + Math.min((performance.now() - begin) / SHARE, SELDOM);
    this._wasNewest ||= this._shown.stepper?.state.run.run === run; // when it was asked for
    if (this._shown.runs[0]?.run !== newest && this._shown.paused === null) {
      this.follow();
    }
  }

  private _shown: IShown;
  private _watched = true;
  private _wasNewest = true;
  private _isOpening = false;
  private _restUntil = 0;
  private _resting: ReturnType<typeof setTimeout> | undefined;
}

/** The runs of the same loop, newest first. */
export function familyOf({ loop }: RunView, runs: readonly RunItem[]): RunItem[] {
  return runs.filter(item => item.loop === loop);
}
