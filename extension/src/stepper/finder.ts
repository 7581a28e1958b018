import { Gone, IRequests } from '../kernel/requests';
import type { Where } from '../schema';

export type Direction = 'next' | 'previous';

/** The progress and the results of a search. */
export interface FindState {
  /** The steps that match, in order. */
  hits: readonly number[];
  /** Number of steps that were searched. */
  searched: number;
  running: boolean;
  /** The direction in which there is no match. */
  none: Direction | null;
  error: string | null;
}

export const NOT_SEARCHED: FindState = { hits: [], searched: 0, running: false, none: null, error: null };

const UNKNOWN = 0;
const MISS = 1;
const HIT = 2;

/**
 * Searches a run part by part: the kernel searches for a moment and answers how far it came, then gets the next part.
 *
 * Steps on the way to the match that the user waits for come first, then all others, which get marks on the slider.
 */
export class Finder {
  constructor(
    requests: IRequests,
    run: { run: number; steps: number },
    tell: () => void,
    goto: (step: number) => void
  ) {
    this._requests = requests;
    this._run = run;
    this._tell = tell;
    this._goto = goto;
    this._known = new Uint8Array(run.steps);
  }

  get state(): FindState {
    return this._state;
  }

  /** Search for other conditions, in one sequence or in all; earlier matches are dropped. */
  set(wheres: readonly Where[], sequence: number | null, start: boolean): void {
    const key = JSON.stringify([wheres, sequence]);
    if (key !== this._key) {
      this.cancel();
      this._key = key;
      this._wheres = wheres;
      this._sequence = sequence;
      this._known.fill(UNKNOWN);
      this._update({ ...NOT_SEARCHED });
    }
    if (start && wheres.length > 0) {
      void this._search();
    }
  }

  /** Go to the nearest match after or before a step, as soon as it is known. */
  go(direction: Direction, from: number): void {
    if (this._wheres.length > 0) {
      this._wanted = { direction, from };
      this._update({ none: null, error: null });
      void this._search();
    }
  }

  /** The run has this many steps now. */
  grow(steps: number): void {
    const known = new Uint8Array(steps);
    known.set(this._known.subarray(0, steps));
    this._known = known;
    this._run = { ...this._run, steps };
  }

  /** Stop searching. The matches so far stay. */
  cancel(): void {
    this._round++;
    this._wanted = null;
    if (this._state.running) {
      this._update({ running: false });
    }
  }

  private async _search(): Promise<void> {
    if (this._state.running) {
      return; // the running search continues with the part that is now wanted first
    }
    const round = ++this._round;
    let part = this._nextPart();
    while (part !== null) {
      this._update({ running: true });
      try {
        const args = { run: this._run.run, where: this._wheres, sequence: this._sequence, ...part };
        const found = await this._requests.request('find', args);
        if (round !== this._round) {
          return;
        }
        this._learn(part, found.next ?? part.stop, found.hits);
      } catch (error) {
        if (round === this._round) {
          this._fail(error);
        }
        return;
      }
      part = this._nextPart();
    }
    if (this._state.running) {
      this._update({ running: false });
    }
  }

  /** The part to search next, first on the way to the wanted match. Goes to that match if it is known already. */
  private _nextPart(): { start: number; stop: number } | null {
    const { steps } = this._run;
    if (this._wanted) {
      const { direction, from } = this._wanted;
      const way = direction === 'next' ? 1 : -1;
      let step = from + way;
      while (step >= 0 && step < steps && this._known[step] === MISS) {
        step += way;
      }
      const inside = step >= 0 && step < steps;
      if (inside && this._known[step] === UNKNOWN) {
        return this._unknownFrom(step, way);
      }
      this._wanted = null;
      if (inside) {
        this._goto(step);
      } else {
        this._update({ none: direction });
      }
    }
    const rest = this._known.indexOf(UNKNOWN);
    return rest < 0 ? null : this._unknownFrom(rest, 1);
  }

  private _unknownFrom(start: number, way: 1 | -1): { start: number; stop: number } {
    let stop = start;
    while (stop >= 0 && stop < this._run.steps && this._known[stop] === UNKNOWN) {
      stop += way;
    }
    return { start, stop };
  }

  private _learn(part: { start: number; stop: number }, until: number, hits: readonly number[]): void {
    const way = part.stop > part.start ? 1 : -1;
    for (let step = part.start; step !== until; step += way) {
      this._known[step] = MISS;
    }
    hits.forEach(step => (this._known[step] = HIT));
    const all = [...this._known.keys()].filter(step => this._known[step] === HIT);
    this._update({ hits: all, searched: this._known.filter(known => known !== UNKNOWN).length });
  }

  private _fail(error: unknown): void {
    this._wanted = null;
    const words = error instanceof Error ? error.message : String(error);
    this._update({ running: false, error: error instanceof Gone ? null : words });
  }

  private _update(change: Partial<FindState>): void {
    this._state = { ...this._state, ...change };
    this._tell();
  }

  private _requests: IRequests;
  private _run: { run: number; steps: number };
  private _tell: () => void;
  private _goto: (step: number) => void;
  private _known: Uint8Array;
  private _wheres: readonly Where[] = [];
  private _sequence: number | null = null;
  private _key = '';
  private _wanted: { direction: Direction; from: number } | null = null;
  private _round = 0;
  private _state: FindState = NOT_SEARCHED;
}
