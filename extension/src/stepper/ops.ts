import type { StepView } from '../schema';
import type { StepRequests } from './step_requests';
import { canAsk, stepsBegun } from './stepper_state';
import type { StepperStore } from './stepper_store';

/** Walks through the ops of a step, and on into the next steps. */
export class Ops {
  /**
   * @param look - makes a line of the body the current one
   */
  constructor(store: StepperStore, steps: StepRequests, look: (line: number) => void) {
    this._store = store;
    this._steps = steps;
    this._look = look;
  }

  /** Show or hide the ops of the lines. */
  toggle(): void {
    const { step } = this._store.state;
    if (step?.ops) {
      this._store.update({ step: { ...step, ops: null } });
    } else if (this._canAsk) {
      this._steps.want({ ops: true, op: null });
    }
  }

  /** Show the values of one op of this step; -1 is the last op. */
  goto(op: number): void {
    if (this._canAsk) {
      this._steps.want({ ops: true, op });
    }
  }

  /** Move by one op, at the ends into another step. The first time, go to the first op of the current line. */
  move(way: 1 | -1): void {
    const { step, run } = this._store.state;
    const { step: wanted, op: at } = this._steps.wanted;
    if (!this._canAsk || !step || step.step !== wanted) {
      return;
    }
    if (!step.ops || at === null) {
      this._atLine = true;
      this.goto(0);
    } else if (at + way >= 0 && at + way < step.ops.rows.length) {
      this.goto(at + way);
    } else if (step.step + way >= 0 && step.step + way < stepsBegun(run)) {
      this._steps.want({ step: step.step + way, op: way > 0 ? 0 : -1 });
    }
  }

  /** Move to the line of the current op; when ops were just opened, move to the first op of the current line instead. */
  follow(before: StepView | null, { ops }: StepView): void {
    if (!ops || (!this._atLine && ops.op?.number === before?.ops?.op?.number)) {
      return;
    }
    const { rows, op } = ops;
    const { line } = this._store.state;
    const entry = this._atLine ? rows.find(row => row.line === line) : undefined;
    this._atLine = false;
    const row = entry ?? (op ? rows[op.number] : undefined);
    if (row && row.number !== op?.number) {
      this.goto(row.number);
    } else if (row && row.line !== null && row.line !== line) {
      this._look(row.line);
    }
  }

  /** Whether there are ops: plain Python code has none. */
  private get _canAsk(): boolean {
    return canAsk(this._store.state) && !this._store.state.run.is_plain;
  }

  private _store: StepperStore;
  private _steps: StepRequests;
  private _look: (line: number) => void;
  /** Whether to move to the first op of the current line. */
  private _atLine = false;
}
