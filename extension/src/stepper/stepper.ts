import type { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { Args, Dropped, Gone, IRequests } from '../kernel/requests';
import type { How, NodeAt, PausedView, RunView, StepView } from '../schema';
import { Asides, Question } from './asides';
import { grown } from './beam';
import { Direction, Finder } from './finder';
import { Held } from './held';
import { Hypotheses } from './hypotheses';
import { conditions, LoopNotes, Notes, Stop } from './notes';
import { Ops } from './ops';
import { RelatedRuns } from './related_runs';
import { StepRequests } from './step_requests';
import { canAsk, canMove, firstLine, firstState, StepperContext, StepperState, stepsBegun } from './stepper_state';
import { StepperStore } from './stepper_store';
import { TrainingSteps } from './training_steps';

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
    const store = new StepperStore(firstState(run, first, context), state => this._changed.emit(state));
    this._store = store;
    this._context = context;
    this._finder = new Finder(
      requests,
      { run: run.run, steps: stepsBegun(run) },
      () => store.update({ find: this._finder.state }),
      step => this.goto(step)
    );
    this._asides = new Asides(requests, run.run, () => store.update({ asides: this._asides.state }));
    this._steps = new StepRequests(
      requests,
      store,
      step => this._show(step),
      error => this.complain(error),
      () => context.isIdle?.() ?? false
    );
    this._held = new Held(store, this._steps, this._asides, context);
    this._training = new TrainingSteps(store, this._steps, context);
    this._hypotheses = new Hypotheses(store, this._steps);
    this._ops = new Ops(store, this._steps, line => this.look(line));
    this._related = new RelatedRuns(store, this._asides, context.open);
    this._search(false);
    context.notes.changed.connect(this._onNotes, this);
  }

  get state(): StepperState {
    return this._store.state;
  }

  get changed(): ISignal<this, StepperState> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  get canMove(): boolean {
    return canMove(this.state);
  }

  /** Request a step; a number outside of the run means its first or last step. */
  goto(step: number): void {
    this._steps.want({ step });
  }

  first(): void {
    this.goto(0);
  }

  previous(): void {
    this.goto(this._steps.wanted.step - 1);
  }

  /** Request the next step; after the last one, let the paused loop do one more. */
  next(): void {
    if (this._held.isLast(this._steps.wanted.step)) {
      this.resume('step');
    } else {
      this.goto(this._steps.wanted.step + 1);
    }
  }

  /** Let the paused loop go on; with `toMatch`, to the next step that matches the search or a marked line. */
  resume(how: How, toMatch = false): void {
    this._held.resume(how, toMatch);
  }

  /** Of a loop that was not recorded and raised: record the loops of all cells, and run its cell again. */
  recordAgain(): void {
    const { raised_in: cell } = this.state.run;
    if (cell) {
      this._context.recordAgain?.(cell);
    }
  }

  last(): void {
    this.goto(stepsBegun(this.state.run) - 1);
  }

  /** Request the run of a probe at another training step, at the same step of the loop if it has that many. */
  train(at: number): void {
    this._training.goto(at);
  }

  /** Request the run of a probe at the next (+1) or previous (-1) training step. */
  nextTraining(way: 1 | -1): void {
    this._training.move(way);
  }

  /** Request the same step of one sequence, or of all (null). */
  choose(sequence: number | null): void {
    this._steps.want({ sequence, hypothesis: null });
  }

  /** Request the step of a node of the tree, and choose its hypothesis; a page without a kernel only has the step. */
  chooseHypothesis(hypothesis: NodeAt | null): void {
    this._hypotheses.choose(hypothesis);
  }

  /** Choose the hypothesis with the next better (-1) or next worse (+1) score; above the best one are all of them. */
  nextHypothesis(way: 1 | -1): void {
    this._hypotheses.move(way);
  }

  /** Make a line of the body the current one. */
  look(line: number): void {
    const { first_line, body } = this.state.run;
    this._store.update({ line: Math.min(Math.max(line, first_line), first_line + body.length - 1) });
  }

  /** Move to the next line below (+1) or above (-1) that is not empty. */
  lookOn(direction: 1 | -1): void {
    const { first_line, body } = this.state.run;
    let at = (this.state.line ?? first_line) - first_line + direction;
    while (at > 0 && at < body.length - 1 && body[at].trim() === '') {
      at += direction;
    }
    this.look(first_line + at);
  }

  /** Go to the nearest matching step after or before this one. */
  goToHit(direction: Direction): void {
    if (canAsk(this.state)) {
      this._finder.go(direction, this._steps.wanted.step);
    }
  }

  cancelSearch(): void {
    this._finder.cancel();
  }

  /** Change the watches, the search or the marks of this loop. */
  note(change: Partial<LoopNotes>): void {
    this._context.notes.change(this.state.run.loop, change);
  }

  toggleStop(line: number): void {
    if (canAsk(this.state)) {
      this._context.notes.toggleStop(this.state.run, line);
    }
  }

  changeStop(stop: Stop, change: Partial<Stop>): void {
    const stops = this.state.notes.stops.map(other => (other === stop ? { ...stop, ...change } : other));
    this.note({ stops });
  }

  /** Show or hide the ops of the lines. */
  toggleOps(): void {
    this._ops.toggle();
  }

  /** Show the values of one op of this step; -1 is the last op. */
  lookAtOp(op: number): void {
    this._ops.goto(op);
  }

  /** Move by one op, at the ends into another step. The first time, go to the first op of the current line. */
  stepOp(way: 1 | -1): void {
    this._ops.move(way);
  }

  /** Continue from this step with other states, as a new run. */
  fork(states: { [name: string]: string }): Promise<boolean> {
    return this._related.fork(states);
  }

  /** Edit states of the paused loop, with which its next step begins. */
  edit(states: { [name: string]: string }): Promise<boolean> {
    return this._held.edit(states);
  }

  /** Name the axes of a variable at all steps. Returns whether the kernel took the names. */
  async nameAxes(name: string, text: string): Promise<boolean> {
    const { step } = this.state;
    const done = step && (await this._asides.ask('name_axes', { name, text, step: step.step }));
    if (done) {
      this._steps.clear();
      await this._steps.again(step.step);
    }
    return Boolean(done);
  }

  /** Show a value that is a row of weights at all steps, or hide it if it is shown. */
  async toggleRows(name: string): Promise<void> {
    const { step, asides } = this.state;
    const shown = asides.rows?.answer;
    if (shown?.name === name && shown.sequence === (step?.sequence ?? shown.sequence)) {
      this._asides.dismiss('rows');
    } else {
      await this._asides.ask('rows', { name, sequence: step?.sequence ?? null });
    }
  }

  /** Continue from a step with a pruned candidate in the beam, as a new run. */
  keep(step: number, candidate: number): Promise<void> {
    return this._related.keep(step, candidate);
  }

  /** Ask for the loops inside this step, or for those that begin at a line, and open the run if there is only one. */
  enter(line: number | null = null): Promise<void> {
    return this._related.enterOnly(line);
  }

  /** Open the run of a loop inside this step. */
  enterRun(inner: number): void {
    this._related.enter(inner);
  }

  /** Go back to a run that contains this one. */
  leaveTo(depth: number): void {
    this._related.leaveTo(depth);
  }

  /** Go to the newest run from one that was dropped. */
  openNewest(): void {
    this._context.openNewest?.();
  }

  /** Go to the run that this one was forked from. */
  openParent(): void {
    this._related.openParent();
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
    this._finder.grow(stepsBegun(run));
    this._held.grow(run, held);
    this._search(false);
  }

  /** The training has gone on: the probe has more runs. */
  learn(run: RunView): void {
    this._store.update({ run });
  }

  /** The paused loop goes on. */
  release(): void {
    this._held.release();
  }

  /** Show an error. */
  complain(error: unknown): void {
    if (error instanceof Gone) {
      this.lose(error instanceof Dropped);
    } else {
      this._store.update({ trainingTarget: null, error: error instanceof Error ? error.message : String(error) });
    }
  }

  /** The kernel no longer has the run, `dropped`: but others. The step that was requested stays wanted. */
  lose(dropped = false): void {
    this._finder.cancel();
    this._steps.drop();
    this._store.update({ gone: true, dropped, waiting: null });
  }

  dispose(): void {
    this._isDisposed = true;
    this._store.close();
    this._steps.drop();
    this._finder.cancel();
    Signal.clearData(this);
  }

  /** Show an answer of the kernel. */
  private _show(step: StepView): void {
    const { run, step: before, tree, line } = this.state;
    this._store.update({ step, tree: grown(tree, step.beam), line: line ?? firstLine(run, step), error: null });
    this._ops.follow(before, step);
    this._search(this._finder.state.searched > 0);
  }

  private _search(start: boolean): void {
    const { notes, run, step } = this.state;
    this._finder.set(conditions(notes, run), step?.sequence ?? null, start);
  }

  private _onNotes(_: Notes, loop: string): void {
    if (loop !== this.state.run.loop || this.state.gone) {
      return;
    }
    this._store.update({ notes: this._context.notes.of(loop) });
    this._search(true);
    if (this.state.step) {
      this._steps.want({});
    }
  }

  private _store: StepperStore;
  private _context: StepperContext;
  private _finder: Finder;
  private _asides: Asides;
  private _steps: StepRequests;
  private _held: Held;
  private _training: TrainingSteps;
  private _hypotheses: Hypotheses;
  private _ops: Ops;
  private _related: RelatedRuns;
  private _isDisposed = false;
  private _changed = new Signal<this, StepperState>(this);
}
