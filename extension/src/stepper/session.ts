import type { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import type { Connection } from '../kernel/connection';
import { Dropped, Gone, Waiting } from '../kernel/requests';
import type { Event, How, PausedView, RunItem, RunView, StepView, Where } from '../schema';
import { Bodies } from './bodies';
import { Follower } from './follower';
import { Notes } from './notes';
import { Pauses } from './pauses';
import { Recording } from './recording';
import type { IShown } from './shown';
import { Stepper } from './stepper';
import { Place, placeOf } from './stepper_state';
import { Training } from './training';

/** The runs that one kernel has recorded, and the stepper of the run that is shown. */
export class Session implements IShown, IDisposable {
  constructor(connection: Connection) {
    this.connection = connection;
    this._training = new Training(
      connection.requests,
      (run, at, first) => this._showTraining(run, at, first),
      error => this._stepper?.complain(error)
    );
    this._bodies = new Bodies(connection.requests, this.notes, () => this._changed.emit());
    this._follower = new Follower(this);
    this._pauses = new Pauses(
      this,
      () => this._changed.emit(),
      run => this._opened.emit(run)
    );
    this._recording = new Recording(this, () => this._changed.emit());
    connection.linkChanged.connect(this._onLink, this);
    connection.event.connect(this._onEvent, this);
    connection.cellBegan.connect(this._onCellBegan, this);
    connection.cellEnded.connect(this._onCellEnded, this);
    this.notes.changed.connect(() => this._changed.emit());
    this.notes.changed.connect(this._onNotes, this);
    this._onLink();
  }

  readonly connection: Connection;

  /** The user's watches, searches and marks. */
  readonly notes = new Notes();

  /** Newest first. */
  get runs(): readonly RunItem[] {
    return this._runs;
  }

  get stepper(): Stepper | null {
    return this._stepper;
  }

  /** One run of each loop whose text is known here: the run that is shown, or the newest. */
  get bodies(): RunView[] {
    const shown = this._stepper?.state.run;
    const others = this._bodies.runs.filter(run => run.loop !== shown?.loop);
    return shown && !this._stepper?.state.gone ? [shown, ...others] : others;
  }

  /** Mark a line of a loop, or remove its mark, and show that loop. `keep`: a mark that is there stays. */
  toggleStop(run: RunView, line: number, keep = false): void {
    if (!keep || !this.notes.of(run.loop).stops.some(stop => stop.line === line)) {
      this.notes.toggleStop(run, line);
    }
    if (this._stepper?.state.run.loop !== run.loop) {
      void this.open(run.run);
    }
  }

  /** Whether somebody looks. While a cell runs, new runs are followed only then, as that takes time from the cell. */
  set watched(on: boolean) {
    this._follower.watched = on;
  }

  /** The loop that is paused in the running cell. */
  get paused(): PausedView | null {
    return this._pauses.paused;
  }

  /** Emits when a loop is paused, or goes on. */
  get pausedChanged(): ISignal<unknown, void> {
    return this._pauses.pausedChanged;
  }

  /** Whether the next step of any recorded loop will pause. */
  get pauses(): boolean {
    return this._pauses.next;
  }

  /** Pause the next step of any recorded loop, or do not. */
  pause(on: boolean): void {
    this._pauses.pauseNext(on);
  }

  /** Let the paused loop go on, at most to this step. */
  resume(how: How, where: Where[] = [], step: number | null = null): void {
    this._pauses.resume(how, where, step);
  }

  /** Whether the loops of plain Python in all cells are recorded; null if that is not known. */
  get records(): boolean | null {
    return this._recording.on;
  }

  /** Record the cells that run from now on, or do not. */
  record(on: boolean): void {
    void this._recording.switch(on);
  }

  /** Emits the id of a cell that should run again. */
  get rerunning(): ISignal<this, string> {
    return this._rerunning;
  }

  get error(): string | null {
    return this._error;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The kernel asked to show a run. */
  get opened(): ISignal<this, number> {
    return this._opened;
  }

  /**
   * Show a run, at this step and sequence. `unasked`: the panel follows new runs, and keeps the user's place.
   *
   * @returns false if a run that comes unasked has to wait for the running cell: it would take the place of values by none
   */
  async open(run: number, at: Place | null = null, unasked = false): Promise<boolean> {
    if (unasked && this._isChosen) {
      return true;
    }
    this.cancelOpening();
    const asked = this._asked;
    this._training.drop();
    const shown = this._stepper?.state;
    if (!unasked && at === null && shown?.run.run === run && !shown.gone) {
      this._stepper?.first();
      return true;
    }
    this._isChosen = !unasked;
    try {
      const view = await this.connection.requests.request('run', { run });
      if (asked !== this._asked || this._isDisposed) {
        return true;
      }
      const now = this._stepper?.state;
      if (unasked && now && !now.gone && now.run.run === run) {
        return true; // the user has opened it meanwhile, and may be at another step
      }
      this._error = null;
      const first = unasked ? await this._firstStep(view) : null;
      if (first === 'busy') {
        return false;
      }
      if (asked === this._asked) {
        this.show(view, unasked ? this._place() : at, first);
      }
    } catch (error) {
      if (!(unasked && error instanceof Dropped)) {
        this.complain(error);
      }
    } finally {
      this._isChosen &&= asked !== this._asked;
    }
    return true;
  }

  /** Show a run that has arrived. */
  show(run: RunView, at: Place | null, first: StepView | null = null): void {
    this._stepper?.changed.disconnect(this._onStepper, this);
    this._stepper?.dispose();
    this.notes.follow(run);
    const open = (other: number, place: Place) => void this.open(other, place);
    const stepper = new Stepper(this.connection.requests, run, first, {
      notes: this.notes,
      trail: at?.trail ?? [],
      open,
      isIdle: () => !this.connection.busy || this.paused !== null,
      resume: (how, where) => this.resume(how, where),
      recordAgain: cell => void this._recordAgain(cell),
      openNewest: () => this._follower.newest !== null && void this.open(this._follower.newest, this._place()),
      train: (at, place) => this._training.go(run.run, at, place, this.notes.of(run.loop).watches),
      trainingTarget: this._training.target,
      wanted: at?.step
    });
    this._stepper = stepper;
    if (this.paused?.run === run.run) {
      stepper.grow(run, this.paused);
    }
    this._follower.begin(run, at?.trail ?? []);
    stepper.changed.connect(this._onStepper, this);
    stepper.goto(at?.step ?? 0);
    if (at?.line != null) {
      stepper.look(at.line);
    }
    if (at && at.sequence !== null && at.sequence < (run.lengths?.length ?? run.tags?.length ?? 0)) {
      stepper.choose(at.sequence);
    }
    this._changed.emit();
  }

  /** A run that was about to be shown is no longer wanted. */
  cancelOpening(): void {
    this._asked++;
    this._isChosen = false;
  }

  /** Show an error. */
  complain(error: unknown): void {
    if (!(error instanceof Gone) || error instanceof Dropped) {
      this._error = error instanceof Error ? error.message : String(error);
      this._changed.emit();
    }
  }

  pin(run: number, pinned: boolean): void {
    void this._change(this.connection.requests.request('pin', { run, pinned }));
  }

  forget(run: number): void {
    if (this._stepper?.state.run.run === run) {
      this._follower.release();
    }
    void this._change(this.connection.requests.request('forget', { run }));
  }

  /** Repeat the call of a run with the current code, which adds a run to the list. */
  rerun(run: number): void {
    void this._change(this.connection.requests.request('rerun', { run }));
  }

  /** Request the list of runs again, or try to connect again. */
  refresh(): void {
    if (this.connection.link === 'ready') {
      void this._change(this.connection.requests.request('runs', {}));
    } else {
      void this.connection.connect();
    }
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._follower.dispose();
    this._pauses.dispose();
    this._stepper?.dispose();
    this.connection.linkChanged.disconnect(this._onLink, this);
    this.connection.event.disconnect(this._onEvent, this);
    this.connection.cellBegan.disconnect(this._onCellBegan, this);
    this.connection.cellEnded.disconnect(this._onCellEnded, this);
    Signal.clearData(this);
  }

  private _onLink(): void {
    if (this.connection.link === 'ready') {
      this.refresh();
      void this._pauses.find();
      void this._recording.ask();
    } else if (this.connection.link !== 'connecting') {
      this._pauses.clear();
      this._recording.clear();
      this._runs = [];
      this._bodies.clear();
      this._follower.follow();
    }
    this._changed.emit();
  }

  private _onEvent(_: Connection, event: Event): void {
    if (event.event === 'runs') {
      this._setRuns(event.data as RunItem[]);
    } else if (event.event === 'open') {
      const { run } = event.data as { run: number };
      this._opened.emit(run);
      void this.open(run);
    } else if (event.event === 'paused') {
      void this._pauses.show(event.data as PausedView);
    } else if (event.event === 'resumed') {
      this._pauses.release();
    }
  }

  private _onNotes(_: Notes, loop: string): void {
    const run = this.bodies.find(body => body.loop === loop);
    if (run && this.connection.link === 'ready') {
      this._pauses.pauseAt(run, this.notes.of(loop));
    }
  }

  private _onCellBegan(): void {
    this._changed.emit();
  }

  private _onCellEnded(): void {
    this._pauses.end();
    this._follower.follow();
    void this._bodies.learn(this._runs);
    this._changed.emit();
  }

  /** Record all cells, and run this one again. */
  private async _recordAgain(cell: string): Promise<void> {
    await this._recording.switch(true);
    if (this._recording.on) {
      this._rerunning.emit(cell);
    }
  }

  /** The run that was asked for by its training step. */
  private _showTraining(run: RunView, at: Place, first: StepView | null): void {
    if (!this._isDisposed && this._stepper?.state.run.loop === run.loop) {
      this.cancelOpening();
      this._error = null;
      this.show(run, at, first);
    }
  }

  private async _change(answer: Promise<RunItem[]>): Promise<void> {
    try {
      this._setRuns(await answer);
    } catch (error) {
      this.complain(error);
    }
  }

  private _setRuns(runs: RunItem[]): void {
    this._runs = runs;
    if (this.paused === null) {
      this._follower.follow();
    }
    if (this._stepper) {
      void this._training.learn(this._stepper, runs);
    }
    if (!this.connection.busy) {
      void this._bodies.learn(runs);
    }
    this._changed.emit();
  }

  /** The place that is shown, or the one that was requested. */
  private _place(): Place | null {
    return this._stepper && placeOf(this._stepper.state);
  }

  /** The step of a new run that takes the place of the one that is shown; 'busy' if it waits for the running cell. */
  private async _firstStep(run: RunView): Promise<StepView | 'busy' | null> {
    const at = this._place();
    if (at === null || run.steps === 0) {
      return null;
    }
    const { watches } = this.notes.of(run.loop);
    const args = { run: run.run, step: Math.min(at.step, run.steps - 1), sequence: at.sequence, watch: watches };
    return new Promise(resolve => {
      const wait = (waiting: Waiting) => waiting === 'busy' && resolve('busy');
      this.connection.requests.request('step', args, wait).then(resolve, () => resolve(null));
    });
  }

  private _onStepper(): void {
    if (this._stepper?.state.gone) {
      this._follower.follow(); // at once: the user has asked for a step
    }
    this._changed.emit();
  }

  private _training: Training;
  private _pauses: Pauses;
  private _follower: Follower;
  private _bodies: Bodies;
  private _recording: Recording;
  private _runs: RunItem[] = [];
  private _stepper: Stepper | null = null;
  private _error: string | null = null;
  private _asked = 0;
  /** Whether the run that is requested is one that the user has chosen, so that no newer one takes its place. */
  private _isChosen = false;
  private _isDisposed = false;
  private _changed = new Signal<this, void>(this);
  private _opened = new Signal<this, number>(this);
  private _rerunning = new Signal<this, string>(this);
}
