import type { Connection } from '../kernel/connection';
import type { PausedView, RunItem, RunView, StepView } from '../schema';
import type { Stepper } from './stepper';
import type { Place } from './stepper_state';

/** What the parts of a session know of the run that is shown, and how they show another one. */
export interface IShown {
  readonly connection: Connection;
  /** The recorded runs, newest first. */
  readonly runs: readonly RunItem[];
  /** The stepper of the run that is shown. */
  readonly stepper: Stepper | null;
  /** The loop that is paused in the running cell. */
  readonly paused: PausedView | null;
  readonly isDisposed: boolean;
  /**
   * Request a run and show it; `unasked`: the panel follows new runs, and keeps the user's place.
   *
   * @returns false if a run that comes unasked has to wait for the running cell
   */
  open(run: number, at?: Place | null, unasked?: boolean): Promise<boolean>;
  /** Show a run that has arrived. */
  show(run: RunView, at: Place | null, first?: StepView | null): void;
  /** A run that was about to be shown is no longer wanted. */
  cancelOpening(): void;
  /** Show an error. */
  complain(error: unknown): void;
}
