import type { Waiting } from '../kernel/requests';
import type { RunView, StepView } from '../schema';
import type { AsidesState } from './asides';
import type { FindState } from './finder';
import type { LoopNotes, Notes } from './notes';

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
  /** Whether only steps can be had: there is no kernel that could compute. */
  still: boolean;
  /** The runs around this one, the outermost first. */
  trail: readonly Crumb[];
  asides: AsidesState;
}

/** How many steps can be looked at: those that were done, and one that failed. */
export function stepsBegun({ steps, failure }: RunView): number {
  return steps + (failure?.step === steps ? 1 : 0);
}

/** The first line of the body that computed something. */
export function firstLine(run: RunView, step: StepView | null): number | null {
  const lines = (step?.values ?? []).map(value => value.line);
  const inside = lines.filter(line => line > run.first_line && line < run.first_line + run.body.length);
  return inside.length > 0 ? Math.min(...inside) : null;
}
