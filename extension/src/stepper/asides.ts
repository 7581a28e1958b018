import type { Answers, IRequests } from '../kernel/requests';
import type { ComparisonView, GradientsView, Message, RunItem, RunView } from '../schema';

/** What can be asked beside the steps. */
export interface Asked {
  fork: RunView;
  loops: RunItem[];
  gradients: GradientsView;
  compare: ComparisonView;
}

/** An answer that only one view waits for. */
export interface Aside<T> {
  waiting: boolean;
  error: string | null;
  answer: T | null;
}

export type AsidesState = { readonly [A in keyof Asked]?: Aside<Asked[A]> };

/** Asks about a run what is not part of a step; of each kind, the last answer stays until it is put away. */
export class Asides {
  constructor(requests: IRequests, run: number, tell: () => void) {
    this._requests = requests;
    this._run = run;
    this._tell = tell;
  }

  get state(): AsidesState {
    return this._state;
  }

  /** The answer; null if there is none, and then the state says why. */
  async ask<A extends keyof Asked>(name: A, args: Message['args']): Promise<Asked[A] | null> {
    this._change(name, { waiting: true, error: null });
    try {
      const asked = this._requests.request(name, { run: this._run, ...args });
      const answer = (await asked) as Answers[A] & Asked[A];
      this._change(name, { waiting: false, answer });
      return answer;
    } catch (error) {
      this._change(name, { waiting: false, error: error instanceof Error ? error.message : String(error) });
      return null;
    }
  }

  /** Put an answer away. */
  dismiss(name: keyof Asked): void {
    this._state = { ...this._state, [name]: undefined };
    this._tell();
  }

  private _change<A extends keyof Asked>(name: A, change: Partial<Aside<Asked[A]>>): void {
    const before = this._state[name] ?? { waiting: false, error: null, answer: null };
    this._state = { ...this._state, [name]: { ...before, ...change } };
    this._tell();
  }

  private _requests: IRequests;
  private _run: number;
  private _tell: () => void;
  private _state: AsidesState = {};
}
