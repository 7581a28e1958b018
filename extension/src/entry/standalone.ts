import type { BeamStep, Message, Reply, RunView, StepView } from '../schema';
import inline, { IWidgetModel } from './inline';

/** The data of a run in a saved page: all of its steps, or some. */
export interface Recording {
  run: RunView;
  steps: StepView[];
  /** Of a search, the columns of the trees, by sequence; the steps have none of them. */
  trees?: { [sequence: string]: BeamStep[] };
}

/** Answers the stepper's requests from the data of the page, in place of a kernel. */
export class Recorded implements IWidgetModel {
  constructor(recording: Recording) {
    this._recording = recording;
  }

  readonly still = true;

  get(name: 'run'): RunView;
  get(name: 'first'): StepView | null;
  get(name: 'run' | 'first'): RunView | StepView | null {
    const { run, steps } = this._recording;
    return name === 'run' ? run : steps.length > 0 ? this._withTree(steps[0], 0) : null;
  }

  send(content: unknown): void {
    const reply = this.answer(content as Message);
    queueMicrotask(() => this._listeners.forEach(listener => listener(reply)));
  }

  on(_: 'msg:custom', callback: (content: unknown) => void): void {
    this._listeners.add(callback);
  }

  off(_: 'msg:custom', callback: (content: unknown) => void): void {
    this._listeners.delete(callback);
  }

  /** Answers with the requested step, or with the next one in that direction that the page has. */
  answer({ id, command, args }: Message): Reply {
    const found = command === 'step' ? this._find(args.step as number, (args.sequence ?? null) as number | null) : null;
    if (found) {
      this._at = found.step;
      return { id, status: 'ok', data: this._withTree(found, (args.seen ?? 0) as number), error: null };
    }
    const error =
      command === 'step'
        ? 'This page has only the steps of all sequences together.'
        : 'This page has only the recorded steps. Nothing can be computed without a kernel.';
    return { id, status: 'error', data: null, error };
  }

  /** The step with the columns of the tree that the stepper lacks. */
  private _withTree(step: StepView, seen: number): StepView {
    const { beam } = step;
    const columns = beam && this._recording.trees?.[beam.sequence];
    const since = Math.max(0, Math.min(seen, beam?.step ?? 0));
    return columns ? { ...step, beam: { ...beam, since, columns: columns.slice(since, beam.step + 1) } } : step;
  }

  private _find(step: number, sequence: number | null): StepView | null {
    const steps = this._recording.steps.filter(view => view.sequence === sequence);
    const ahead = steps.filter(view => view.step >= step);
    const behind = steps.filter(view => view.step <= step).reverse();
    const [first, second] = step >= this._at ? [ahead, behind] : [behind, ahead];
    return first[0] ?? second[0] ?? null;
  }

  private _recording: Recording;
  private _at = 0;
  private _listeners = new Set<(content: unknown) => void>();
}

/** Show the stepper above the history, which is collapsed. */
export function show(page: Document): void {
  const data = page.getElementById('rfnb-recording');
  const place = page.getElementById('rfnb-stepper');
  if (data && place) {
    inline.render({ model: new Recorded(JSON.parse(data.textContent ?? '') as Recording), el: place });
    page.getElementById('rfnb-history')?.removeAttribute('open');
  }
}

show(document);
