import { ISignal, Signal } from '@lumino/signaling';

import type { How, PausedView, RunView, Where } from '../schema';
import { conditions, LoopNotes } from './notes';
import type { IShown } from './shown';

/** A pause that follows within this time, in ms, is that of the next step: the panel does not change in between. */
const SHORT = 300;

/** So often, in ms, the kernel hears that a panel is still there: a pause without a panel ends at last. */
const ALIVE = 30_000;

/** Pauses running loops, finds and shows the run of a loop that is paused, and lets it go on. */
export class Pauses {
  /**
   * @param reveal - called with the run of a paused loop before it is shown
   */
  constructor(shown: IShown, onChange: () => void, reveal: (run: number) => void) {
    this._shown = shown;
    this._onChange = onChange;
    this._reveal = reveal;
  }

  /** The loop that is paused in the running cell. */
  get paused(): PausedView | null {
    return this._paused;
  }

  /** Emits when a loop is paused, or goes on. */
  get pausedChanged(): ISignal<this, void> {
    return this._pausedChanged;
  }

  /** Whether the next step of any recorded loop will pause. */
  get next(): boolean {
    return this._next;
  }

  /** Pause the next step of any recorded loop, or do not. */
  pauseNext(on: boolean): void {
    this._next = on;
    void this._attempt(this._requests.request('pause', { on }));
    this._onChange();
  }

  /** Give the kernel the conditions at which a loop pauses while it runs. */
  pauseAt(run: RunView, notes: LoopNotes): void {
    const { loop, name } = run;
    const where = notes.pauses ? conditions(notes, run) : [];
    if (where.length > 0 || this._pausing.has(loop)) {
      this._pausing.add(loop);
      void this._attempt(this._requests.request('pause_at', { loop: name, key: loop, where }));
    }
  }

  /** Let the paused loop go on, at most to this step. */
  resume(how: How, where: Where[] = [], step: number | null = null): void {
    if (this._paused !== null) {
      this._next &&= how !== 'run';
      void this._attempt(this._requests.request('resume', { how, where, step }));
    }
  }

  /** A page that was opened while a loop is paused shows it. */
  async find(): Promise<void> {
    try {
      const paused = await this._requests.request('paused', {});
      if (paused !== null) {
        await this.show(paused);
      }
    } catch (error) {
      this._shown.complain(error);
    }
  }

  /** Show the step at which a loop is paused. */
  async show(paused: PausedView): Promise<void> {
    this._reveal(paused.run);
    this._next = false;
    this._set(paused);
    this._held = paused.run;
    this._shown.cancelOpening();
    try {
      const run = await this._requests.request('run', { run: paused.run });
      if (this._paused === paused && !this._shown.isDisposed) {
        this._showRun(run, paused);
      } // else the loop has gone on meanwhile
    } catch (error) {
      this._shown.complain(error);
    }
  }

  /** The paused loop goes on; the panel shows that unless it pauses again soon. */
  release(): void {
    this._shown.stepper?.release();
    this._resumed = setTimeout(() => this._set(null), SHORT);
  }

  /** There is no paused loop any more, and no kernel that was asked for a pause. */
  clear(): void {
    this._next = false;
    this._set(null);
  }

  /** The cell has ended: show the steps that its loop did since the pause. */
  end(): void {
    this._set(null);
    void this._complete();
  }

  dispose(): void {
    clearTimeout(this._resumed);
    clearInterval(this._alive);
    Signal.clearData(this);
  }

  private _showRun(run: RunView, paused: PausedView): void {
    const before = this._shown.stepper?.state;
    if (before?.run.run !== run.run || before.gone) {
      this._shown.show(run, { step: paused.step, sequence: before?.step?.sequence ?? null, trail: [] });
    }
    const { stepper } = this._shown;
    stepper?.grow(run, paused);
    stepper?.goto(paused.step);
    if (paused.line !== null) {
      stepper?.look(paused.line);
    }
  }

  private async _complete(): Promise<void> {
    const { stepper } = this._shown;
    if (stepper && this._held === stepper.state.run.run) {
      this._held = null;
      try {
        stepper.grow(await this._requests.request('run', { run: stepper.state.run.run }), null);
      } catch {
        return; // the run was dropped
      }
    }
  }

  private _set(paused: PausedView | null): void {
    clearTimeout(this._resumed);
    clearInterval(this._alive);
    const before = this._paused;
    this._paused = paused;
    if (paused !== null) {
      this._alive = setInterval(() => void this._requests.request('paused', {}).catch(() => undefined), ALIVE);
    }
    if (before !== paused) {
      this._pausedChanged.emit();
    }
    if (paused === null) {
      this._shown.stepper?.release();
    }
    this._onChange();
  }

  private async _attempt(answer: Promise<unknown>): Promise<void> {
    try {
      await answer;
    } catch (error) {
      this._shown.complain(error);
    }
  }

  private get _requests() {
    return this._shown.connection.requests;
  }

  private _shown: IShown;
  private _onChange: () => void;
  private _reveal: (run: number) => void;
  private _paused: PausedView | null = null;
  /** The run that was paused last in the running cell. */
  private _held: number | null = null;
  private _next = false;
  /** Loops with conditions in the kernel. */
  private _pausing = new Set<string>();
  private _resumed: ReturnType<typeof setTimeout> | undefined;
  private _alive: ReturnType<typeof setInterval> | undefined;
  private _pausedChanged = new Signal<this, void>(this);
}
