import type { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import type { Connection } from '../kernel/connection';
import { Gone } from '../kernel/requests';
import type { Event, How, PausedView, RunItem, RunView, StepView, Where } from '../schema';
import { conditions, Notes } from './notes';
import { Stepper } from './stepper';
import type { Place } from './stepper_state';

/** A pause that follows within this time, in ms, is that of the next step: the panel does not change in between. */
const SHORT = 300;

/** At most this many loops of a notebook get marks in their cells before they are opened. */
const KNOWN_LOOPS = 24;

/** The runs that one kernel has recorded, and the stepper of the run that is shown. */
export class Session implements IDisposable {
  constructor(connection: Connection) {
    this.connection = connection;
    connection.linkChanged.connect(this._onLink, this);
    connection.event.connect(this._onEvent, this);
    connection.cellBegan.connect(this._onCellBegan, this);
    connection.cellEnded.connect(this._onCellEnded, this);
    this.notes.changed.connect(() => this._changed.emit());
    this.notes.changed.connect((_, loop) => this._pauseAt(loop));
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
    const others = [...this._bodies.values()].filter(run => run.loop !== shown?.loop);
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

  /** The loop that is paused in the running cell. */
  get paused(): PausedView | null {
    return this._paused;
  }

  /** Emits when a loop is paused, or goes on. */
  get pausedChanged(): ISignal<this, void> {
    return this._pausedChanged;
  }

  /** Whether the next step of any recorded loop will pause. */
  get pauses(): boolean {
    return this._pauses;
  }

  /** Pause the next step of any recorded loop, or do not. */
  pause(on: boolean): void {
    this._pauses = on;
    void this._attempt(this.connection.requests.request('pause', { on }));
    this._changed.emit();
  }

  /** Let the paused loop go on. */
  resume(how: How, where: Where[] = []): void {
    if (this._paused !== null) {
      void this._attempt(this.connection.requests.request('resume', { how, where }));
    }
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

  /** Show a run, at this step and sequence. `unasked`: the panel follows new runs, and keeps the user's place. */
  async open(run: number, at: Place | null = null, unasked = false): Promise<void> {
    const asked = ++this._asked;
    const shown = this._stepper?.state;
    if (!unasked && at === null && shown?.run.run === run && !shown.gone) {
      this._stepper?.first();
      return;
    }
    try {
      const view = await this.connection.requests.request('run', { run });
      if (asked !== this._asked || this._isDisposed) {
        return;
      }
      const now = this._stepper?.state;
      if (unasked && now && !now.gone && now.run.run === run) {
        return; // the user has opened it meanwhile, and may be at another step
      }
      this._error = null;
      const first = unasked && this.connection.busy ? await this._firstStep(view) : null;
      if (asked === this._asked) {
        this._setStepper(view, unasked ? this._place() : at, first);
      }
    } catch (error) {
      this._complain(error);
    }
  }

  pin(run: number, pinned: boolean): void {
    void this._change(this.connection.requests.request('pin', { run, pinned }));
  }

  forget(run: number): void {
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
      void this._findPaused();
    } else if (this.connection.link !== 'connecting') {
      this._setPaused(null);
      this._runs = [];
      this._bodies.clear();
      this._stepper?.lose();
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
      const paused = event.data as PausedView;
      this._opened.emit(paused.run);
      void this._showPaused(paused);
    } else if (event.event === 'resumed') {
      this._stepper?.release();
      this._resumed = setTimeout(() => this._setPaused(null), SHORT);
    }
  }

  /** A page that was opened while a loop is paused shows it. */
  private async _findPaused(): Promise<void> {
    try {
      const paused = await this.connection.requests.request('paused', {});
      if (paused !== null) {
        this._opened.emit(paused.run);
        await this._showPaused(paused);
      }
    } catch (error) {
      this._complain(error);
    }
  }

  /** Show the step at which a loop is paused. */
  private async _showPaused(paused: PausedView): Promise<void> {
    this._pauses = false;
    this._setPaused(paused);
    this._held = paused.run;
    this._asked++; // a run that the panel was about to show is no longer wanted
    try {
      const run = await this.connection.requests.request('run', { run: paused.run });
      if (this._paused !== paused || this._isDisposed) {
        return; // the loop has gone on meanwhile
      }
      const at = { step: paused.step, sequence: this._stepper?.state.step?.sequence ?? null, trail: [] };
      if (this._stepper?.state.run.run !== run.run || this._stepper.state.gone) {
        this._setStepper(run, at);
      }
      this._stepper?.grow(run, paused);
      this._stepper?.goto(paused.step);
      if (paused.line !== null) {
        this._stepper?.look(paused.line);
      }
    } catch (error) {
      this._complain(error);
    }
  }

  private _setPaused(paused: PausedView | null): void {
    clearTimeout(this._resumed);
    const before = this._paused;
    this._paused = paused;
    if (before !== paused) {
      this._pausedChanged.emit();
    }
    if (paused === null) {
      this._stepper?.release();
    }
    this._changed.emit();
  }

  /** The cell with the loop that is shown has ended: show the steps that it did since. */
  private async _complete(): Promise<void> {
    const shown = this._stepper;
    if (shown && this._held === shown.state.run.run) {
      this._held = null;
      try {
        shown.grow(await this.connection.requests.request('run', { run: shown.state.run.run }), null);
      } catch {
        return; // the run was dropped
      }
    }
  }

  /** Give the kernel the conditions at which running loops pause. */
  private _pauseAt(loop: string): void {
    const run = this.bodies.find(body => body.loop === loop);
    if (run && this.connection.link === 'ready') {
      const notes = this.notes.of(loop);
      const where = notes.pauses ? conditions(notes, run) : [];
      if (where.length > 0 || this._pausing.has(loop)) {
        this._pausing.add(loop);
        void this._attempt(this.connection.requests.request('pause_at', { loop: run.name, key: loop, where }));
      }
    }
  }

  private async _attempt(answer: Promise<unknown>): Promise<void> {
    try {
      await answer;
    } catch (error) {
      this._complain(error);
    }
  }

  private _onCellBegan(): void {
    this._changed.emit();
  }

  private _onCellEnded(): void {
    this._setPaused(null);
    this._pauses = false;
    void this._complete();
    this._follow();
    void this._learnBodies();
    this._changed.emit();
  }

  /** Request the text of each loop, so that its lines can be marked before it is opened. */
  private async _learnBodies(): Promise<void> {
    const newest = new Map([...this._runs].reverse().map(item => [item.loop, item.run]));
    const unknown = [...newest].filter(([loop, run]) => this._bodies.get(loop)?.run !== run);
    for (const [loop, run] of unknown.slice(0, KNOWN_LOOPS)) {
      try {
        const view = await this.connection.requests.request('run', { run });
        this._bodies.set(loop, view);
        this.notes.follow(view);
      } catch {
        return; // the run was dropped meanwhile; the next list of runs is up to date
      }
    }
    [...this._bodies.keys()].filter(loop => !newest.has(loop)).forEach(loop => this._bodies.delete(loop));
    this._changed.emit();
  }

  private async _change(answer: Promise<RunItem[]>): Promise<void> {
    try {
      this._setRuns(await answer);
    } catch (error) {
      this._complain(error);
    }
  }

  private _setRuns(runs: RunItem[]): void {
    this._runs = runs;
    if (this._paused === null) {
      this._follow();
    }
    if (!this.connection.busy) {
      void this._learnBodies();
    }
    this._changed.emit();
  }

  /** Show the newest run of the current loop, if its newest run was shown before. */
  private _follow(): void {
    const chosen = this._stepper?.state.run ?? null;
    if (this._runs.length === 0) {
      this._stepper?.lose();
      return;
    }
    if (chosen === null || this._stepper?.state.gone) {
      void this._openOnce(this._runs[0].run);
      return;
    }
    const family = this._family(chosen);
    const outermost = this._stepper?.state.trail[0]?.run ?? chosen.run;
    const isThere = this._runs.some(item => item.run === outermost);
    if (!isThere) {
      void this._openOnce((family[0] ?? this._runs[0]).run);
    } else if (this._wasNewest && outermost === chosen.run && family[0].run !== chosen.run) {
      void this._openOnce(family[0].run);
    }
  }

  /** The place that is shown, or the one that was requested. */
  private _place(): Place | null {
    const { step, target } = this._stepper?.state ?? {};
    return step ? { step: target ?? step.step, sequence: step.sequence, trail: [] } : null;
  }

  private _family(run: RunView): RunItem[] {
    return this._runs.filter(item => item.loop === run.loop);
  }

  /** Open a run, unless another one is being opened: then the list is looked at again. */
  private async _openOnce(run: number): Promise<void> {
    if (this._opening !== null) {
      return;
    }
    const newest = this._runs[0]?.run;
    this._opening = run;
    await this.open(run, null, true);
    this._opening = null;
    if (this._runs[0]?.run !== newest && this._paused === null) {
      this._wasNewest ||= this._stepper?.state.run.run === run; // when it was asked for
      this._follow();
    }
  }

  /** The step of a new run that takes the place of the one that is shown, so that the panel does not flicker. */
  private async _firstStep(run: RunView): Promise<StepView | null> {
    const at = this._place();
    if (at === null || run.steps === 0) {
      return null;
    }
    const { watches } = this.notes.of(run.loop);
    const args = { run: run.run, step: Math.min(at.step, run.steps - 1), sequence: at.sequence, watch: watches };
    try {
      return await this.connection.requests.request('step', args);
    } catch {
      return null;
    }
  }

  private _setStepper(run: RunView, at: Place | null, first: StepView | null = null): void {
    this._stepper?.changed.disconnect(this._onStepper, this);
    this._stepper?.dispose();
    this.notes.follow(run);
    const open = (other: number, place: Place) => void this.open(other, place);
    const stepper = new Stepper(this.connection.requests, run, first, {
      notes: this.notes,
      trail: at?.trail ?? [],
      open,
      isIdle: () => !this.connection.busy || this._paused !== null,
      resume: (how, where) => this.resume(how, where)
    });
    this._stepper = stepper;
    if (this._paused?.run === run.run) {
      stepper.grow(run, this._paused);
    }
    const family = this._family(run);
    this._wasNewest = family.length === 0 || family[0].run <= run.run;
    stepper.changed.connect(this._onStepper, this);
    stepper.goto(at?.step ?? 0);
    if (at && at.sequence !== null && at.sequence < (run.lengths?.length ?? run.tags?.length ?? 0)) {
      stepper.choose(at.sequence);
    }
    this._changed.emit();
  }

  private _onStepper(): void {
    this._changed.emit();
  }

  private _complain(error: unknown): void {
    if (!(error instanceof Gone)) {
      this._error = error instanceof Error ? error.message : String(error);
      this._changed.emit();
    }
  }

  private _paused: PausedView | null = null;
  private _held: number | null = null;
  private _pauses = false;
  private _pausing = new Set<string>();
  private _resumed: ReturnType<typeof setTimeout> | undefined;
  private _runs: RunItem[] = [];
  private _bodies = new Map<string, RunView>();
  private _stepper: Stepper | null = null;
  private _error: string | null = null;
  private _asked = 0;
  private _opening: number | null = null;
  private _wasNewest = true;
  private _isDisposed = false;
  private _pausedChanged = new Signal<this, void>(this);
  private _changed = new Signal<this, void>(this);
  private _opened = new Signal<this, number>(this);
}
