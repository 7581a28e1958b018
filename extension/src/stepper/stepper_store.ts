import type { StepperState } from './stepper_state';

/** Holds the state of a stepper, which the parts of the stepper read and change. */
export class StepperStore {
  constructor(state: StepperState, onChange: (state: StepperState) => void) {
    this._state = state;
    this._onChange = onChange;
  }

  get state(): StepperState {
    return this._state;
  }

  update(change: Partial<StepperState>): void {
    if (!this._isClosed) {
      this._state = { ...this._state, ...change };
      this._onChange(this._state);
    }
  }

  /** Keep the state as it is from now on. */
  close(): void {
    this._isClosed = true;
  }

  private _state: StepperState;
  private _onChange: (state: StepperState) => void;
  private _isClosed = false;
}
