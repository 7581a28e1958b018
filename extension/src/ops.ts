import { Gone, IRequests } from './requests';
import type { OpRow, OpView, StepView } from './schema';

/** The ops of the step that is shown. */
export interface OpsState {
  rows: readonly OpRow[];
  /** The op that is looked at, by its number. */
  at: number | null;
  /** What it took and gave, when that is there. */
  view: OpView | null;
  error: string | null;
}

/** Walks through the ops of a step; the numbers of an op are asked for when it is looked at. */
export class OpWalk {
  constructor(requests: IRequests, run: number, tell: () => void) {
    this._requests = requests;
    this._run = run;
    this._tell = tell;
  }

  /** null while they are not shown. */
  get state(): OpsState | null {
    return this._state;
  }

  /** Show the ops of a step, and look at one of them. */
  async show(step: StepView, choose: (rows: readonly OpRow[]) => number | null): Promise<void> {
    const round = ++this._round;
    try {
      const { rows } = this._step === step.step && this._state ? this._state : await this._ask(step);
      if (round === this._round) {
        this._step = step.step;
        this._update({ rows, at: choose(rows), view: null, error: null });
        await this._look(step, round);
      }
    } catch (error) {
      if (round === this._round && !(error instanceof Gone)) {
        this._update({ error: error instanceof Error ? error.message : String(error) });
      }
    }
  }

  hide(): void {
    this._round++;
    this._step = null;
    this._state = null;
    this._tell();
  }

  private async _ask(step: StepView): Promise<{ rows: readonly OpRow[] }> {
    const { ops } = await this._requests.request('ops', { run: this._run, step: step.step });
    return { rows: ops };
  }

  private async _look(step: StepView, round: number): Promise<void> {
    const number = this._state?.at ?? null;
    if (number !== null) {
      const args = { run: this._run, step: step.step, number, sequence: step.sequence };
      const view = await this._requests.request('op', args);
      if (round === this._round) {
        this._update({ view });
      }
    }
  }

  private _update(change: Partial<OpsState>): void {
    this._state = { ...(this._state ?? { rows: [], at: null, view: null, error: null }), ...change };
    this._tell();
  }

  private _requests: IRequests;
  private _run: number;
  private _tell: () => void;
  private _state: OpsState | null = null;
  private _step: number | null = null;
  private _round = 0;
}
