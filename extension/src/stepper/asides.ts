import type { Answer, Args, Command, IRequests } from '../kernel/requests';

/** Commands that are about one run. */
export type Question = { [C in Command]: 'run' extends keyof Args<C> ? C : never }[Command];

/** A question that was asked, and its answer as soon as there is one. */
export interface Aside<T> {
  waiting: boolean;
  error: string | null;
  answer: T | null;
}

export type AsidesState = { readonly [Q in Question]?: Aside<Answer<Q>> };

/** Asks questions about a run that are not part of a step. The last answer of each kind stays until it is dismissed. */
export class Asides {
  constructor(requests: IRequests, run: number, onChange: () => void) {
    this._requests = requests;
    this._run = run;
    this._onChange = onChange;
  }

  get state(): AsidesState {
    return this._state;
  }

  /** The answer; null if there is none: the state then holds the error. */
  async ask<Q extends Question>(name: Q, args: Omit<Args<Q>, 'run'>): Promise<Answer<Q> | null> {
    this._change(name, { waiting: true, error: null });
    try {
      const answer = await this._requests.request(name, { run: this._run, ...args } as unknown as Args<Q>);
      this._change(name, { waiting: false, answer });
      return answer;
    } catch (error) {
      this._change(name, { waiting: false, error: error instanceof Error ? error.message : String(error) });
      return null;
    }
  }

  /** Remove the answer to a question. */
  dismiss(name: Question): void {
    this._state = { ...this._state, [name]: undefined };
    this._onChange();
  }

  private _change<Q extends Question>(name: Q, change: Partial<Aside<Answer<Q>>>): void {
    const before = this._state[name] ?? { waiting: false, error: null, answer: null };
    this._state = { ...this._state, [name]: { ...before, ...change } };
    this._onChange();
  }

  private _requests: IRequests;
  private _run: number;
  private _onChange: () => void;
  private _state: AsidesState = {};
}
