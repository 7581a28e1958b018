import type { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { Direction, Finder, FindState } from './finder';
import { conditions, LoopNotes, Notes, Stop } from './notes';
import { OpsState, OpWalk } from './ops';
import { Answers, Gone, IRequests, Waiting } from './requests';
import type { ComparisonView, GradientsView, Message, OpRow, RunItem, RunView, StepView } from './schema';

/** How many steps can be looked at: those that were done, and one that failed. */
export function stepsBegun({ steps, failure }: RunView): number {
  return steps + (failure?.step === steps ? 1 : 0);
}

/** A run around the one that is shown, and the step of it that one came from. */
export interface Crumb {
  run: number;
  name: string;
  step: number;
  sequence: number | null;
}

/** Where to open a run. */
export interface Place {
  step: number;
  sequence: number | null;
  trail: readonly Crumb[];
}

/** What a stepper has from where it is shown. */
export interface StepperContext {
  notes: Notes;
  trail: readonly Crumb[];
  /** There is no kernel: only steps can be had. */
  still?: boolean;
  /** Show another run instead of this one. */
  open: (run: number, at: Place) => void;
}

/** An answer that only this view waits for. */
export interface Aside<T> {
  waiting: boolean;
  error: string | null;
  answer: T | null;
}

/** What can be asked beside the steps. */
export interface Asides {
  fork: RunView;
  loops: RunItem[];
  gradients: GradientsView;
  compare: ComparisonView;
}

/** What is shown of one run. */
export interface StepperState {
  run: RunView;
  /** The last answer of the kernel: where the run is. */
  step: StepView | null;
  /** The line that is looked at, 1-based in the file or cell. */
  line: number | null;
  /** The step that was asked for, until its answer is there. */
  target: number | null;
  waiting: Waiting | null;
  error: string | null;
  /** The kernel has forgotten the run: what is shown is the last that was seen of it. */
  gone: boolean;
  notes: LoopNotes;
  find: FindState;
  /** null while they are not shown. */
  ops: OpsState | null;
  /** Whether only steps can be had: there is no kernel that could compute. */
  still: boolean;
  /** The runs around this one, the outermost first. */
  trail: readonly Crumb[];
  asides: { readonly [A in keyof Asides]?: Aside<Asides[A]> };
}

interface Wish {
  step: number;
  sequence: number | null;
}

/**
 * Walks through one run.
 *
 * It never decides where the run is: it asks, and shows what it is answered. One question is under way at a time; of
 * those that come meanwhile only the last is asked next, so that a dragged slider does not fill the kernel's queue.
 */
export class Stepper implements IDisposable {
  constructor(
    requests: IRequests,
    run: RunView,
    first: StepView | null = null,
    context: StepperContext = { notes: new Notes(), trail: [], open: () => undefined }
  ) {
    this._requests = requests;
    this._context = context;
    this._finder = new Finder(
      requests,
      run,
      () => this._update({ find: this._finder.state }),
      step => this.goto(step)
    );
    this._ops = new OpWalk(requests, run.run, () => this._update({ ops: this._ops.state }));
    this._state = {
      run,
      step: first,
      line: firstLine(run, first),
      target: null,
      waiting: null,
      error: null,
      gone: false,
      notes: context.notes.of(run.loop),
      find: this._finder.state,
      ops: null,
      still: context.still ?? false,
      trail: context.trail,
      asides: {}
    };
    this._search(false);
    context.notes.changed.connect(this._onNotes, this);
  }

  get state(): StepperState {
    return this._state;
  }

  get changed(): ISignal<this, StepperState> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  get canMove(): boolean {
    return !this._state.gone && stepsBegun(this._state.run) > 0;
  }

  /** Whether more can be asked than steps. */
  get canAsk(): boolean {
    return this.canMove && !this._state.still;
  }

  /** Ask for a step; steps outside of the run mean its ends. */
  goto(step: number): void {
    this._wish({ step, sequence: this._wanted.sequence });
  }

  first(): void {
    this.goto(0);
  }

  previous(): void {
    this.goto(this._wanted.step - 1);
  }

  next(): void {
    this.goto(this._wanted.step + 1);
  }

  last(): void {
    this.goto(stepsBegun(this._state.run) - 1);
  }

  /** Ask for the same step of one sequence, or of all (null). */
  choose(sequence: number | null): void {
    this._wish({ step: this._wanted.step, sequence });
  }

  /** Look at a line of the body. */
  look(line: number): void {
    const { first_line, body } = this._state.run;
    this._update({ line: Math.min(Math.max(line, first_line), first_line + body.length - 1) });
  }

  /** Look at the next line below (+1) or above (-1) that has something on it. */
  lookOn(direction: 1 | -1): void {
    const { first_line, body } = this._state.run;
    let at = (this._state.line ?? first_line) - first_line + direction;
    while (at > 0 && at < body.length - 1 && body[at].trim() === '') {
      at += direction;
    }
    this.look(first_line + at);
  }

  /** Go to the nearest step, from here on, where something holds that the user looks for. */
  goToHit(direction: Direction): void {
    if (this.canAsk) {
      this._finder.go(direction, this._wanted.step);
    }
  }

  cancelSearch(): void {
    this._finder.cancel();
  }

  /** Ask something else of this loop: its watches, what is searched for. */
  note(change: Partial<LoopNotes>): void {
    this._context.notes.change(this._state.run.loop, change);
  }

  toggleStop(line: number): void {
    if (this.canAsk) {
      this._context.notes.toggleStop(this._state.run, line);
    }
  }

  changeStop(stop: Stop, change: Partial<Stop>): void {
    const stops = this._state.notes.stops.map(other => (other === stop ? { ...stop, ...change } : other));
    this.note({ stops });
  }

  /** Show the ops that the lines are made of, or hide them. */
  toggleOps(): void {
    if (this._state.ops) {
      this._ops.hide();
    } else if (this._state.step && this.canAsk) {
      void this._ops.show(this._state.step, () => null);
    }
  }

  /** Look at one op of this step. */
  lookAtOp(number: number): void {
    const { step, ops } = this._state;
    if (step && ops) {
      void this._ops.show(step, () => number);
      this._followOp(ops.rows[number]);
    }
  }

  /** Go on by one op, into the next step behind the last; the first time to the line that is looked at. */
  stepOp(way: 1 | -1): void {
    const { step, ops, line, run } = this._state;
    if (!step || !this.canAsk || this._asked) {
      return;
    }
    if (!ops || ops.at === null) {
      void this._ops.show(step, rows => this._followOp(rows.find(row => row.line === line) ?? rows[0]));
      return;
    }
    const next = ops.at + way;
    if (next >= 0 && next < ops.rows.length) {
      this.lookAtOp(next);
    } else if (step.step + way >= 0 && step.step + way < stepsBegun(run)) {
      this._entry = way > 0 ? 'first' : 'last';
      this.goto(step.step + way);
    }
  }

  /** Go on from this step with other states, in a run of its own. */
  async fork(states: { [name: string]: string }): Promise<void> {
    const { step, trail } = this._state;
    const made = step && (await this._askAside('fork', { step: step.step, states, sequence: step.sequence }));
    if (step && made) {
      this._context.open(made.run, { step: step.step, sequence: step.sequence, trail });
    }
  }

  /** Open the run of a loop inside of this step. */
  async enter(): Promise<void> {
    const { step } = this._state;
    const found = step && (await this._askAside('loops', { step: step.step }));
    if (found?.length === 1) {
      this.enterRun(found[0].run);
    }
  }

  enterRun(inner: number): void {
    const { run, step, trail } = this._state;
    const here = { run: run.run, name: run.name, step: step?.step ?? 0, sequence: step?.sequence ?? null };
    this._context.open(inner, { step: 0, sequence: null, trail: [...trail, here] });
  }

  /** Back to a run around this one. */
  leaveTo(depth: number): void {
    const { run, step, sequence } = this._state.trail[depth];
    this._context.open(run, { step, sequence, trail: this._state.trail.slice(0, depth) });
  }

  /** To the run that this one was forked from. */
  openParent(): void {
    const { run, trail, step } = this._state;
    if (run.parent !== null) {
      this._context.open(run.parent, { step: run.forked_at ?? 0, sequence: step?.sequence ?? null, trail });
    }
  }

  gradients(loss: string): void {
    void this._askAside('gradients', { loss, sequence: this._state.step?.sequence ?? null });
  }

  compare(other: number): void {
    void this._askAside('compare', { other });
  }

  /** Put an answer away. */
  dismiss(name: keyof Asides): void {
    this._update({ asides: { ...this._state.asides, [name]: undefined } });
  }

  /** The kernel has forgotten the run. */
  lose(): void {
    this._finder.cancel();
    this._next = null;
    this._update({ gone: true, target: null, waiting: null });
  }

  dispose(): void {
    this._isDisposed = true;
    this._next = null;
    this._finder.cancel();
    Signal.clearData(this);
  }

  private get _wanted(): Wish {
    const { step } = this._state;
    return this._next ?? this._asked ?? { step: step?.step ?? 0, sequence: step?.sequence ?? null };
  }

  private _wish(wish: Wish): void {
    if (!this.canMove) {
      return;
    }
    const step = Math.min(Math.max(Math.round(wish.step), 0), stepsBegun(this._state.run) - 1);
    const wanted = { ...wish, step };
    if (this._asked) {
      this._next = wanted;
      this._update({ target: step });
    } else if (!this._isShown(wanted) || this._state.error !== null) {
      void this._ask(wanted);
    }
  }

  private async _ask(wish: Wish): Promise<void> {
    this._asked = wish;
    this._update({ target: wish.step, waiting: 'asked' });
    const args = { run: this._state.run.run, ...wish, watch: this._state.notes.watches };
    try {
      this._accept(await this._requests.request('step', args, waiting => this._update({ waiting })));
    } catch (error) {
      this.complain(error);
    }
    this._asked = null;
    const next = this._next;
    this._next = null;
    if (next && !this._isShown(next)) {
      void this._ask(next);
    } else {
      this._update({ target: null, waiting: null });
    }
  }

  /** Show an answer, unless another sequence was asked for meanwhile. */
  private _accept(step: StepView): void {
    const stale = step.run !== this._state.run.run || (this._next !== null && this._next.sequence !== step.sequence);
    if (!stale) {
      const line = this._state.step ? this._state.line : firstLine(this._state.run, step);
      this._update({ step, line, error: null });
      this._refreshOps(step);
      this._search(this._finder.state.searched > 0);
    }
  }

  /** Whether the answer is there already, with the values of all watches. */
  private _isShown(wish: Wish): boolean {
    const { step, notes } = this._state;
    const watched = step?.watches.map(row => row.text);
    return same(wish, step) && String(watched) === String(notes.watches);
  }

  private _search(start: boolean): void {
    const { notes, run, step } = this._state;
    this._finder.set(conditions(notes, run), step?.sequence ?? null, start);
  }

  private _refreshOps(step: StepView): void {
    const entry = this._entry;
    this._entry = null;
    if (this._state.ops) {
      const at = this._state.ops.at;
      void this._ops.show(step, rows => {
        const chosen = entry === null ? at : entry === 'first' ? 0 : rows.length - 1;
        return entry === null ? chosen : this._followOp(rows[chosen ?? 0]);
      });
    }
  }

  /** The line of an op becomes the line that is looked at. */
  private _followOp(row: OpRow | undefined): number | null {
    if (row && row.line !== null) {
      this.look(row.line);
    }
    return row?.number ?? null;
  }

  private _onNotes(_: Notes, loop: string): void {
    if (loop !== this._state.run.loop || this._state.gone) {
      return;
    }
    this._update({ notes: this._context.notes.of(loop) });
    this._search(true);
    if (this._state.step) {
      this._wish(this._wanted);
    }
  }

  private async _askAside<A extends keyof Asides>(name: A, args: Message['args']): Promise<Asides[A] | null> {
    const tell = (change: Partial<Aside<Asides[A]>>) => {
      const before = this._state.asides[name] ?? { waiting: false, error: null, answer: null };
      this._update({ asides: { ...this._state.asides, [name]: { ...before, ...change } } });
    };
    tell({ waiting: true, error: null });
    try {
      const answer = (await this._requests.request(name, { run: this._state.run.run, ...args })) as Answers[A] &
        Asides[A];
      tell({ waiting: false, answer });
      return answer;
    } catch (error) {
      tell({ waiting: false, error: error instanceof Error ? error.message : String(error) });
      return null;
    }
  }

  /** Say what went wrong. */
  complain(error: unknown): void {
    if (error instanceof Gone) {
      this.lose();
    } else {
      this._update({ error: error instanceof Error ? error.message : String(error) });
    }
  }

  private _update(change: Partial<StepperState>): void {
    if (!this._isDisposed) {
      this._state = { ...this._state, ...change };
      this._changed.emit(this._state);
    }
  }

  private _requests: IRequests;
  private _context: StepperContext;
  private _finder: Finder;
  private _ops: OpWalk;
  /** At which op to go on, if walking op by op leads into another step. */
  private _entry: 'first' | 'last' | null = null;
  private _state: StepperState;
  private _asked: Wish | null = null;
  private _next: Wish | null = null;
  private _isDisposed = false;
  private _changed = new Signal<this, StepperState>(this);
}

function same(wish: Wish, step: StepView | null): boolean {
  return step !== null && wish.step === step.step && wish.sequence === step.sequence;
}

/** The first line of the body that computed something. */
function firstLine(run: RunView, step: StepView | null): number | null {
  const lines = (step?.values ?? []).map(value => value.line);
  const inside = lines.filter(line => line > run.first_line && line < run.first_line + run.body.length);
  return inside.length > 0 ? Math.min(...inside) : null;
}
