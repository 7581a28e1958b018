import type { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { Latest } from '../kernel/latest';
import { Args, Gone, IRequests } from '../kernel/requests';
import type { BeamAt, How, NodeAt, OpsView, PausedView, RunView, StepView } from '../schema';
import { Ahead } from './ahead';
import { Asides, Question } from './asides';
import { beside, grown } from './beam';
import { Direction, Finder } from './finder';
import { conditions, LoopNotes, Notes, Stop } from './notes';
import { firstLine, StepperContext, StepperState, stepsBegun } from './stepper_state';

/** After a jump, neighbours are requested once the user rests for so long, in ms: a slider that is dragged comes first. */
const REST = 250;

/**
 * What to request: a step, of one sequence or of all (null), of one hypothesis or of all (null), perhaps with its ops
 * and the values of one of them.
 */
interface Wish {
  step: number;
  sequence: number | null;
  hypothesis: NodeAt | null;
  ops: boolean;
  op: number | null;
}

/**
 * Walks through one run.
 *
 * It never decides by itself which step is shown: it requests a step and shows the answer.
 */
export class Stepper implements IDisposable {
  constructor(
    requests: IRequests,
    run: RunView,
    first: StepView | null = null,
    context: StepperContext = { notes: new Notes(), trail: [], open: () => undefined }
  ) {
    this._ahead = new Ahead(requests);
    this._context = context;
    this._finder = new Finder(
      requests,
      run,
      () => this._update({ find: this._finder.state }),
      step => this.goto(step)
    );
    this._asides = new Asides(requests, run.run, () => this._update({ asides: this._asides.state }));
    this._state = {
      run,
      step: first,
      tree: grown(null, first?.beam),
      line: firstLine(run, first),
      target: null,
      trainingTarget: context.trainingTarget ?? null,
      waiting: null,
      error: null,
      gone: false,
      held: null,
      notes: context.notes.of(run.loop),
      find: this._finder.state,
      still: context.still ?? false,
      canPause: context.resume !== undefined,
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

  /** Whether a kernel can answer more than recorded steps. */
  get canAsk(): boolean {
    return this.canMove && !this._state.still;
  }

  /** Request a step; a number outside of the run means its first or last step. */
  goto(step: number): void {
    this._wish({ step });
  }

  first(): void {
    this.goto(0);
  }

  previous(): void {
    this.goto(this._wanted.step - 1);
  }

  /** Request the next step; after the last one, let the paused loop do one more. */
  next(): void {
    const { held, run } = this._state;
    if (held !== null && this._wanted.step >= stepsBegun(run) - 1) {
      this.resume('step');
    } else {
      this.goto(this._wanted.step + 1);
    }
  }

  /** Let the paused loop go on; with `toMatch`, to the next step that matches the search or a marked line. */
  resume(how: How, toMatch = false): void {
    const { held, notes, run } = this._state;
    if (held !== null) {
      this._context.resume?.(how, toMatch ? conditions(notes, run) : []);
    }
  }

  last(): void {
    this.goto(stepsBegun(this._state.run) - 1);
  }

  /** Request the run of a probe at another training step, at the same step of the loop if it has that many. */
  train(at: number): void {
    const { run, step, line, trail } = this._state;
    if (this.canAsk && run.training && at !== (this._state.trainingTarget ?? run.training.step)) {
      const { wanted = 0 } = this._context;
      const isCut = this._wanted.step === stepsBegun(run) - 1 && wanted > this._wanted.step;
      this._update({ trainingTarget: at });
      const place = { step: isCut ? wanted : this._wanted.step, sequence: step?.sequence ?? null, trail, line };
      this._context.train?.(at, place);
    }
  }

  /** Request the run of a probe at the next (+1) or previous (-1) training step. */
  nextTraining(way: 1 | -1): void {
    const { run, trainingTarget } = this._state;
    const { steps = [], step = 0 } = run.training ?? {};
    const at = steps[steps.indexOf(trainingTarget ?? step) + way];
    if (at !== undefined) {
      this.train(at);
    }
  }

  /** Request the same step of one sequence, or of all (null). */
  choose(sequence: number | null): void {
    this._wish({ sequence, hypothesis: null });
  }

  /** Request the step of a node of the tree, and choose its hypothesis; a page without a kernel only has the step. */
  chooseHypothesis(hypothesis: NodeAt | null): void {
    const beam = this._state.step?.beam;
    if (beam && hypothesis && this._state.still) {
      this.goto(hypothesis.step);
    } else if (beam && !this._state.still) {
      this._wish({ step: hypothesis?.step ?? this._wanted.step, ...this._sequenceOf(beam), hypothesis });
    }
  }

  /** Choose the hypothesis with the next better (-1) or next worse (+1) score; above the best one are all of them. */
  nextHypothesis(way: 1 | -1): void {
    const { step } = this._state;
    if (step?.beam && step.step === this._wanted.step) {
      const { hypothesis } = this._wanted;
      const from = hypothesis === null ? null : hypothesis.step === step.beam.step ? hypothesis.place : step.beam.place;
      this._wish({ ...this._sequenceOf(step.beam), hypothesis: beside(step.beam, from, way) });
    }
  }

  /** Make a line of the body the current one. */
  look(line: number): void {
    const { first_line, body } = this._state.run;
    this._update({ line: Math.min(Math.max(line, first_line), first_line + body.length - 1) });
  }

  /** Move to the next line below (+1) or above (-1) that is not empty. */
  lookOn(direction: 1 | -1): void {
    const { first_line, body } = this._state.run;
    let at = (this._state.line ?? first_line) - first_line + direction;
    while (at > 0 && at < body.length - 1 && body[at].trim() === '') {
      at += direction;
    }
    this.look(first_line + at);
  }

  /** Go to the nearest matching step after or before this one. */
  goToHit(direction: Direction): void {
    if (this.canAsk) {
      this._finder.go(direction, this._wanted.step);
    }
  }

  cancelSearch(): void {
    this._finder.cancel();
  }

  /** Change the watches, the search or the marks of this loop. */
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

  /** Show or hide the ops of the lines. */
  toggleOps(): void {
    const { step } = this._state;
    if (step?.ops) {
      this._update({ step: { ...step, ops: null } });
    } else if (this.canAsk) {
      this._wish({ ops: true, op: null });
    }
  }

  /** Show the values of one op of this step; -1 is the last op. */
  lookAtOp(op: number): void {
    if (this.canAsk) {
      this._wish({ ops: true, op });
    }
  }

  /** Move by one op, at the ends into another step. The first time, go to the first op of the current line. */
  stepOp(way: 1 | -1): void {
    const { step, run } = this._state;
    if (!this.canAsk || !step || step.step !== this._wanted.step) {
      return;
    }
    const at = this._wanted.op;
    if (!step.ops || at === null) {
      this._atLine = true;
      this.lookAtOp(0);
    } else if (at + way >= 0 && at + way < step.ops.rows.length) {
      this.lookAtOp(at + way);
    } else if (step.step + way >= 0 && step.step + way < stepsBegun(run)) {
      this._wish({ step: step.step + way, op: way > 0 ? 0 : -1 });
    }
  }

  /** Continue from this step with other states, as a new run. */
  async fork(states: { [name: string]: string }): Promise<void> {
    const { step, trail } = this._state;
    const chosen = step?.beam?.hypothesis ? { hypothesis: step.beam.hypothesis } : {};
    const args = step && { step: step.step, states, sequence: step.sequence, ...chosen };
    const made = args && (await this._asides.ask('fork', args));
    if (step && made) {
      this._context.open(made.run, { step: step.step, sequence: step.sequence, trail });
    }
  }

  /** Edit states of the paused loop, with which its next step begins. */
  async edit(states: { [name: string]: string }): Promise<boolean> {
    const { step } = this._state;
    const run = await this._asides.ask('edit', { states, sequence: step?.sequence ?? null });
    if (run && step) {
      this._ahead.clear();
      this._update({ run });
      await this._ask({ ...this._wanted, step: step.step });
    }
    return run !== null;
  }

  /** Continue from a step with a pruned candidate in the beam, as a new run. */
  async keep(step: number, candidate: number): Promise<void> {
    const { step: shown, trail } = this._state;
    const sequence = shown?.beam?.sequence ?? null;
    const made = await this._asides.ask('keep', { step, candidate, sequence });
    if (made) {
      this._context.open(made.run, { step, sequence: shown?.sequence ?? null, trail });
    }
  }

  /** Open the run of a loop inside this step. */
  async enter(): Promise<void> {
    const { step } = this._state;
    const found = step && (await this._asides.ask('loops', { step: step.step }));
    if (found?.length === 1) {
      this.enterRun(found[0].run);
    }
  }

  enterRun(inner: number): void {
    const { run, step, trail } = this._state;
    const here = { run: run.run, name: run.name, step: step?.step ?? 0, sequence: step?.sequence ?? null };
    this._context.open(inner, { step: 0, sequence: null, trail: [...trail, here] });
  }

  /** Go back to a run that contains this one. */
  leaveTo(depth: number): void {
    const { run, step, sequence } = this._state.trail[depth];
    this._context.open(run, { step, sequence, trail: this._state.trail.slice(0, depth) });
  }

  /** Go to the run that this one was forked from. */
  openParent(): void {
    const { run, trail, step } = this._state;
    if (run.parent !== null) {
      this._context.open(run.parent, { step: run.forked_at ?? 0, sequence: step?.sequence ?? null, trail });
    }
  }

  /** Ask a question about the run; the answer will be in `state.asides`. */
  ask<Q extends Question>(name: Q, args: Omit<Args<Q>, 'run'>): void {
    void this._asides.ask(name, args);
  }

  /** Remove the answer to a question. */
  dismiss(name: Question): void {
    this._asides.dismiss(name);
  }

  /** The loop of the run was paused, went on, or has ended: the run has more steps. */
  grow(run: RunView, held: PausedView | null): void {
    this._ahead.clear();
    this._finder.grow(run.steps);
    this._update({ run, held });
    this._search(false);
  }

  /** The training has gone on: the probe has more runs. */
  learn(run: RunView): void {
    this._update({ run });
  }

  /** The paused loop goes on. */
  release(): void {
    this._update({ held: null });
  }

  /** Show an error. */
  complain(error: unknown): void {
    if (error instanceof Gone) {
      this.lose();
    } else {
      this._update({ trainingTarget: null, error: error instanceof Error ? error.message : String(error) });
    }
  }

  /** The kernel no longer has the run. */
  lose(): void {
    this._finder.cancel();
    this._questions.drop();
    this._update({ gone: true, target: null, waiting: null });
  }

  dispose(): void {
    this._isDisposed = true;
    clearTimeout(this._expectLater);
    this._questions.drop();
    this._finder.cancel();
    Signal.clearData(this);
  }

  /** The last request, or what is shown. */
  private get _wanted(): Wish {
    const { step } = this._state;
    const ops = step?.ops ?? null;
    const hypothesis = step?.beam?.hypothesis ?? null;
    const shown = { step: step?.step ?? 0, sequence: step?.sequence ?? null, hypothesis, ops: ops !== null };
    return this._questions.wanted ?? { ...shown, op: ops?.op?.number ?? null };
  }

  private _wish(change: Partial<Wish>): void {
    if (!this.canMove) {
      return;
    }
    const wish = { ...this._wanted, ...change };
    wish.step = Math.min(Math.max(Math.round(wish.step), 0), stepsBegun(this._state.run) - 1);
    if (this._questions.wanted !== null || !this._isShown(wish) || this._state.error !== null) {
      this._update({ target: wish.step });
      this._questions.want(wish);
    }
  }

  private async _ask(wish: Wish): Promise<void> {
    clearTimeout(this._expectLater);
    this._update({ target: wish.step, waiting: 'asked' });
    const before = this._state.step?.step ?? -1;
    try {
      this._accept(await this._ahead.request(this._argsOf(wish), waiting => this._update({ waiting })));
    } catch (error) {
      this.complain(error);
    }
    const { next } = this._questions;
    if (next === null || this._isShown(next)) {
      this._update({ target: null, waiting: null });
      const away = wish.step - before;
      this._expectLater = setTimeout(() => this._expectNear(wish, away < 0 ? -1 : 1), Math.abs(away) > 2 ? REST : 0);
    }
  }

  private _argsOf({ hypothesis, ...others }: Wish): Args<'step'> {
    const { run, notes } = this._state;
    const search = run.is_search ? { hypothesis, seen: this._seen(others.sequence) } : {};
    return { run: run.run, ...others, ...search, watch: notes.watches };
  }

  /** Request the steps that the user may go to next. */
  private _expectNear(wish: Wish, way: 1 | -1): void {
    if (this._state.error === null && !this._state.gone && this._context.isIdle?.()) {
      const steps = [wish.step + way, wish.step - way, wish.step + 2 * way];
      const near = steps.filter(step => step >= 0 && step < stepsBegun(this._state.run));
      this._ahead.expect(near.map(step => this._argsOf({ ...wish, step })));
    }
  }

  /** Show an answer, unless another sequence was requested meanwhile. */
  private _accept(step: StepView): void {
    const { next } = this._questions;
    if (step.run === this._state.run.run && (next === null || next.sequence === step.sequence)) {
      const before = this._state.step;
      const line = this._state.line ?? firstLine(this._state.run, step);
      this._update({ step, tree: grown(this._state.tree, step.beam), line, error: null });
      if (step.ops && (this._atLine || step.ops.op?.number !== before?.ops?.op?.number)) {
        this._followOp(step.ops);
      }
      this._search(this._finder.state.searched > 0);
    }
  }

  /** Move to the line of the current op; when ops were just opened, move to the first op of the current line instead. */
  private _followOp({ rows, op }: OpsView): void {
    const entry = this._atLine ? rows.find(row => row.line === this._state.line) : undefined;
    this._atLine = false;
    const row = entry ?? (op ? rows[op.number] : undefined);
    if (row && row.number !== op?.number) {
      this.lookAtOp(row.number);
    } else if (row && row.line !== null && row.line !== this._state.line) {
      this.look(row.line);
    }
  }

  /** Whether the answer is shown already, with the values of all watches and the ops. */
  private _isShown(wish: Wish): boolean {
    const { step, notes } = this._state;
    const { ops, watches } = step ?? { ops: null, watches: [] };
    const isThere = step !== null && wish.step === step.step && wish.sequence === step.sequence;
    const isChosen = isSame(wish.hypothesis, step?.beam?.hypothesis ?? null);
    const isOp = wish.ops === (ops !== null) && (wish.op === null || wish.op === ops?.op?.number);
    return isThere && isChosen && isOp && String(watches.map(row => row.text)) === String(notes.watches);
  }

  /** The sequence that a hypothesis belongs to. */
  private _sequenceOf(beam: BeamAt): Partial<Wish> {
    const { lengths, tags } = this._state.run;
    return lengths === null && tags === null ? {} : { sequence: this._wanted.sequence ?? beam.sequence };
  }

  /** How many columns of the tree of a sequence are there. */
  private _seen(sequence: number | null): number {
    const { tree } = this._state;
    return tree !== null && tree.sequence === (sequence ?? 0) ? tree.columns.length : 0;
  }

  private _search(start: boolean): void {
    const { notes, run, step } = this._state;
    this._finder.set(conditions(notes, run), step?.sequence ?? null, start);
  }

  private _onNotes(_: Notes, loop: string): void {
    if (loop !== this._state.run.loop || this._state.gone) {
      return;
    }
    this._update({ notes: this._context.notes.of(loop) });
    this._search(true);
    if (this._state.step) {
      this._wish({});
    }
  }

  private _update(change: Partial<StepperState>): void {
    if (!this._isDisposed) {
      this._state = { ...this._state, ...change };
      this._changed.emit(this._state);
    }
  }

  private _ahead: Ahead;
  private _context: StepperContext;
  private _finder: Finder;
  private _asides: Asides;
  private _questions = new Latest<Wish>(
    wish => this._ask(wish),
    wish => this._isShown(wish)
  );
  /** Whether to move to the first op of the current line. */
  private _atLine = false;
  private _state: StepperState;
  private _expectLater: ReturnType<typeof setTimeout> | undefined;
  private _isDisposed = false;
  private _changed = new Signal<this, StepperState>(this);
}

function isSame(a: NodeAt | null, b: NodeAt | null): boolean {
  return a === b || (a !== null && b !== null && a.step === b.step && a.place === b.place);
}
