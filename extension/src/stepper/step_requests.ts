import { Latest } from '../kernel/latest';
import type { Args, IRequests } from '../kernel/requests';
import type { NodeAt, StepView } from '../schema';
import { Ahead } from './ahead';
import { canMove, stepsBegun } from './stepper_state';
import type { StepperStore } from './stepper_store';

/** After a jump, neighbours are requested once the user rests for so long, in ms: a slider that is dragged comes first. */
const REST = 250;

/**
 * What to request: a step, of one sequence or of all (null), of one hypothesis or of all (null), perhaps with its ops
 * and the values of one of them.
 */
export interface Wish {
  step: number;
  sequence: number | null;
  hypothesis: NodeAt | null;
  ops: boolean;
  op: number | null;
}

/** Requests the steps that a stepper shows: one at a time, and their neighbours when there is time. */
export class StepRequests {
  /**
   * @param show - shows an answer
   * @param complain - shows an error
   * @param isIdle - whether the kernel does nothing else, so that neighbours can be requested
   */
  constructor(
    requests: IRequests,
    store: StepperStore,
    show: (step: StepView) => void,
    complain: (error: unknown) => void,
    isIdle: () => boolean
  ) {
    this._ahead = new Ahead(requests);
    this._store = store;
    this._show = show;
    this._complain = complain;
    this._isIdle = isIdle;
  }

  /** The last request, or what is shown. */
  get wanted(): Wish {
    const { step } = this._store.state;
    const ops = step?.ops ?? null;
    const hypothesis = step?.beam?.hypothesis ?? null;
    const shown = { step: step?.step ?? 0, sequence: step?.sequence ?? null, hypothesis, ops: ops !== null };
    return this._latest.wanted ?? { ...shown, op: ops?.op?.number ?? null };
  }

  /** Request what is wanted now, changed in this way, unless it is shown already. */
  want(change: Partial<Wish>): void {
    const { state } = this._store;
    if (!canMove(state)) {
      return;
    }
    const wish = { ...this.wanted, ...change };
    wish.step = Math.min(Math.max(Math.round(wish.step), 0), stepsBegun(state.run) - 1);
    if (this._latest.wanted !== null || !this._isShown(wish) || state.error !== null) {
      this._store.update({ target: wish.step });
      this._latest.want(wish);
    }
  }

  /** Request a step at once, even if it is shown. */
  async again(step: number): Promise<void> {
    await this._ask({ ...this.wanted, step });
  }

  /** Forget all answers: the run has changed. */
  clear(): void {
    this._ahead.clear();
  }

  /** Make no more requests than the current one. */
  drop(): void {
    clearTimeout(this._expectLater);
    this._latest.drop();
  }

  private async _ask(wish: Wish): Promise<void> {
    clearTimeout(this._expectLater);
    this._store.update({ target: wish.step, waiting: 'asked' });
    const before = this._store.state.step?.step ?? -1;
    try {
      this._accept(await this._ahead.request(this._argsOf(wish), waiting => this._store.update({ waiting })));
    } catch (error) {
      this._complain(error);
    }
    const { next } = this._latest;
    if (!this._store.state.gone && (next === null || this._isShown(next))) {
      this._store.update({ target: null, waiting: null });
      const away = wish.step - before;
      this._expectLater = setTimeout(() => this._expectNear(wish, away < 0 ? -1 : 1), Math.abs(away) > 2 ? REST : 0);
    }
  }

  private _argsOf({ hypothesis, ...others }: Wish): Args<'step'> {
    const { run, notes } = this._store.state;
    const search = run.is_search ? { hypothesis, seen: this._seen(others.sequence) } : {};
    return { run: run.run, ...others, ...search, watch: notes.watches };
  }

  /** Show an answer, unless another sequence was requested meanwhile. */
  private _accept(step: StepView): void {
    const { next } = this._latest;
    if (step.run === this._store.state.run.run && (next === null || next.sequence === step.sequence)) {
      this._show(step);
    }
  }

  /** Request the steps that the user may go to next. */
  private _expectNear(wish: Wish, way: 1 | -1): void {
    const { error, gone, run } = this._store.state;
    if (error === null && !gone && this._isIdle()) {
      const steps = [wish.step + way, wish.step - way, wish.step + 2 * way];
      const near = steps.filter(step => step >= 0 && step < stepsBegun(run));
      this._ahead.expect(near.map(step => this._argsOf({ ...wish, step })));
    }
  }

  /** Whether the answer is shown already, with the values of all watches and the ops. */
  private _isShown(wish: Wish): boolean {
    const { step, notes } = this._store.state;
    const { ops, watches } = step ?? { ops: null, watches: [] };
    const isThere = step !== null && wish.step === step.step && wish.sequence === step.sequence;
    const isChosen = isSame(wish.hypothesis, step?.beam?.hypothesis ?? null);
    const isOp = wish.ops === (ops !== null) && (wish.op === null || wish.op === ops?.op?.number);
    return isThere && isChosen && isOp && String(watches.map(row => row.text)) === String(notes.watches);
  }

  /** How many columns of the tree of a sequence are there. */
  private _seen(sequence: number | null): number {
    const { tree } = this._store.state;
    return tree !== null && tree.sequence === (sequence ?? 0) ? tree.columns.length : 0;
  }

  private _ahead: Ahead;
  private _store: StepperStore;
  private _show: (step: StepView) => void;
  private _complain: (error: unknown) => void;
  private _isIdle: () => boolean;
  private _latest = new Latest<Wish>(
    wish => this._ask(wish),
    wish => this._isShown(wish)
  );
  private _expectLater: ReturnType<typeof setTimeout> | undefined;
}

function isSame(a: NodeAt | null, b: NodeAt | null): boolean {
  return a === b || (a !== null && b !== null && a.step === b.step && a.place === b.place);
}
