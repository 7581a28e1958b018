import type { Waiting } from '../kernel/requests';
import type { How, PausedView, RunView, StepView, Where } from '../schema';
import type { AsidesState } from './asides';
import { BeamTree, grown } from './beam';
import { FindState, NOT_SEARCHED } from './finder';
import type { LoopNotes, Notes } from './notes';

/** A run that contains the current one, and the step from which the current one was entered. */
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
  /** The current line. */
  line?: number | null;
}

/** What the place where a stepper is shown gives to it. */
export interface StepperContext {
  notes: Notes;
  trail: readonly Crumb[];
  /** Whether there is no kernel, so that only recorded steps can be shown. */
  still?: boolean;
  /** Show another run instead of this one. */
  open: (run: number, at: Place) => void;
  /** Whether the kernel does nothing else, so that steps can be requested before the user asks for them. */
  isIdle?: () => boolean;
  /** Let the paused loop go on. */
  resume?: (how: How, where: Where[]) => void;
  /** Record the loops of all cells, and run this one again. */
  recordAgain?: (cell: string) => void;
  /** Show the newest run instead of this one, which was dropped. */
  openNewest?: () => void;
  /** Show the run of a probe at another training step. */
  train?: (at: number, place: Place) => void;
  /** The training step that is requested meanwhile. */
  trainingTarget?: number | null;
  /** The step that the user wanted, which this run may not have. */
  wanted?: number;
}

/** Everything that the views show of one run. */
export interface StepperState {
  run: RunView;
  /** The step that is shown: the last answer of the kernel. */
  step: StepView | null;
  /** The tree of a search, as far as it has been stepped through. */
  tree: BeamTree | null;
  /** The current line, 1-based in the file or cell. */
  line: number | null;
  /** The step that was requested; null once its answer is shown. */
  target: number | null;
  /** The training step that was requested; null once its run is shown. */
  trainingTarget: number | null;
  waiting: Waiting | null;
  error: string | null;
  /** Whether the kernel no longer has the run; the last step that was loaded is still shown. */
  gone: boolean;
  /** Whether it is gone while others are kept. */
  dropped: boolean;
  /** Where the loop is paused in the running cell; null once it goes on. */
  held: PausedView | null;
  notes: LoopNotes;
  find: FindState;
  /** Whether there is no kernel, so that only recorded steps can be shown. */
  still: boolean;
  /** Whether running loops can be paused from here, and cells run again. */
  canPause: boolean;
  /** The runs that contain this one, the outermost first. */
  trail: readonly Crumb[];
  asides: AsidesState;
}

/** The state of a stepper that has requested nothing yet. */
export function firstState(run: RunView, first: StepView | null, context: StepperContext): StepperState {
  return {
    run,
    step: first,
    tree: grown(null, first?.beam),
    line: firstLine(run, first),
    target: null,
    trainingTarget: context.trainingTarget ?? null,
    waiting: null,
    error: null,
    gone: false,
    dropped: false,
    held: null,
    notes: context.notes.of(run.loop),
    find: NOT_SEARCHED,
    still: context.still ?? false,
    canPause: context.resume !== undefined,
    trail: context.trail,
    asides: {}
  };
}

/** Number of steps that can be shown: all completed ones, and the one that failed. */
export function stepsBegun({ steps, failure }: RunView): number {
  return steps + (failure?.step === steps ? 1 : 0);
}

/** Whether there is a step to go to. */
export function canMove({ gone, run }: StepperState): boolean {
  return !gone && stepsBegun(run) > 0;
}

/** Whether a kernel can answer more than recorded steps. */
export function canAsk(state: StepperState): boolean {
  return canMove(state) && !state.still;
}

/** The place that is shown, or the one that was requested. */
export function placeOf({ step, target }: StepperState): Place | null {
  const at = target ?? step?.step;
  return at === undefined ? null : { step: at, sequence: step?.sequence ?? null, trail: [] };
}

/** The first line of the body that computed something. */
export function firstLine(run: RunView, step: StepView | null): number | null {
  const lines = (step?.values ?? []).map(value => value.line);
  const inside = lines.filter(line => line > run.first_line && line < run.first_line + run.body.length);
  return inside.length > 0 ? Math.min(...inside) : null;
}
