import type { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { Gone, IRequests, Waiting } from './requests';
import type { RunView, StepView } from './schema';

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
  constructor(requests: IRequests, run: RunView, first: StepView | null = null) {
    this._requests = requests;
    this._state = {
      run,
      step: first,
      line: firstLine(run, first),
      target: null,
      waiting: null,
      error: null,
      gone: false
    };
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
    return !this._state.gone && this._state.run.steps > 0;
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
    this.goto(this._state.run.steps - 1);
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

  /** The kernel has forgotten the run. */
  lose(): void {
    this._next = null;
    this._update({ gone: true, target: null, waiting: null });
  }

  /** Take the flags of a run that was still running when it was first seen. */
  refresh(run: RunView): void {
    this._update({ run });
  }

  dispose(): void {
    this._isDisposed = true;
    this._next = null;
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
    const step = Math.min(Math.max(Math.round(wish.step), 0), this._state.run.steps - 1);
    const wanted = { ...wish, step };
    if (this._asked) {
      this._next = wanted;
      this._update({ target: step });
    } else if (!same(wanted, this._state.step) || this._state.error !== null) {
      void this._ask(wanted);
    }
  }

  private async _ask(wish: Wish): Promise<void> {
    this._asked = wish;
    this._update({ target: wish.step, waiting: 'asked' });
    const args = { run: this._state.run.run, ...wish };
    try {
      this._accept(await this._requests.request('step', args, waiting => this._update({ waiting })));
    } catch (error) {
      this._fail(error);
    }
    this._asked = null;
    const next = this._next;
    this._next = null;
    if (next && !same(next, this._state.step)) {
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
    }
  }

  private _fail(error: unknown): void {
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
