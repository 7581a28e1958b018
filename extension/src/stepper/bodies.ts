import type { IRequests } from '../kernel/requests';
import type { RunItem, RunView } from '../schema';
import type { Notes } from './notes';

/** At most this many loops of a notebook get marks in their cells before they are opened. */
const KNOWN_LOOPS = 24;

/** The text of each loop, from its newest run, so that its lines can be marked before it is opened. */
export class Bodies {
  constructor(requests: IRequests, notes: Notes, onChange: () => void) {
    this._requests = requests;
    this._notes = notes;
    this._onChange = onChange;
  }

  /** One run of each loop whose text is known. */
  get runs(): RunView[] {
    return [...this._runs.values()];
  }

  /** Request the text of each loop that is new, or has a newer run. */
  async learn(runs: readonly RunItem[]): Promise<void> {
    const newest = new Map([...runs].reverse().map(item => [item.loop, item.run]));
    const unknown = [...newest].filter(([loop, run]) => this._runs.get(loop)?.run !== run);
    for (const [loop, run] of unknown.slice(0, KNOWN_LOOPS)) {
      try {
        const view = await this._requests.request('run', { run });
        this._runs.set(loop, view);
        this._notes.follow(view);
      } catch {
        return; // the run was dropped meanwhile; the next list of runs is up to date
      }
    }
    [...this._runs.keys()].filter(loop => !newest.has(loop)).forEach(loop => this._runs.delete(loop));
    this._onChange();
  }

  /** Forget all: the kernel is another one. */
  clear(): void {
    this._runs.clear();
  }

  private _requests: IRequests;
  private _notes: Notes;
  private _onChange: () => void;
  private _runs = new Map<string, RunView>();
}
