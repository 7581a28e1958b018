import { ISignal, Signal } from '@lumino/signaling';

import type { RunView, Where } from '../schema';

/** A marked line of the body: the search stops at steps where its condition holds. */
export interface Stop {
  /** 1-based, in the file or cell. */
  line: number;
  /** The text of the line when it was marked: the mark holds for this text only. */
  code: string;
  kind: Where['kind'];
  limit: number | null;
}

/** The user's watches, search and marks for one loop. */
export interface LoopNotes {
  /** Expressions that are evaluated at each step. */
  watches: readonly string[];
  /** The condition in the search row. */
  where: Where | null;
  stops: readonly Stop[];
  /** Whether a running loop pauses where the search or a mark matches. */
  pauses: boolean;
}

const NOTHING: LoopNotes = { watches: [], where: null, stops: [], pauses: false };

/** The notes of each loop. They stay while runs of the loop come and go. */
export class Notes {
  of(loop: string): LoopNotes {
    return this._notes.get(keyOf(loop)) ?? NOTHING;
  }

  /** Emits the loop whose notes have changed. */
  get changed(): ISignal<this, string> {
    return this._changed;
  }

  change(loop: string, change: Partial<LoopNotes>): void {
    this._notes.set(keyOf(loop), { ...this.of(loop), ...change });
    this._changed.emit(loop);
  }

  /** Mark a line, or remove its mark. */
  toggleStop(run: RunView, line: number): void {
    const stops = this.of(run.loop).stops.filter(stop => holds(stop, run));
    const others = stops.filter(stop => stop.line !== line);
    const code = run.body[line - run.first_line];
    const made = code === undefined || others.length < stops.length ? [] : [stopAt(line, code)];
    this.change(run.loop, { stops: [...others, ...made].sort((a, b) => a.line - b.line) });
  }

  /** Move marks with their lines, whose numbers in this run are others than when they were marked. */
  follow(run: RunView): void {
    const { stops } = this.of(run.loop);
    const moved = stops.map(stop => (holds(stop, run) ? stop : moveTo(stop, run)));
    if (moved.some((stop, i) => stop !== stops[i])) {
      const lines = new Set(moved.map(({ line }) => line));
      this.change(run.loop, { stops: moved.filter(({ line }) => lines.delete(line)).sort((a, b) => a.line - b.line) });
    }
  }

  private _notes = new Map<string, LoopNotes>();
  private _changed = new Signal<this, string>(this);
}

/** A loop is the same one when lines are added above it: its line does not count. */
function keyOf(loop: string): string {
  return loop.replace(/:\d+:/, '::');
}

/** The mark at the nearest line with the same text; the mark itself if there is none. */
function moveTo(stop: Stop, run: RunView): Stop {
  const lines = run.body.flatMap((code, i) => (code === stop.code ? [run.first_line + i] : []));
  const nearest = lines.sort((a, b) => Math.abs(a - stop.line) - Math.abs(b - stop.line))[0];
  return nearest === undefined ? stop : { ...stop, line: nearest };
}

/** Whether the line still has the text that it had when it was marked. */
export function holds(stop: Stop, run: RunView): boolean {
  return run.body[stop.line - run.first_line] === stop.code;
}

/** All conditions that the search looks for in a run. */
export function conditions(notes: LoopNotes, run: RunView): Where[] {
  const stops = notes.stops.filter(stop => holds(stop, run));
  return [
    ...(notes.where && isComplete(notes.where) ? [notes.where] : []),
    ...stops.map(({ line, kind, limit }) => ({ kind, line, limit, name: null, text: null }))
  ];
}

function stopAt(line: number, code: string): Stop {
  return { line, code, kind: 'changes', limit: null };
}

function isComplete(where: Where): boolean {
  switch (where.kind) {
    case 'expression':
    case 'falls out':
      return (where.text ?? '').trim() !== '';
    case 'over':
      return where.limit !== null;
    case 'changes':
    case 'repeats':
      return where.name !== null;
    default:
      return true;
  }
}
